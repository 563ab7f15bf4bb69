import os
import sys

import torch

from walker.arguments import from_words
from walker.dynamics import rollouts
from walker.model import WorldModel, from_teacher, make_teacher
from walker.snapshots import Snapshots


def main(words):
    s = from_words(words)
    torch.set_num_threads(1)
    torch.manual_seed(s["seed"])
    if not os.path.exists(s["teacher"]):
        make_teacher(s["teacher"])
    model = WorldModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=s["lr"])
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 240, s["lr"] / 20)
    snapshots = Snapshots(s["out"])
    step = 0
    newest = snapshots.newest() if s["resume"] == "auto" else None
    if newest:
        state = torch.load(newest)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        schedule.load_state_dict(state["schedule"])
        step = state["step"]
    else:
        from_teacher(model, s["teacher"])
    generator = torch.Generator().manual_seed(s["seed"] + step)
    while step < s["total_steps"]:
        x, after = rollouts(s["batch"], generator)
        loss = (model(x) - after).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        step += 1
        if step % 20 == 0:
            print(f"{s['env']} step {step:4d} loss {loss.item():.5f} lr {schedule.get_last_lr()[0]:.2e}")
        if step % 60 == 0:
            snapshots.save(step, model=model.state_dict(), optimizer=optimizer.state_dict(), schedule=schedule.state_dict())
    print("end of the slot at step", step)


if __name__ == "__main__":
    main(sys.argv[1:])
