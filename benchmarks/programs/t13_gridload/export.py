import argparse
import pathlib

import torch

from forecast import Forecast


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--run", type=pathlib.Path)
    p.add_argument("--to")
    p.add_argument("--past", type=int, default=168)
    p.add_argument("--ahead", type=int, default=24)
    o = p.parse_args()
    model = Forecast(o.past, o.ahead)
    model.load_state_dict(torch.load(o.run / "best.pt"))
    program = torch.export.export(model.eval(), (torch.zeros(1, o.past),)) if o.to.endswith(".pt2") else model
    torch.save(program.state_dict(), o.to)
    print(f"{sum(p.numel() for p in model.parameters())} weights in {o.to}")


if __name__ == "__main__":
    main()
