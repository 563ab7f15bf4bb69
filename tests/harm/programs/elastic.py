"""Fails once; torchrun starts it again, and it goes on from where it was."""
import os, sys
import torch, torch.distributed as dist
dist.init_process_group("gloo")
start = int(open("step.txt").read()) if os.path.exists("step.txt") else 0
m = torch.nn.Linear(2, 1); o = torch.optim.SGD(m.parameters(), 0.1)
for step in range(start, 8):
    m(torch.ones(1, 2)).sum().backward(); o.step(); o.zero_grad()
    dist.barrier()
    if dist.get_rank() == 0: open("step.txt", "w").write(str(step + 1))
    dist.barrier()
    if step == 4 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and dist.get_rank() == 1:
        os._exit(13)
if dist.get_rank() == 0: print("finished from", start, "restart", os.environ["TORCHELASTIC_RESTART_COUNT"])
dist.destroy_process_group()
