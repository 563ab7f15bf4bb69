# every operation of a training step, as the program's own modes see it
import collections
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.flop_counter import FlopCounterMode

class Functions(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        print("f", getattr(func, "__qualname__", func), [t.__name__ for t in types])
        return func(*args, **(kwargs or {}))

class Operations(TorchDispatchMode):
    def __init__(self):
        super().__init__(); self.seen = collections.Counter()
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen[str(func)] += 1
        print("d", func)
        return func(*args, **(kwargs or {}))

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
opt = torch.optim.AdamW(net.parameters(), foreach=False)
scaler = torch.amp.GradScaler("cpu")
loader = DataLoader(TensorDataset(torch.randn(4, 3)), batch_size=2)
def epoch():
    for (x,) in loader:
        loss = net(x).pow(2).mean()
        scaler.scale(loss).backward()
        scaler.step(opt); scaler.update(); opt.zero_grad()
    net.eval()
    with torch.no_grad():
        for (x,) in loader:
            net(x).sum().item()
    net.train()
    torch.save(net.state_dict(), "net.pt")
    return loss
epoch()
with Functions():
    epoch()
with Operations() as ops:
    epoch()
print(sorted(ops.seen.items()))
with Functions(), Operations():
    loss = epoch()
with FlopCounterMode(display=False) as flops:
    epoch()
print(flops.get_total_flops(), loss.item().hex())
