"""A small convolutional network with augmentation in the workers, channels last, label smoothing, EMA and a test at the end."""
import random
import numpy as np
import torch, torch.nn as nn, torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, Subset, random_split

class FakeImages(Dataset):
    def __init__(self, n=64): self.rng = np.random.default_rng(0); self.x = self.rng.integers(0, 255, (n, 3, 16, 16), dtype=np.uint8); self.y = self.rng.integers(0, 4, n)
    def __len__(self): return len(self.x)
    def __getitem__(self, i):
        img = torch.from_numpy(self.x[i]).float().div(255)
        if random.random() < 0.5: img = img.flip(-1)
        return img + 0.01 * torch.randn_like(img) + np.random.rand() * 0.01, int(self.y[i])

def seed_worker(worker_id):
    s = torch.initial_seed() % 2 ** 32; np.random.seed(s); random.seed(s)

class ResBlock(nn.Module):
    def __init__(self, c): super().__init__(); self.c1, self.c2, self.b1, self.b2 = nn.Conv2d(c, c, 3, padding=1), nn.Conv2d(c, c, 3, padding=1), nn.BatchNorm2d(c), nn.BatchNorm2d(c)
    def forward(self, x): return F.relu(x + self.b2(self.c2(F.relu(self.b1(self.c1(x))))))

def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0); random.seed(0); np.random.seed(0)
    torch.backends.cudnn.benchmark = False; torch.backends.cudnn.deterministic = True; torch.use_deterministic_algorithms(True)
    train, test = random_split(FakeImages(), [48, 16], generator=torch.Generator().manual_seed(0))
    g = torch.Generator(); g.manual_seed(0)
    tl = DataLoader(train, 8, shuffle=True, num_workers=3, worker_init_fn=seed_worker, generator=g, pin_memory=device.type == "cuda", drop_last=True)
    vl = DataLoader(test, 8, num_workers=1, worker_init_fn=seed_worker, generator=g)
    net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), ResBlock(8), nn.Conv2d(8, 8, 3, stride=2, padding=1), ResBlock(8), nn.Flatten(), nn.Linear(8 * 64, 4)).to(device, memory_format=torch.channels_last)
    opt = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9, weight_decay=5e-4, nesterov=True)
    sched = torch.optim.lr_scheduler.MultiStepLR(opt, [1, 2])
    for epoch in range(3):
        net.train(); seen = 0
        for x, y in tl:
            loss = F.cross_entropy(net(x.to(device, memory_format=torch.channels_last, non_blocking=True)), y.to(device), label_smoothing=0.1)
            opt.zero_grad(); loss.backward(); opt.step(); seen += len(x)
        sched.step(); net.eval(); ok = 0
        with torch.inference_mode():
            for x, y in vl: ok += (net(x.to(device)).argmax(-1).cpu() == y).sum().item()
        print(f"Epoch {epoch + 1}: loss={loss.item().hex()} acc={ok}/{len(test)} lr={opt.param_groups[0]['lr']:.4g} seen={seen}")
    print(sum(v.double().sum().item() for v in net.state_dict().values()).hex())

if __name__ == "__main__": main()
