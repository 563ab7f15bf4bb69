"""Looks at its own call stack from wherever torch calls it back."""
import inspect
import sys

import torch
from torch.utils.data import DataLoader, Dataset, default_collate


def show(where):
    stack = inspect.stack()
    print(where, len(stack), [f"{s.function}" for s in stack[1:]])
    print("   caller:", sys._getframe(2).f_code.co_name, sys._getframe(2).f_globals.get("__name__"))


class Data(Dataset):
    def __len__(self):
        return 2

    def __getitem__(self, i):
        show("getitem")
        return torch.tensor([float(i)])


def collate(items):
    show("collate")
    return default_collate(items)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(1))

    def forward(self, x):
        show("forward")
        return x * self.w

    def train(self, mode=True):
        show("train" if mode else "eval")
        return super().train(mode)

    def __getstate__(self):
        show("getstate")
        return super().__getstate__() if hasattr(super(), "__getstate__") else self.__dict__

    def __setstate__(self, state):
        show("setstate")
        super().__setstate__(state)


class Optimizer(torch.optim.SGD):
    def step(self, closure=None):
        show("step")
        return super().step(closure)


class Mul(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        show("backward")
        return grad * 2


model = Model()
optimizer = Optimizer(model.parameters(), lr=0.1)
model.train()
for batch in DataLoader(Data(), collate_fn=collate):
    loss = Mul.apply(model(batch)).sum()
    loss.register_hook(lambda grad: show("tensor hook"))
    loss.backward()
    optimizer.step()
model.eval()
torch.save(model, "model.pt")
torch.load("model.pt", weights_only=False)
torch.optim.LBFGS(model.parameters(), max_iter=1).step(lambda: (show("closure"), (model.w ** 2).sum())[1])
import threading
import multiprocessing
t = threading.Thread(target=show, args=("thread",)); t.start(); t.join()
p = multiprocessing.get_context("fork").Process(target=show, args=("process",)); sys.stdout.flush(); p.start(); p.join()
