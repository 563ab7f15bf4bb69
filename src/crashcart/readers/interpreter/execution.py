"""A program that was followed, and what rules ask of it: its loaders, its training loops, its optimizers, who comes where.

execution.training_loops      loops in which gradients are made and an optimizer steps, the innermost first
execution.loaders             every DataLoader, with whether it feeds the training
execution.is_training(event)  whether something happens between the steps of the training
"""

from __future__ import annotations

import ast
import re
from functools import cached_property
from typing import TYPE_CHECKING

from crashcart.readers.interpreter.launch import with_setting
from crashcart.readers.interpreter.libraries import wrapped_loader
from crashcart.readers.interpreter.trace import Call, Region
from crashcart.readers.interpreter.values import (
    Constant,
    Container,
    Generator,
    Instance,
    PerRank,
    Result,
    Unknown,
    Value,
    constant_of,
)
from crashcart.record import record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from crashcart.model import Fact
    from crashcart.readers.interpreter.interpreter import Interpreter
    from crashcart.readers.interpreter.launch import Launch
    from crashcart.readers.interpreter.trace import Event, Trace

__all__ = ["Execution", "Loader", "is_fed", "stepped_by", "whole_dataset"]

OPTIMIZER_STEPS = ("torch.optim.Optimizer.step", "torch.amp.GradScaler.step", "deepspeed.DeepSpeedEngine.step")
TRAINERS = (
    "transformers.Trainer.train",
    "lightning.Trainer.fit",
    "transformers.Trainer",
    "mmengine.runner.Runner.train",
    "mmcv.runner.Runner.run",
    *(f"stable_baselines3.{agent}.learn" for agent in ("PPO", "A2C", "SAC", "TD3", "DDPG", "DQN")),
)
_WEIGHTS = re.compile(r"\b(?:named_)?(?:parameters|buffers|modules|children)\(|state_dict|param_groups|param")
NO_GRADIENTS = frozenset({"torch.no_grad", "torch.inference_mode"})
_WRAPPING = {
    "enumerate",
    "tqdm.tqdm",
    "iter",
    "zip",
    "itertools.cycle",
    "itertools.islice",
    "rich.progress.track",
    "reversed",
    "itertools.chain",
}


@record
class Loader:
    """A loader that the program builds; ``feeds`` is ``train`` or ``eval``, empty where it is never gone through."""

    call: Call
    value: Value
    feeds: str

    def argument(self, position: int | None, name: str, default: Value | None = None) -> Value | None:
        """An argument of the loader."""
        return self.call.argument(position, name, default)

    @property
    def batch_size(self) -> Value | None:
        """The samples of a batch, also where a batch sampler says it; None where it is not known."""
        sampler = self.argument(4, "batch_sampler", Constant(None))
        if isinstance(sampler, Result) and sampler.name.endswith("BatchSampler"):
            return sampler.argument(1, "batch_size")
        if isinstance(sampler, Instance) and sampler.cls.is_a("BatchSampler") and sampler.call is not None:
            return sampler.call.argument(1, "batch_size")
        if sampler is None or constant_of(sampler, sampler) is not None:
            return None
        return self.argument(1, "batch_size", Constant(1))

    @property
    def dataset(self) -> Value | None:
        """The data set behind subsets and splits of it."""
        return whole_dataset(self.argument(0, "dataset"))

    @property
    def is_alternative(self) -> bool:
        """Whether another loader may be built instead: the second arm of a test whose outcome is not known."""
        return any(region.kind == "branch" and not region.sense for region in self.call.region.above())


def stepped_by(call: Call) -> Value | None:
    """The object whose method is called, of a library or of the program's own."""
    own = call.function is not None and call.function.owner is not None and call.arguments
    return call.arguments[0] if own and call.receiver is None else call.receiver


def is_fed(loop: Region) -> bool:
    """Whether a loop gets its batches from a loader."""
    feeds = [child for child in loop.children if isinstance(child, Region) and child.kind == "feed"]
    return any(isinstance(event, Call) and event.name == "iterate" for feed in feeds for event in feed.events())


def _is_generator(region: Region) -> bool:
    """Whether a region is the body of a generator."""
    function = region.call.function if region.kind == "call" and region.call is not None else None
    return function is not None and bool(function.is_generator)


def _is_over_weights(loop: Region) -> bool:
    """Whether a loop goes over the parts of a model, as an average of weights does."""
    return isinstance(loop.node, (ast.For, ast.comprehension)) and bool(_WEIGHTS.search(ast.unparse(loop.node.iter)))


def _with_generator(loop: Region) -> list[Region]:
    """A loop, and that of the generator which it goes over."""
    return loop.loops()[: 1 + isinstance(loop.iterable, Generator)]


def whole_dataset(dataset: Value | None) -> Value | None:
    """The data set behind subsets and splits of it."""
    while isinstance(dataset, Result) and dataset.name in {"torch.utils.data.Subset", "torch.utils.data.random_split"}:
        dataset = dataset.argument(0, "dataset")
    return dataset


class Execution:
    """One program, followed from its entry."""

    def __init__(self, interpreter: Interpreter) -> None:
        self.interpreter = interpreter
        self.trace: Trace = interpreter.trace
        self.launch: Launch = interpreter.launch
        self.not_looked = interpreter.modules.not_looked

    def follow_with_finite(self, is_finite: Callable[[ast.AST], bool]) -> Execution:
        """The program followed once more, where each test for NaN or Inf tells what is assumed of its place."""
        again = self.interpreter.again()
        again.finite_at = is_finite
        again.run(self.interpreter.trace.root.source)
        return Execution(again)

    def follow_with_samples(self, samples: int) -> Execution:
        """The program followed once more, with so many samples wherever a batch is divided."""
        again = self.interpreter.again()
        again.samples = samples
        again.run(self.interpreter.trace.root.source)
        return Execution(again)

    def follow_with_setting(self, setting: Fact, value: object) -> Execution:
        """The program followed once more, with another value of a setting in a flag, a variable or a config file."""
        again = self.interpreter.again()
        again.launch = with_setting(again.launch, setting, value)
        again.run(self.interpreter.trace.root.source)
        return Execution(again)

    @property
    def is_cut_short(self) -> bool:
        """Whether the program was larger than what is followed: that something is not in the trace then says nothing."""
        return self.interpreter.exhausted

    @property
    def ranks(self) -> int | None:
        """How many ranks there are, also those that the program starts itself."""
        return self.launch.ranks

    # ---- optimizers

    def is_optimizer(self, value: Value | None) -> bool:
        """Whether a value is an optimizer: of torch, of a library, or of a class of the program's own."""
        if isinstance(value, Result):
            return (
                value.name.startswith(("torch.optim.", "deepspeed.Optimizer")) and ".lr_scheduler." not in value.name
            ) or _is_optimizer_name(value.name)
        return isinstance(value, Instance) and value.cls.is_a("Optimizer")

    @cached_property
    def optimizers(self) -> list[Call]:
        """The calls that make an optimizer."""
        return [
            call
            for call in self.trace.calls
            if call.function is None and self.is_optimizer(call.result) and _is_made_by(call)
        ]

    @cached_property
    def steps(self) -> list[Call]:
        """The calls by which an optimizer steps, also through a scaler or an engine."""
        found = []
        for call in self.trace.methods("step"):
            name = call.name
            if ".lr_scheduler." in name or (call.function is not None and not self.is_optimizer(stepped_by(call))):
                continue
            if (
                name in OPTIMIZER_STEPS
                or self.is_optimizer(stepped_by(call))
                or name.endswith("GradScaler.step")
                or "ptimizer" in name
                or self._is_stepped(call)
            ):
                found.append(call)
        return found

    def _is_stepped(self, call: Call) -> bool:
        """Whether something unknown is an optimizer by what is done with it: its gradients are cleared, and it steps."""
        if call.receiver is None or call.arguments or isinstance(call.receiver, (Instance, Result)):
            return False
        return any(other.receiver is call.receiver for other in self.trace.methods("zero_grad"))

    @cached_property
    def backwards(self) -> list[Call]:
        """The calls that make gradients."""
        return self.trace.methods("backward")

    # ---- loops

    @cached_property
    def training_loops(self) -> list[Region]:
        """The innermost loops around backward passes and optimizer steps, each once."""
        found: dict[int, Region] = {}
        for call in (*self.backwards, *self.steps):
            for loop in call.region.loops()[:1]:
                found.setdefault(id(loop), loop)
        return list(found.values())

    @cached_property
    def step_loops(self) -> set[int]:
        """The training loops, with those of the generators behind them: a round of the one is a round of the other."""
        return {id(each) for loop in self.training_loops for each in _with_generator(loop)}

    @cached_property
    def epoch_loops(self) -> set[int]:
        """The loops right around those over batches."""
        found = set()
        for loop in self.training_loops:
            around = loop.loops()
            drawn = len(_with_generator(loop)) - 1
            fed = next((number for number, each in enumerate(around) if is_fed(each)), drawn)
            found |= {id(outer) for outer in around[fed + 1 : fed + 2]}
        return found

    @cached_property
    def evaluation_loops(self) -> list[Region]:
        """The loops over something between the steps of the training, in which torch records no gradient."""
        found: dict[int, Region] = {}
        for call in self.trace.calls:
            loop, records = None, True
            for region in call.region.above():
                if region.kind == "loop":
                    if id(region) in self._training_nodes:
                        break
                    inner = self.underlying(region.iterable)
                    is_counted = isinstance(inner, Result) and inner.name in {"range", "tqdm.trange"}
                    is_listed = isinstance(inner, Container) and not self.interpreter.store.get(inner, "open")
                    loop = loop if inner is None or is_counted or is_listed or _is_over_weights(region) else region
                records &= not (
                    region.kind == "with" and isinstance(region.value, Result) and region.value.name in NO_GRADIENTS
                )
            else:
                continue
            if loop is not None and not records:
                found[id(loop)] = loop
        return list(found.values())

    @cached_property
    def _training_nodes(self) -> set[int]:
        return {id(region) for loop in self.training_loops for region in loop.above() if region.kind == "loop"}

    def is_training(self, event: Event) -> bool:
        """Whether something happens again and again while the training goes on: in a loop around its steps."""
        return any(id(region) in self._training_nodes for region in event.region.above())

    def is_training_loop(self, loop: Region) -> bool:
        """Whether the steps of the training are rounds of a loop, or of one inside it."""
        return id(loop) in self._training_nodes

    @property
    def trains(self) -> bool:
        """Whether the program trains anything."""
        return bool(self.steps or self.backwards or any(self.trace.named(name) for name in TRAINERS))

    @cached_property
    def library_trainers(self) -> list[Call]:
        """The calls by which a trainer of a library trains: its settings count where it was given them."""
        return [*self.trace.named(*TRAINERS), *self.rewritten_trainers]

    @cached_property
    def rewritten_trainers(self) -> list[Call]:
        """The calls of a ``train`` that the program wrote anew for its own kind of a library's trainer, which keeps its settings."""
        owners = [(call, call.function.owner) for call in self.trace.methods("train") if call.function is not None]
        return [call for call, owner in owners if owner is not None and "transformers.Trainer" in owner.library_bases()]

    # ---- loaders

    @cached_property
    def loaders(self) -> list[Loader]:
        """Every loader that the program builds, in order."""
        used: dict[int, str] = {}
        for call in self.trace.named("iterate"):
            if call.receiver is not None:
                kind = "train" if self._feeds_training(call) else "eval"
                if used.get(id(call.receiver)) != "train":
                    used[id(call.receiver)] = kind
        found = []
        for call in self.trace.calls:
            result = call.result
            if isinstance(result, Result) and result.name == "torch.utils.data.DataLoader" and result.call is call:
                found.append(Loader(call, result, used.get(id(result), "")))
        return found

    def _feeds_training(self, call: Call) -> bool:
        """Whether the loop that goes over a loader holds a training loop, or is one; ``next(iterator)`` counts where it stands."""
        fed = [region.parent for region in call.region.above() if region.kind == "feed"]
        drawn = next((region for region in call.region.above() if _is_generator(region)), None)
        if drawn is not None and drawn.parent is not None:  # ``next(batches)`` counts where it stands
            fed += [loop for loop in drawn.parent.loops()[:1] if any(loop is each for each in self.training_loops)]
        if not fed and self._is_now_and_then(call):
            return False
        loops = fed or call.region.loops()[:1]
        return any(loop is not None and loop.holds(inner) for loop in loops for inner in self.training_loops)

    def _is_now_and_then(self, call: Call) -> bool:
        """Whether something is done under a test of rounds within the training loop: ``if step % 100 == 0: next(iter(held_out))``."""
        for region in call.region.above():
            if region.kind == "loop":
                return False
            if region.kind == "every" or (isinstance(region.test, Unknown) and region.test.moduli):
                return True
        return False

    def is_grouped_later(self, loader: Loader) -> bool:
        """Whether what a loader gives is not what a step is made of.

        A loader of single samples may be gone through by an iterator of the program's own, which makes batches of them; what another
        gives may be many batches, which a loop inside goes through.
        """
        for loop in self.training_loops:
            for outer in loop.loops()[1:2]:
                got = [outer.value, *self.items(outer.value)]
                if is_fed(outer) and any(part is not None and part is self.underlying(loop.iterable) for part in got):
                    return True
        if loader.call.argument(1, "batch_size") is not None or loader.call.argument(4, "batch_sampler") is not None:
            return False
        feeds = [call for call in self.trace.named("iterate") if call.receiver is loader.value]
        around = [call for feed in feeds for call in feed.calls_above()]
        return any(call.function is not None and call.function.name == "__iter__" for call in around)

    def underlying(self, value: Value | None) -> Value | None:
        """What a progress bar, an ``enumerate`` or an iterator goes over."""
        while isinstance(value, (Result, PerRank)):
            if isinstance(value, PerRank):
                value = value.first
            elif value.name in _WRAPPING:
                value = value.argument(0, "iterable") or value.argument(None, "sequence")
            elif (inner := wrapped_loader(self.interpreter, value)) is not None:
                value = inner
            else:
                break
        return value

    def in_worker(self, event: Event) -> Value | None:
        """The loader, or trainer, in whose workers something happens; None where it happens in the program itself."""
        return event.region.worker

    def loader_of(self, value: Value | None) -> Loader | None:
        """The loader that a value is."""
        return next((loader for loader in self.loaders if loader.value is value), None)

    def start_method(self, loader: Loader) -> str:
        """How the workers of a loader are started; empty for the system's own way."""
        context = loader.argument(11, "multiprocessing_context")
        if isinstance(context, Result) and context.name.endswith("get_context"):
            context = context.argument(0, "method")
        if isinstance(context, Constant) and context.value is not None:
            return str(context.value)
        calls = self.trace.named("torch.multiprocessing.set_start_method", "multiprocessing.set_start_method")
        methods = [constant_of(call.argument(0, "method")) for call in calls if call.region.is_certain()]
        return str(methods[-1]) if methods and methods[-1] else ""

    def length_of(self, dataset: Value | None, event: Event) -> Value | None:
        """How many samples a data set has, as its own ``__len__`` says."""
        if dataset is None:
            return None
        self.interpreter.quiet += 1
        try:
            return self.interpreter.call_library("len", [dataset], {}, event.node)
        finally:
            self.interpreter.quiet -= 1

    # ---- constants

    def number(self, value: Value | None) -> float | None:
        """A known number."""
        plain = constant_of(value)
        return plain if isinstance(plain, (int, float)) and not isinstance(plain, bool) else None

    def items(self, value: Value | None) -> list[Value]:
        """The known items of a container."""
        return self.interpreter.listed(value)[0] if isinstance(value, Container) else []

    def events(self) -> Iterator[Event]:
        """Everything, in order."""
        return self.trace.root.events()


def _is_made_by(call: Call) -> bool:
    """Whether a call makes its result: of a class, or by a function of a library that makes optimizers."""
    return call.method[:1].isupper() or _is_factory_name(call.method)


def _is_factory_name(name: str) -> bool:
    """``create_optimizer``, ``build_optimizer``: what a function of a library is called that makes one."""
    return name.partition("_")[0] in {"create", "build", "make", "get"} and name.endswith("optimizer")


def _is_optimizer_name(name: str) -> bool:
    last = name.rpartition(".")[2]
    return _is_factory_name(last) or (
        last[:1].isupper()
        and any(
            word in last
            for word in (
                "Adam",
                "SGD",
                "Optimizer",
                "Lion",
                "LAMB",
                "Adafactor",
                "RMSprop",
                "Adagrad",
                "Muon",
                "AdamW8bit",
                "Shampoo",
                "Prodigy",
                "LARS",
            )
        )
        and "Scheduler" not in last
        and not last.endswith("Config")
    )
