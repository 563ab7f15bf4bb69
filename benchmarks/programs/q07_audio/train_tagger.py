import sys
import torch
from omegaconf import OmegaConf
from torch.utils.data import DataLoader
from tagger.book import open_book
from tagger.clips import Clips
from tagger.net import tagger

DEFAULTS = OmegaConf.create({"train": {"epochs": 4, "workers": 2, "batch": 16, "lr": 3e-3, "clips": 480}, "log": {"dir": "book"}})


def main(cfg):
    torch.manual_seed(0)
    book = open_book(cfg.log.dir)
    net = tagger()
    opt = torch.optim.AdamW(net.parameters(), lr=cfg.train.lr)
    loader = DataLoader(Clips(cfg.train.clips), cfg.train.batch, shuffle=True, num_workers=cfg.train.workers)
    step = 0
    for epoch in range(cfg.train.epochs):
        for w, y in loader:
            loss = torch.nn.functional.cross_entropy(net(w), y)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            step += 1
            for _ in range(10):
                book.note("grad", step=step, norm=round(float(net[0].weight.grad.norm()), 5))
            if step % 6 == 0:
                print(f"epoch {epoch} step {step} ce {loss.item():.4f}")
        book.write_out()
    book.writer.join()
    torch.save(net.state_dict(), "tagger.pt")
    print("end of training")


if __name__ == "__main__":
    main(OmegaConf.merge(DEFAULTS, OmegaConf.from_cli(sys.argv[1:])))
