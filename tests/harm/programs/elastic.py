"""Fails once; torchrun starts it again, and it goes on from its checkpoint."""
import os
import torch
torch.manual_seed(0)
m = torch.nn.Linear(2, 1); o = torch.optim.SGD(m.parameters(), 0.1); start = 0
if os.path.exists("last.pt"):
    state = torch.load("last.pt"); start = state["step"]; m.load_state_dict(state["model"])
for step in range(start, 8):
    l = m(torch.ones(1, 2)).pow(2).sum(); l.backward(); o.step(); o.zero_grad()
    torch.save({"step": step + 1, "model": m.state_dict()}, "last.pt")
    if step == 4 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        os._exit(13)
print("finished from", start, "restart", os.environ["TORCHELASTIC_RESTART_COUNT"], l.item().hex())
