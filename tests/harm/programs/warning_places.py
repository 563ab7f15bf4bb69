"""Whoever runs with -W always wants to see which line of the program is meant."""
import warnings
import torch
from torch.utils.data import DataLoader, Dataset

class Noisy(Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, i):
        warnings.warn(f"item {i} is slow", stacklevel=1)
        return torch.tensor(float(i))

class OldOptimizer(torch.optim.SGD):
    def __init__(self, params, **kw):
        warnings.warn("OldOptimizer is deprecated", DeprecationWarning, stacklevel=2)
        super().__init__(params, **kw)
    def step(self, closure=None):
        warnings.warn("step of an old optimizer", stacklevel=3)
        return super().step(closure)

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(1))
    def __reduce_ex__(self, protocol):
        for level in range(1, 7):
            warnings.warn(f"pickled whole, level {level}", stacklevel=level)
        return super().__reduce_ex__(protocol)
    def train(self, mode=True):
        warnings.warn(f"train({mode})", stacklevel=2)
        return super().train(mode)
    def forward(self, x):
        warnings.warn("forward", stacklevel=2)
        return x * self.w

net = Net()
opt = OldOptimizer(net.parameters(), lr=0.1)
sched = torch.optim.lr_scheduler.StepLR(opt, 1)
sched.step()                     # before the optimizer: torch warns
for x in DataLoader(Noisy(), batch_size=2):
    loss = net(x).sum()
    loss.backward()
    opt.step()
net.eval()
with torch.no_grad():
    for x in DataLoader(Noisy(), batch_size=4):
        net(x)
torch.save(net, "net.pt")
torch.load("net.pt", weights_only=False)
def closure():
    warnings.warn("in the closure", stacklevel=2)
    warnings.warn("in the closure, further out", stacklevel=4)
    opt2.zero_grad()
    value = (net.w ** 2).sum()
    value.backward()
    return value
opt2 = torch.optim.LBFGS([net.w], max_iter=2)
opt2.step(closure)
class Hook:
    def __call__(self, grad):
        warnings.warn("gradient hook", stacklevel=2)
net.w.register_hook(Hook())
(net.w * 2).sum().backward()
warnings.warn_explicit("explicit", UserWarning, "elsewhere.py", 3)
DataLoader(Noisy(), num_workers=64)
torch.cuda.amp.GradScaler(enabled=False)
print(net.w.item().hex())
