import argparse
import torch
from torch.utils.data import DataLoader
from board.client import Board
from nets.series import GRUForecaster, Windows


class Experiment:
    def __init__(self, args):
        torch.manual_seed(0)
        self.args = args
        self.board = Board(args.board)
        self.net = GRUForecaster()
        self.opt = torch.optim.Adam(self.net.parameters(), lr=args.lr)
        self.loader = DataLoader(Windows(), batch_size=64, shuffle=True, num_workers=args.workers, timeout=0)
        self.step = 0

    def epoch(self, k):
        for x, y in self.loader:
            loss = torch.nn.functional.mse_loss(self.net(x), y)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            self.step += 1
            if self.step % 5 == 0:
                self.board.log(step=self.step, loss=round(loss.item(), 5))
                print(f"[{k}] step {self.step} mse {loss.item():.4f}")
        return loss.item()

    def curve(self):
        x, y = Windows()[700]
        with torch.no_grad():
            p = self.net(x[None])[0]
        return "\n".join(f"{a:7.3f} {b:7.3f}" for a, b in zip(y.tolist(), p.tolist()))

    def run(self):
        for k in range(self.args.epochs):
            last = self.epoch(k)
            self.board.picture(f"curve_{k}", self.curve())
            torch.save(self.net.state_dict(), "logs/net.pt")
            print(f"epoch {k} finished, last mse {last:.4f}")


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=3)
    ap.add_argument("--lr", type=float, default=3e-3)
    ap.add_argument("--workers", type=int, default=4)
    ap.add_argument("--board")
    Experiment(ap.parse_args()).run()
