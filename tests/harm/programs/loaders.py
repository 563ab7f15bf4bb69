"""One small trainer, and the ways of loading its data: python loaders.py fork|spawn|forkserver|persistent|pinned|none."""
import argparse
import hashlib

import torch
from torch.utils.data import DataLoader, TensorDataset


class Trainer:
    def __init__(self, model, optimizer, device):
        self.model, self.optimizer, self.device = model, optimizer, device
        self.history = []

    def _run_batch(self, source, targets):
        self.optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(self.model(source), targets)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def _run_epoch(self, epoch, loader):
        total = 0.0
        for source, targets in loader:
            total += self._run_batch(source.to(self.device, non_blocking=True), targets.to(self.device, non_blocking=True))
        self.history.append(total / len(loader))
        print(f"[{self.device}] Epoch {epoch} | Steps {len(loader)} | loss {self.history[-1].hex()}", flush=True)

    def validate(self, loader):
        self.model.eval()
        with torch.inference_mode():
            total = sum(torch.nn.functional.l1_loss(self.model(x.to(self.device)), y.to(self.device)).item() for x, y in loader)
        self.model.train()
        print("  validation", (total / len(loader)).hex())

    def train(self, epochs, loader, validation):
        for epoch in range(epochs):
            self._run_epoch(epoch, loader)
            self.validate(validation)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("how", choices=["fork", "spawn", "forkserver", "persistent", "pinned", "pinned-persistent", "none"])
    how = parser.parse_args().how
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    device = "cuda:0" if torch.cuda.is_available() else "cpu"
    data = TensorDataset(torch.randn(96, 20), torch.randn(96, 1))
    options = {}
    if how in ("fork", "spawn", "forkserver"):
        options = {"num_workers": 2, "multiprocessing_context": how}
    elif how != "none":
        options = {"num_workers": 2, "persistent_workers": "persistent" in how, "pin_memory": "pinned" in how and device != "cpu"}
    loader = DataLoader(data, batch_size=16, shuffle=True, **options)
    validation = DataLoader(data, batch_size=32, **({**options, "num_workers": 1} if options else {}))
    model = torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1)).to(device)
    trainer = Trainer(model, torch.optim.Adam(model.parameters(), lr=1e-2), device)
    trainer.train(2 if how in ("spawn", "forkserver") else 4, loader, validation)
    state = model.state_dict()
    print(hashlib.md5(b"".join(state[k].cpu().numpy().tobytes() for k in sorted(state))).hexdigest())


if __name__ == "__main__":
    main()
