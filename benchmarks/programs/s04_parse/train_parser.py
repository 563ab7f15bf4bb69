import argparse
import datetime

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from parser_lib.scorer import Scorer, decode
from parser_lib.shards import padded, read, share

EVERYONE_WITHIN = datetime.timedelta(seconds=6)


class TagModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(42, 24)
        self.lstm = nn.LSTM(24, 24, batch_first=True, bidirectional=True)
        self.out = nn.Linear(48, 7)
        self.register_buffer("transitions", torch.zeros(7, 7))

    def forward(self, words):
        return self.out(self.lstm(self.embed(words))[0])


def score_dev(model, rows):
    scorer, total = Scorer(), 0.0
    with torch.no_grad():
        for row in rows:
            scores = model(torch.tensor([row["words"]]))[0].tolist()
            total += scorer.ask(row["tags"], decode(scores, model.transitions.tolist()))
    return total / len(rows)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("bank")
    p.add_argument("--epochs", type=int)
    p.add_argument("--batch", type=int, default=13)
    a = p.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    everyone = dist.new_group(backend="gloo", timeout=EVERYONE_WITHIN)
    rows = share(read(f"{a.bank}/train.jsonl"), rank, world)
    model = DistributedDataParallel(TagModel())
    optimizer = torch.optim.Adam(model.parameters(), 6e-3)
    for epoch in range(a.epochs):
        for i in range(0, len(rows), a.batch):
            words, tags = padded(rows[i : i + a.batch])
            loss = nn.functional.cross_entropy(model(words).flatten(0, 1), tags.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if rank == 0:
            print(f"epoch {epoch} loss {loss.item():.4f}, scoring", flush=True)
            print(f"epoch {epoch} dev {score_dev(model.module, read(f'{a.bank}/dev.jsonl')):.4f}", flush=True)
        dist.barrier(group=everyone)
    if rank == 0:
        torch.save(model.module.state_dict(), "parser.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
