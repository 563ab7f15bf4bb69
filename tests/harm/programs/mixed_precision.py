import torch, torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset
from torch.amp import autocast, GradScaler

def set_seed(s):
    import random
    random.seed(s); torch.manual_seed(s)
    torch.use_deterministic_algorithms(True)

def train_one_epoch(model, loader, opt, sched, scaler, device, accum=2):
    model.train()
    running = 0.
    for i, (x, y) in enumerate(loader):
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        with autocast(device_type=device, dtype=torch.float16 if device == "cuda" else torch.bfloat16):
            loss = nn.functional.cross_entropy(model(x), y) / accum
        scaler.scale(loss).backward()
        if (i + 1) % accum == 0:
            scaler.unscale_(opt)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(opt); scaler.update(); opt.zero_grad(set_to_none=True); sched.step()
        running += loss.item()
    return running / len(loader)

@torch.no_grad()
def evaluate(model, loader, device):
    model.eval(); hits = 0
    for x, y in loader:
        with autocast(device_type=device, enabled=device == "cuda", dtype=torch.float16):
            hits += (model(x.to(device)).argmax(1).cpu() == y).sum().item()
    return hits

if __name__ == '__main__':
    set_seed(11)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    ds = TensorDataset(torch.randn(128, 32), torch.randint(0, 5, (128,)))
    tl = DataLoader(ds, 16, shuffle=True, num_workers=2, pin_memory=device == "cuda", persistent_workers=False)
    vl = DataLoader(ds, 64, num_workers=2, pin_memory=device == "cuda")
    model = nn.Sequential(nn.Linear(32, 128), nn.GELU(), nn.LayerNorm(128), nn.Linear(128, 5)).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3, fused=device == "cuda")
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=1e-2, total_steps=16)
    scaler = GradScaler(device, enabled=device == "cuda", init_scale=2.**24, growth_interval=3)
    for e in range(3):
        l = train_one_epoch(model, tl, opt, sched, scaler, device)
        print(f"{e} train {l.hex()} correct {evaluate(model, vl, device)} lr {sched.get_last_lr()[0].hex()} scale {scaler.get_scale()}")
    torch.save({"m": model.state_dict(), "s": scaler.state_dict(), "sched": sched.state_dict()}, "amp.pt")
    print(sum(p.double().sum().item() for p in model.parameters()).hex())
