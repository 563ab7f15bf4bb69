# domain mixing: three loaders read at once, one of them endless, one re-created in the middle of the others
import itertools
import torch
from torch.utils.data import DataLoader, Dataset

dev = torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")

class Domain(Dataset):
    def __init__(self, offset, n): self.offset, self.n = offset, n
    def __len__(self): return self.n
    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.offset + i)
        return {"x": torch.rand(8, generator=g) + self.offset, "i": i}

def forever(loader):
    while True:
        yield from loader

torch.manual_seed(5)
a = DataLoader(Domain(0, 24), 4, num_workers=1, shuffle=True)
b = DataLoader(Domain(100, 16), 4, num_workers=2, drop_last=True)
c = DataLoader(Domain(200, 6), 2, num_workers=1)
w = torch.zeros(8, device=dev, requires_grad=True)
opt = torch.optim.SGD([w], lr=1e-4, momentum=.9)
endless = forever(b)
for rnd in range(3):
    for step, (xa, xb) in enumerate(zip(a, itertools.islice(endless, 6))):
        opt.zero_grad()
        loss = ((xa["x"].to(dev) @ w - 1) ** 2).mean() + ((xb["x"].to(dev) @ w + 1) ** 2).mean()
        loss.backward(); opt.step()
        if step == 3:
            with torch.no_grad():
                print("inner", [round(float((d["x"].to(dev) @ w).sum()), 6) for d in c], [d["i"].tolist() for d in c])
    print(rnd, loss.item().hex())
print([v.hex() for v in w.tolist()])
endless.close()
