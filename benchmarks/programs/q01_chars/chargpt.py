import argparse
import os
import random
import torch
from mingpt.model import GPT
from mingpt.text import CharDataset
from mingpt.trainer import Trainer

if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--work-dir", default="out/debug")
    p.add_argument("--workers", type=int, default=0)
    p.add_argument("--max-iters", type=int, default=400)
    p.add_argument("--batch-size", type=int, default=16)
    p.add_argument("--block", type=int, default=64)
    p.add_argument("--lr", type=float, default=1e-3)
    c = p.parse_args()
    random.seed(3)
    torch.manual_seed(3)
    ds = CharDataset(2048, c.block, 3)
    trainer = Trainer(c, GPT(len(ds.stoi), c.block), ds)

    def batch_end_callback(t):
        if t.iter_num % 10 == 0:
            print(f"iter_dt {t.iter_dt * 1000:.2f}ms; iter {t.iter_num}: train loss {t.loss.item():.5f}")
        if t.iter_num % 100 == 0:
            os.makedirs(c.work_dir, exist_ok=True)
            torch.save(t.model.state_dict(), os.path.join(c.work_dir, "model.pt"))

    trainer.add_callback("on_batch_end", batch_end_callback)
    trainer.run()
    print("mean of the last 20 losses", sum(trainer.history[-20:]) / 20)
