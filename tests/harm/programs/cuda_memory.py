"""A memory budget to the byte: what is allocated, how often, how much at the peak, in which pool."""
import gc
import torch
from torch.utils.data import DataLoader

torch.manual_seed(0)
model = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(4)]).cuda()
opt = torch.optim.AdamW(model.parameters())
scaler = torch.amp.GradScaler("cuda")
def report(when):
    torch.cuda.synchronize()
    s = torch.cuda.memory_stats()
    print(when, torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated(), torch.cuda.memory_reserved(), s["allocation.all.allocated"], s["allocation.all.freed"], s["num_alloc_retries"], s["num_ooms"], s["segment.all.current"])
for epoch in range(3):
    for x in DataLoader(torch.randn(64, 256), batch_size=16, num_workers=1, pin_memory=True):
        with torch.autocast("cuda"):
            loss = model(x.cuda(non_blocking=True)).pow(2).mean()
        scaler.scale(loss).backward(); scaler.step(opt); scaler.update(); opt.zero_grad()
    report(epoch)
    torch.cuda.reset_peak_memory_stats()
try:
    torch.empty(1 << 50, dtype=torch.uint8, device="cuda")
except torch.cuda.OutOfMemoryError as e:
    print(type(e).__name__, str(e)[:60])
report("after running out")
held = torch.cuda.memory_snapshot(); print(len(held))
del model, opt, loss, x, scaler; gc.collect(); torch.cuda.empty_cache(); report("end")
h = torch.cuda.host_memory_stats() if hasattr(torch.cuda, "host_memory_stats") else {}
print({k: v for k, v in sorted(h.items()) if k in ("allocation.current", "segment.current")})
