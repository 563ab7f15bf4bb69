"""Exceptions that pass through torch and are printed by people who caught them."""
import logging
import sys
import traceback

import torch
from torch import nn
from torch.utils.data import DataLoader

logging.basicConfig(stream=sys.stdout, format="%(message)s")


class Picky(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x):
        if x.shape[0] == 3:
            raise ValueError("three is too many")
        return self.layer(x)

    def train(self, mode=True):
        if getattr(self, "locked", False):
            raise RuntimeError("locked")
        return super().train(mode)


class Explodes(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, grad):
        raise ArithmeticError("no gradient for you")


def attempt(what, function, *args):
    try:
        function(*args)
    except Exception:
        print("---", what)
        logging.exception(what)
        traceback.print_exc()
        frames = traceback.extract_tb(sys.exc_info()[2])
        print(len(frames), [frame.name for frame in frames])


model = Picky()
optimizer = torch.optim.LBFGS(model.parameters())
sgd = torch.optim.SGD(model.parameters(), lr=0.1)


def closure():
    raise OverflowError("in the closure")


def bad_collate(batch):
    raise IndexError("in collate")


def post_hook(optimizer, args, kwargs):
    raise LookupError("in a hook after the step")


attempt("forward", model, torch.ones(3, 2))
attempt("shape", model, torch.ones(2, 5))
attempt("backward", lambda: Explodes.apply(model(torch.ones(1, 2))).sum().backward())
attempt("backward twice", lambda: [loss.backward() for loss in [model(torch.ones(1, 2)).sum()] * 2])
attempt("not a scalar", lambda: model(torch.ones(1, 2)).backward())
attempt("closure", optimizer.step, closure)
attempt("no parameters", torch.optim.Adam, [])
attempt("wrong rate", lambda: torch.optim.Adam(model.parameters(), lr=-1))
attempt("not parameters", lambda: torch.optim.SGD(torch.ones(1), lr=1))
attempt("wrong argument", lambda: torch.optim.SGD(model.parameters(), momentums=1))
attempt("collate", lambda: list(DataLoader(torch.ones(4), collate_fn=bad_collate)))
attempt("loader", lambda: DataLoader(torch.ones(4), num_workers=-1))
attempt("next", lambda: next(iter(DataLoader([object()]))))
handle = sgd.register_step_post_hook(post_hook)
attempt("post hook", sgd.step)
handle.remove()
model.locked = True
attempt("train", model.train)
attempt("eval", model.eval)
scaler = torch.amp.GradScaler("cpu")
attempt("scaler", lambda: (scaler.update(), scaler.step(sgd)))
attempt("state", model.load_state_dict, {})
attempt("autograd.grad", lambda: torch.autograd.grad(model(torch.ones(1, 2)).sum(), [torch.ones(1)]))
