import logging
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.data import DataLoader, random_split

from shop.orders import History
from shop.recommender import Recommender, suggest


@dataclass
class Config:
    orders: str = "orders.jsonl"
    length: int = 10
    width: int = 32
    batch: int = 50
    epochs: int = 4
    lr: float = 4e-3
    shown: int = 5
    seed: int = 2


def hit_rate(model, part, shown):
    hits = seen = 0
    for items, prices, nxt in DataLoader(part, 100):
        drawn = suggest(model, items, prices, shown)
        hits += (drawn == nxt[:, None]).any(-1).sum().item()
        seen += len(nxt)
    return hits / seen


def main(config):
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    torch.manual_seed(config.seed)
    torch.set_num_threads(1)
    history = History(config.orders, config.length)
    train, held = random_split(history, [1300, 200])
    model = Recommender(config.width)
    optimizer = torch.optim.Adam(model.parameters(), config.lr)
    loader = DataLoader(train, config.batch, shuffle=True)
    step, running = 0, None
    for epoch in range(config.epochs):
        for items, prices, nxt in loader:
            loss = nn.functional.cross_entropy(model(items, prices), nxt)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            running = loss.item() if running is None else 0.9 * running + 0.1 * loss.item()
            step += 1
            if step % 10 == 0:
                logging.info("step %d loss %.3f", step, running)
        logging.info("epoch %d hit rate %.3f", epoch, hit_rate(model, held, config.shown))
    torch.save(model.state_dict(), "recommender.pt")


if __name__ == "__main__":
    main(Config())
