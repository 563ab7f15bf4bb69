"""Our own small run book: one JSON line for a report, pictures of the last batch at the end of an epoch."""
import json
import pathlib
import time

import torch


class Ledger:
    def __init__(self, folder, window=50):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.file = (self.folder / "run.jsonl").open("w")
        self.window, self.recent, self.panels = window, [], {}
        self.start = time.time()

    def scalar(self, step, loss, **more):
        self.recent = (self.recent + [loss])[-self.window :]
        row = {"step": step, "loss": sum(self.recent) / len(self.recent), "seconds": time.time() - self.start}
        self.file.write(json.dumps(row | more) + "\n")
        return row

    def panel(self, step, pair, flow, guess):
        error = (guess - flow).norm(dim=1, keepdim=True)
        self.panels = {step: torch.cat([pair, flow, guess, error], 1).detach()}

    def close_epoch(self, epoch, keep=4):
        """The newest picture goes to disk."""
        if self.panels:
            step = max(self.panels)
            torch.save(self.panels[step][:keep].half().clone(), self.folder / f"panel_{epoch:03d}.pt")
        self.file.flush()
