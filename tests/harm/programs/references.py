"""Leak hunting: reference counts, weak references, collector callbacks, numbers of tensors alive."""
import gc
import sys
import weakref

import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
net = torch.nn.Linear(4, 1)
opt = torch.optim.Adam(net.parameters())
collections = []
gc.callbacks.append(lambda phase, info: collections.append(phase))
gc.collect()
collections.clear()

def tensors():
    gc.collect()
    return sum(1 for o in gc.get_objects() if type(o) in (torch.Tensor, torch.nn.Parameter))

print("before", tensors())
dead = []
for i, (x, y) in enumerate(DataLoader(TensorDataset(torch.randn(12, 4), torch.randn(12, 1)), batch_size=3)):
    print("batch", sys.getrefcount(x), weakref.getweakrefcount(x), weakref.getweakrefcount(y))
    weakref.finalize(x, dead.append, i)
    loss = (net(x) - y).pow(2).mean()
    weakref.finalize(loss, dead.append, f"loss {i}")
    print("loss", sys.getrefcount(loss), weakref.getweakrefcount(loss))
    loss.backward()
    print("after backward", sys.getrefcount(loss), weakref.getweakrefcount(loss))
    opt.step()
    opt.zero_grad()
    print("optimizer", sys.getrefcount(opt), weakref.getweakrefcount(opt), weakref.getweakrefcount(net), dead)
value = loss.item()
del x, y, loss
print("end", tensors(), dead, gc.garbage, len(collections))
a = torch.ones(2)
w = weakref.ref(opt)
del opt
gc.collect()
print("optimizer is gone", w() is None)
gc.freeze()
print(gc.get_freeze_count() > 0)
gc.unfreeze()
gc.disable()
for (x, y) in DataLoader(TensorDataset(torch.randn(6, 4), torch.randn(6, 1)), batch_size=3):
    net(x).sum().backward()
print(gc.isenabled(), gc.get_threshold(), value.hex())
