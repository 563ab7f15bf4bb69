import argparse
import logging

import torch
from torch import nn
from torch.utils.data import DataLoader

from speech.corpus import Utterances, collate, read, split
from speech.lexicon import Inventory, Lexicon
from speech.net import DialectNet, confusion

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
log = logging.getLogger("fit")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--corpus")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch", type=int, default=24)
    parser.add_argument("--rare", type=int, default=12, help="fewer utterances than this: no class of its own")
    parser.add_argument("--warm", type=int, default=2, help="epochs of short utterances only")
    parser.add_argument("--short", type=int, default=11)
    parser.add_argument("--lr", type=float, default=1e-3)
    options = parser.parse_args()
    torch.manual_seed(17)
    torch.set_num_threads(1)

    training, held = split(read(options.corpus))
    lexicon = Lexicon([row["text"] for row in training])
    labels = [row["dialect"] for row in training]
    inventory = Inventory(labels, options.rare)
    log.info("%d dialects: %s", len(inventory.names), ", ".join(inventory.names))
    if inventory.dropped:
        log.info("too few of %s", ", ".join(inventory.dropped))

    order = torch.Generator().manual_seed(2)

    def batches(rows):
        return DataLoader(Utterances(rows, lexicon, inventory), options.batch, shuffle=True, generator=order, collate_fn=collate)

    short = [row for row in training if len(row["text"].split()) <= options.short]
    held_loader = DataLoader(Utterances(held, lexicon, inventory), 64, collate_fn=collate)
    classes = len(inventory.names) + 1
    model = DialectNet(len(lexicon), classes)
    weight = torch.tensor(inventory.weights(labels) + [1.0])
    criterion = nn.CrossEntropyLoss(weight=weight, ignore_index=-100, label_smoothing=0.05)
    optimizer = torch.optim.Adam(model.parameters(), options.lr)
    log.info("%d parameters, embedding of %d words", sum(p.numel() for p in model.parameters()), len(lexicon))

    step = 0
    for epoch in range(options.epochs):
        for tokens, target in batches(short if epoch < options.warm else training):
            loss = criterion(model(tokens), target)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            step += 1
            if step % 5 == 0:
                log.info("step %d loss %.4f longest %d", step, loss.item(), tokens.shape[1])
        table = confusion(model, held_loader, classes)
        log.info("epoch %d accuracy %.3f", epoch, table.diag().sum().item() / max(1, table.sum().item()))
    for n in range(classes):
        log.info("%-12s %s", inventory.decode(n), table[n].tolist())
    torch.save(model.state_dict(), "dialects.pt")


if __name__ == "__main__":
    main()
