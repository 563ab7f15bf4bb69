"""Weights taken in part, by dictionaries and modules of the program's own; schedules that are copied, pickled and freed; loaders left early."""
import collections
import copy
import gc
import inspect
import io
import itertools
import traceback
import warnings
import weakref

import torch
from torch import nn
from torch.optim import lr_scheduler
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(3, 3)
        self.head = nn.Linear(3, 1)

    def forward(self, x):
        return self.head(self.body(x).tanh())


class Chatty(Net):
    def load_state_dict(self, state_dict, strict=True, assign=False):
        print("loads", len(state_dict), strict, assign, flush=True)
        return super().load_state_dict(state_dict, strict=strict, assign=assign)


class Own(collections.abc.Mapping):
    """No dictionary; says when it is asked."""

    def __init__(self, inner):
        self.inner = inner

    def __getitem__(self, key):
        print("asked for", key, flush=True)
        return self.inner[key]

    def __iter__(self):
        return iter(self.inner)

    def __len__(self):
        print("asked for its length", flush=True)
        return len(self.inner)


print(inspect.signature(nn.Module.load_state_dict), nn.Module.load_state_dict.__name__, nn.Module.load_state_dict.__module__)
print(inspect.signature(lr_scheduler.LRScheduler.__init__))
net, other = Chatty().to(device), Net().to(device)
whole = other.state_dict()
print(net.load_state_dict(whole))
print(net.load_state_dict({"module." + name: value for name, value in whole.items()}, strict=False))
print(net.load_state_dict(collections.OrderedDict(list(whole.items())[:2]), strict=False, assign=False))
print(other.load_state_dict(Own(whole)))
counted = other.register_load_state_dict_post_hook(lambda module, keys: keys.missing_keys.clear())
print(other.load_state_dict({}, strict=True))
counted.remove()
for bad in ({"head.weight": torch.zeros(2, 2)}, {"nothing": torch.zeros(1)}, None):
    try:
        other.load_state_dict(bad)
    except Exception as error:
        print(type(error).__name__, str(error)[:200])
        print([frame.name for frame in traceback.extract_tb(error.__traceback__) if "site-packages" not in frame.filename][:1])
net = torch.compile(net, backend="eager")
target = copy.deepcopy(other)
for _ in range(50):
    target.load_state_dict(other.state_dict())

groups = [{"params": other.body.parameters(), "lr": 0.01}, {"params": other.head.parameters()}]
opt = torch.optim.AdamW(groups, lr=0.1)
warm = lr_scheduler.LambdaLR(opt, lambda step: min(1.0, (step + 1) / 5))
later = lr_scheduler.CosineAnnealingLR(opt, T_max=10)
both = lr_scheduler.SequentialLR(opt, [warm, later], milestones=[4])
data = TensorDataset(torch.randn(20, 3), torch.randn(20, 1))
train = DataLoader(data, batch_size=4, shuffle=True, num_workers=1, persistent_workers=True)
few = DataLoader(TensorDataset(torch.randn(3, 3)), batch_size=4, drop_last=True)
before = set(vars(train)), set(vars(few))
warnings.simplefilter("ignore")
for epoch in range(3):
    first = next(iter(DataLoader(data, batch_size=2)))
    print(len(first), first[0].sum().item().hex())
    for x, y in itertools.islice(train, 5 - epoch):
        loss = (other(x.to(device)) - y.to(device)).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        both.step()
        print(epoch, loss.item().hex(), [group["lr"].hex() for group in opt.param_groups], flush=True)
    with torch.no_grad():
        print("held out", sum(1 for _ in few), "of", len(few))
print(before[0] ^ set(vars(train)), before[1] ^ set(vars(few)))
file = io.BytesIO()
torch.save({"schedule": both.state_dict(), "warm": later.state_dict()}, file)
print(sorted(both.state_dict()), sorted(later.state_dict()))
again = copy.deepcopy(later)
print(again.last_epoch, sorted(vars(again)))
gone = weakref.ref(train), weakref.ref(few), weakref.ref(again)
del train, few, again, x, y
gc.collect()
print([kept() is None for kept in gone])
