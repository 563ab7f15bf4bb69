# teacher and student on one card, each with its own scaler and schedule; validation through a loader that is made anew each time
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
dev = 'cuda' if torch.cuda.is_available() else 'cpu'
def mlp(w): return nn.Sequential(nn.Linear(16, w), nn.ReLU(), nn.Linear(w, 16)).to(dev)
torch.manual_seed(21)
teacher, student = mlp(64), mlp(8)
opts = [torch.optim.AdamW(m.parameters(), lr=1e-2) for m in (teacher, student)]
scalers = [torch.amp.GradScaler(dev, init_scale=2.**s, growth_interval=2) for s in (4, 30)]
scheds = [torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(o, 3) for o in opts]
ds = TensorDataset(torch.randn(80, 16))
for epoch in range(4):
    for (x,) in DataLoader(ds, batch_size=20, num_workers=2, pin_memory=dev == 'cuda'):
        x = x.to(dev, non_blocking=True)
        with torch.autocast(dev, dtype=torch.bfloat16):
            t = teacher(x); lt = (t - x).float().pow(2).mean(); ls = (student(x) - t.detach()).float().pow(2).mean()
        for l, o, s, c in zip((lt, ls), opts, scalers, scheds):
            s.scale(l).backward(); s.unscale_(o); nn.utils.clip_grad_norm_(o.param_groups[0]['params'], .5); s.step(o); s.update(); o.zero_grad(); c.step()
    student.eval()
    with torch.no_grad():
        v = [student(x.to(dev)).float().abs().mean().item() for (x,) in DataLoader(ds, batch_size=40, num_workers=2)]
    student.train()
    print(epoch, lt.item().hex(), ls.item().hex(), [s.get_scale() for s in scalers], sum(v).hex(), [c.get_last_lr()[0].hex() for c in scheds])
