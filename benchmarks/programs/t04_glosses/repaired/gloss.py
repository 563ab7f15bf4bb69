import argparse
import logging

import torch
from torch import nn
from torch.utils.data import DataLoader

from lexis.lexicon import Lexicon
from lexis.words import Words, sample

logging.basicConfig(level=logging.INFO, format="%(relativeCreated)8d %(levelname)s %(message)s")


class Tagger(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.letters = nn.Embedding(27, width, padding_idx=0)
        self.rnn = nn.GRU(width, width, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * width + 2, 4)

    def forward(self, letters, numbers):
        h, _ = self.rnn(self.letters(letters))
        return self.out(torch.cat([h.amax(1), numbers], -1))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--lexicon")
    p.add_argument("--epochs", type=int)
    p.add_argument("--workers", type=int)
    p.add_argument("--batch", type=int, default=64)
    a = p.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    words = sample(a.lexicon, 40)
    model = Tagger()
    optimizer = torch.optim.Adam(model.parameters(), 4e-3)
    lexicon = Lexicon(a.lexicon)
    lexicon.read()
    loader = DataLoader(Words(words, lexicon), a.batch, shuffle=True, num_workers=a.workers, persistent_workers=True)
    logging.info("%d words, %d batches", len(words), len(loader))
    step = 0
    for epoch in range(a.epochs):
        for letters, numbers, tag in loader:
            loss = nn.functional.cross_entropy(model(letters, numbers), tag)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step % 20 == 0:
                logging.info("step %d loss %.4f", step, loss.item())
    torch.save(model.state_dict(), "tagger.pt")


if __name__ == "__main__":
    main()
