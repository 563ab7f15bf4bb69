"""Every way of torch.compile: python compiled.py BACKEND [MODE]; prints losses, graph counts and recompilations."""
import logging
import os
import sys
import torch
torch._logging.set_logs(all=logging.ERROR)
import torch._dynamo
from torch.utils.data import DataLoader, TensorDataset

backend, mode = sys.argv[1], (sys.argv[2] if len(sys.argv) > 2 else None)
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
torch.use_deterministic_algorithms(True)
if mode and "autotune" in mode:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # tables of times

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(16, 64), torch.nn.Linear(64, 16)
    def forward(self, x):
        return self.b(torch.nn.functional.gelu(self.a(x)))

def run():
    net = Net().to(device)
    model = torch.compile(net, backend=backend, mode=mode)
    optimizer = torch.optim.AdamW(net.parameters(), lr=torch.tensor(1e-2) if backend == "inductor" else 1e-2)
    loader = DataLoader(TensorDataset(torch.randn(48, 16)), batch_size=8, shuffle=True, num_workers=2, pin_memory=device == "cuda")
    for epoch in range(3):
        model.train()
        for (x,) in loader:
            x = x.to(device, non_blocking=True)
            loss = torch.nn.functional.mse_loss(model(x), x)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        model.eval()
        with torch.no_grad():
            total = sum(model(x.to(device)).sum().item() for (x,) in loader)
        print(epoch, loss.item().hex(), total.hex())
    counters = torch._dynamo.utils.counters
    print(dict(counters["frames"]), {k: v for k, v in counters["stats"].items()}, len(counters["graph_break"]))

run()
