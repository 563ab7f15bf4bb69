"""No hidden waits for the device: torch itself warns of each."""
import warnings
import torch
from torch.utils.data import DataLoader
torch.manual_seed(0)
model = torch.nn.Linear(128, 128).cuda(); opt = torch.optim.Adam(model.parameters(), fused=True); scaler = torch.amp.GradScaler("cuda", enabled=False)
loader = DataLoader(torch.randn(256, 128), batch_size=16, num_workers=2, pin_memory=True)
for x in loader:
    model(x.cuda(non_blocking=True)).sum().backward(); opt.step(); opt.zero_grad()
torch.cuda.synchronize()
torch.cuda.set_sync_debug_mode("warn")
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    for epoch in range(3):
        for x in loader:
            loss = model(x.cuda(non_blocking=True)).pow(2).mean(); scaler.scale(loss).backward(); scaler.step(opt); scaler.update(); opt.zero_grad()
torch.cuda.set_sync_debug_mode("default")
print(len([w for w in seen if "synchroniz" in str(w.message)]), loss.item().hex())
torch.cuda.set_sync_debug_mode("error")
for x in loader:
    model(x.cuda(non_blocking=True)).sum().backward(); opt.step(); opt.zero_grad()
torch.cuda.set_sync_debug_mode("default")
print(model.weight.double().sum().item().hex())
