import json
import os

import torch

from nodes.guard import Guard


class Shelf:
    """The best models so far, with an index that other jobs read."""

    def __init__(self, folder, keep):
        self.folder, self.keep = folder, keep
        self.index = os.path.join(folder, "index.json")

    def entries(self):
        if not os.path.exists(self.index):
            return []
        with open(self.index) as f:
            return json.load(f)

    def publish(self, model, step, score):
        name = f"gcn_{step:04d}.pt"
        with Guard(self.folder):
            torch.save(model.state_dict(), os.path.join(self.folder, name))
            entries = sorted([*self.entries(), {"name": name, "score": score}], key=lambda e: -e["score"])
            with open(self.index, "w") as f:
                json.dump(entries, f)
            if len(entries) > self.keep:
                self.prune()

    def prune(self):
        """Also called by hand: python -c 'Shelf(folder, 3).prune()'."""
        with Guard(self.folder):
            entries = self.entries()
            for entry in entries[self.keep :]:
                os.remove(os.path.join(self.folder, entry["name"]))
            with open(self.index, "w") as f:
                json.dump(entries[: self.keep], f)
