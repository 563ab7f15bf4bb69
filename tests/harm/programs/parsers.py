"""Parsers and configs in the ways that programs use them: subclasses, subcommands, errors that are caught, introspection."""
import argparse
import dataclasses
import inspect
import io
import contextlib
import pickle
import sys
import traceback

import yaml


class Strict(argparse.ArgumentParser):
    def error(self, message):
        raise ValueError(message)

    def parse_known_args(self, args=None, namespace=None):
        print("asked for", args)
        return super().parse_known_args(args, namespace)


class Odd:
    """Whoever looks at it too closely is told."""

    def __repr__(self):
        print("repr was called")
        return "Odd()"

    def __len__(self):
        print("len was called")
        return 3

    def __eq__(self, other):
        print("eq was called")
        return False

    __hash__ = None

    @property
    def value(self):
        print("property was read")
        return 1


def odd(text):
    return Odd()


parser = Strict(prog="train", argument_default=argparse.SUPPRESS)
parser.add_argument("--odd", type=odd)
parser.add_argument("--lr", type=float, default=1e-3)
parser.add_argument("--flag", action=argparse.BooleanOptionalAction)
sub = parser.add_subparsers(dest="cmd")
fit = sub.add_parser("fit", argument_default=argparse.SUPPRESS)
fit.add_argument("--epochs", type=int)
print(vars(parser.parse_args(["--lr", "3", "fit", "--epochs", "2"])))
space = parser.parse_args(["--odd", "x", "--no-flag"])
print(sorted(vars(space)), space.flag)
for words in (["--lr", "x"], ["--lrr", "1"], ["fit", "--epochs", "1.5"]):
    try:
        parser.parse_args(words)
    except ValueError:
        print(traceback.format_exc().splitlines()[-1])
        print(len(traceback.format_exc().splitlines()), [frame.name for frame in traceback.extract_tb(sys.exc_info()[2])])
for words in (["--help"], ["--version"], ["--nope"]):
    plain = argparse.ArgumentParser(prog="p")
    plain.add_argument("--version", action="version", version="1.2")
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        try:
            plain.parse_args(words)
        except SystemExit as left:
            code = left.code
    print(words, code, out.getvalue(), err.getvalue())
print(inspect.signature(argparse.ArgumentParser.parse_known_args), inspect.signature(yaml.load), argparse.ArgumentParser.parse_known_args.__qualname__)
print(pickle.loads(pickle.dumps(space.lr)), parser.parse_known_args(["fit"])[1])


@dataclasses.dataclass(frozen=True)
class Config:
    rate: float = 1e-4
    odd: object = dataclasses.field(default_factory=Odd)


print(argparse.Namespace(config=Config()).config.rate)
print(yaml.safe_load("a: &x {b: 1}\nc: *x\n1: 2\n"))
print(yaml.load("x: 1e-4", Loader=yaml.FullLoader), list(yaml.safe_load_all("a: 1\n---\nb: 2\n")))
try:
    yaml.safe_load("a: [")
except yaml.YAMLError as error:
    print(type(error).__name__, [frame.name for frame in traceback.extract_tb(error.__traceback__)][:3])
try:
    import torch
except ImportError:
    sys.exit(0)
torch.manual_seed(0)
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def factor(step):
    print("factor", step, [frame.name for frame in traceback.extract_stack()][-3:])
    return 1 / (1 + step)


schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
for step in range(3):
    loss = model(torch.ones(4, 2)).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    print(schedule.get_last_lr(), loss.item().hex())
print(sorted(schedule.state_dict()))
