"""torch: ranks, loaders, tensors and their graphs, optimizers, scalers, wrappers of models, processes that are started."""

from __future__ import annotations

import ast
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from crashcart.numbers import to_count
from crashcart.readers.interpreter.intervals import bounds_of
from crashcart.readers.interpreter.libraries import attributes, elements, models, no_graph, tested_for_finite
from crashcart.readers.interpreter.libraries.rank_starters import join_ranks, start_ranks
from crashcart.readers.interpreter.store import FALSE, NONE, TRUE
from crashcart.readers.interpreter.trace import Call
from crashcart.readers.interpreter.values import (
    Bound,
    Choice,
    Class,
    Constant,
    Container,
    Function,
    Generator,
    Instance,
    Module,
    Partial,
    PerRank,
    Result,
    Unknown,
    Value,
    constant_of,
    hashable,
    join,
    origins_of,
    small_tags,
    tags_of,
    unknown_from,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.readers.interpreter.interpreter import Interpreter

__all__ = ["inner_model", "is_first_rank", "rank_value", "world_size"]

WRAPPERS = (
    "torch.nn.parallel.DistributedDataParallel", "torch.nn.DataParallel", "torch.nn.parallel.DataParallel", "apex.parallel.DistributedDataParallel",
    "torch.distributed.fsdp.FullyShardedDataParallel", "torch.compile", "torch.jit.script", "torch._dynamo.optimize", "torch.nn.SyncBatchNorm.convert_sync_batchnorm",
    "fairscale.nn.FullyShardedDataParallel",
)  # fmt: skip


# ---- ranks


def rank_value(interpreter: Interpreter) -> Value:
    """The number of this rank: 0, or any other."""
    return Constant(0) if interpreter.launch.ranks == 1 else PerRank(Constant(0), Constant(1))


def is_first_rank(interpreter: Interpreter) -> Value:
    """Whether this is rank 0."""
    return TRUE if interpreter.launch.ranks == 1 else PerRank(TRUE, FALSE)


def world_size(interpreter: Interpreter) -> Value:
    """How many ranks there are."""
    ranks = interpreter.launch.ranks
    return (
        Constant(ranks, interpreter.launch.rank_facts)
        if ranks is not None
        else Unknown(frozenset({"positive"}), kind="world_size")
    )


@models(
    "torch.distributed.get_rank",
    "torch.distributed.get_node_local_rank",
    "horovod.torch.rank",
    "horovod.torch.local_rank",
    "deepspeed.comm.get_rank",
    "detectron2.utils.comm.get_rank",
    "mmengine.dist.get_rank",
    "torch.distributed.get_group_rank",
)
def get_rank(interpreter: Interpreter, call: Call) -> Value:
    """``get_rank()``; that in a group of some ranks is not known."""
    group = call.argument(0, "group", NONE)
    return rank_value(interpreter) if isinstance(group, Constant) and group.value is None else Unknown(kind="group_rank")


@models(
    "torch.distributed.get_world_size",
    "horovod.torch.size",
    "deepspeed.comm.get_world_size",
    "detectron2.utils.comm.get_world_size",
    "mmengine.dist.get_world_size",
)
def get_world_size(interpreter: Interpreter, call: Call) -> Value:
    """``get_world_size()``; that of a group of some ranks is not known."""
    return world_size(interpreter) if not call.arguments and not call.keywords else Unknown(kind="world_size")


_MAKE_GROUP = (
    "torch.distributed.init_process_group", "accelerate.Accelerator", "deepspeed.init_distributed", "deepspeed.initialize",
    "transformers.TrainingArguments", "transformers.Seq2SeqTrainingArguments", "transformers.Trainer.train", "lightning.Trainer.fit",
    "lightning.Fabric.launch", "lightning.fabric.Fabric.launch", "accelerate.PartialState",
)  # fmt: skip


@models("torch.distributed.is_initialized", "torch.distributed.is_torchelastic_launched", "torch.distributed.is_available")
def is_distributed(interpreter: Interpreter, call: Call) -> Value:
    """Whether there is a process group, once the program has made one."""
    if call.method == "is_available":
        return TRUE
    if call.method == "is_torchelastic_launched":
        return TRUE if interpreter.launch.sets_ranks else Unknown()
    if interpreter.trace.named(*_MAKE_GROUP):
        return TRUE if interpreter.launch.ranks != 1 else Unknown()
    return Unknown(kind="initialized")


@models("detectron2.utils.comm.is_main_process", "mmengine.dist.is_main_process", "accelerate.PartialState.is_main_process")
def is_main(interpreter: Interpreter, _call: Call) -> Value:
    """Whether this is rank 0."""
    return is_first_rank(interpreter)


@models(
    "torch.cuda.is_available",
    "torch.backends.mps.is_available",
    "torch.cuda.is_bf16_supported",
    "torch.backends.cudnn.is_available",
)
def has_device(interpreter: Interpreter, call: Call) -> Value:
    """A matter of the machine; a job of several ranks has a card for each."""
    ranks = interpreter.launch.ranks
    if call.name == "torch.cuda.is_available" and interpreter.launch.sets_ranks and ranks is not None and ranks > 1:
        return TRUE
    return Unknown(kind=call.name)


@models(
    "torch.multiprocessing.spawn",
    "torch.multiprocessing.start_processes",
    "accelerate.notebook_launcher",
    "torch.multiprocessing.spawn.spawn",
)
def spawn(interpreter: Interpreter, call: Call) -> Value:
    """Ranks that the program starts itself; each gets its number first."""
    function, given = call.argument(0, "fn") or call.argument(0, "function"), call.argument(1, "args")
    start_ranks(interpreter, call)
    arguments = interpreter.listed(given)[0] if given is not None else []
    first = [] if call.method == "notebook_launcher" else [rank_value(interpreter)]
    if function is not None:
        interpreter.call(function, [*first, *arguments], {}, call.node)
    return NONE


# ---- loaders


@models(
    "torch.utils.data.DataLoader",
    "torch_geometric.loader.DataLoader",
    "torchdata.stateful_dataloader.StatefulDataLoader",
    "monai.data.DataLoader",
    "torch_geometric.data.DataLoader",
    "accelerate.data_loader.DataLoaderShard",
    "timm.data.create_loader",
    "webdataset.WebLoader",
    "litdata.StreamingDataLoader",
)
def make_loader(interpreter: Interpreter, call: Call) -> Value:
    """A loader; torch refuses a batch of less than one sample."""
    if call.name.endswith((".DataLoader", ".DataLoader.__init__")):
        refuse_size(
            interpreter,
            call.argument(1, "batch_size"),
            call.node,
            "ValueError",
            "batch_size should be a positive integer value",
        )
    values = (*call.arguments, *call.keywords.values())
    return Result("torch.utils.data.DataLoader", call, tags_of(*values) - {"graph"}, origins_of(*values))


@models("torch.utils.data.DataLoader.__init__")
def initialise_loader(interpreter: Interpreter, call: Call) -> Value:
    """``super().__init__(...)`` of a loader of the program's own: its batches are those of torch's loader."""
    made: Value = make_loader(interpreter, call)
    if isinstance(call.receiver, Instance):
        interpreter.store.set(call.receiver, "(loader)", made)
    return made


def refuse_size(interpreter: Interpreter, size: Value | None, node: ast.AST, error: str, says: str) -> None:
    """A size of zero or less fails; one that is drawn may."""
    bounds = bounds_of(size) if size is not None else None
    if size is None or bounds is None or bounds[0] > 0:
        return
    if bounds[1] <= 0:
        interpreter.fail(node, error, says, size)
    elif "random" in size.tags:
        with interpreter.inside("branch", node, test=size):
            interpreter.fail(node, error, says, size)


@models("torch.utils.data.BatchSampler")
def make_batch_sampler(interpreter: Interpreter, call: Call) -> Value:
    """A sampler of batches; torch refuses a batch of less than one sample."""
    refuse_size(
        interpreter, call.argument(1, "batch_size"), call.node, "ValueError", "batch_size should be a positive integer value"
    )
    values = (*call.arguments, *call.keywords.values())
    return Result("torch.utils.data.BatchSampler", call, tags_of(*values), origins_of(*values))


def _draw_batch(interpreter: Interpreter, loader: Result, node: ast.AST) -> None:
    """The program's own sampler makes the indices of a batch; no sample can be put together from none."""
    sampler = loader.argument(4, "batch_sampler")
    if not isinstance(sampler, Instance) or interpreter.quiet:
        return
    drawn = interpreter.call_method(sampler, "__iter__", [], {}, node)
    frame = interpreter.frame

    def take(indices: Value) -> Value:
        inner, interpreter.frame = interpreter.frame, frame
        if isinstance(indices, Container) and not interpreter.quiet:
            says = "a batch without samples cannot be put together"
            refuse_size(interpreter, interpreter.length_of(indices), node, "IndexError", says)
        interpreter.frame = inner
        return NONE

    if isinstance(drawn, Generator):
        drawn.run(take)


@elements("torch.utils.data.DataLoader")
def batch(interpreter: Interpreter, loader: Result, node: ast.AST) -> Value:
    """A batch: the data set's own code runs for each of its samples, in the workers where there are any."""
    interpreter.record(Call, node, "iterate", [], {}, receiver=loader)
    known = interpreter.store.get(loader, "(batch)")
    if isinstance(known, Value):
        return known
    _draw_batch(interpreter, loader, node)
    dataset = loader.argument(0, "dataset")
    sample = read_sample(interpreter, loader, dataset, node)
    collate = loader.argument(6, "collate_fn")
    if collate is not None and not isinstance(collate, Constant):
        with in_worker(interpreter, loader, node):
            items = interpreter.container("list", [sample], is_open=True)
            made = interpreter.call(collate, [items], {}, node)
        result: Value = made if isinstance(made, (Container, Instance)) else unknown_from(made, add=("tensor", "data"))
    else:
        result = collated(interpreter, sample, loader.argument(1, "batch_size"))
    interpreter.store.set(loader, "(batch)", result)
    return result


@models("torch.utils.data.get_worker_info", "torch.utils.data._utils.worker.get_worker_info")
def worker_info(interpreter: Interpreter, call: Call) -> Value:
    """Which worker this is; None in the training itself."""
    loader = next((region.value for region in interpreter.region.above() if region.kind == "worker"), None)
    if loader is None:
        return NONE
    workers = loader.argument(5, "num_workers") if isinstance(loader, Result) else None
    number = constant_of(workers, -1)
    info = Result("torch.utils.data.WorkerInfo", call)
    if workers is None or number == 0:
        return NONE if isinstance(loader, Result) and loader.call is not None and loader.call.complete else join(NONE, info)
    return info if isinstance(number, int) and number > 0 else join(NONE, info)


@contextmanager
def in_worker(interpreter: Interpreter, loader: Value, node: ast.AST) -> Iterator[None]:
    """Follow code that runs in a worker: it begins with a copy of all that there is, and what it changes stays with it."""
    start, mark = interpreter.trace.number, len(interpreter.store.log)
    with interpreter.inside("worker", node, value=loader):
        yield
    if _has_workers(loader):
        interpreter.store.restore(mark, lambda owner: _was_there(owner, start))


def _has_workers(loader: Value) -> bool:
    if not isinstance(loader, Result) or loader.call is None:
        return False
    return bool(constant_of(loader.call.argument(5, "num_workers", Constant(0)), 1) != 0)


def _was_there(owner: object, number: int) -> bool:
    """Whether an object was made before a moment of the trace; frames of calls are not looked at."""
    if isinstance(owner, (Instance, Result)):
        return owner.call is not None and owner.call.number <= number
    if isinstance(owner, Container):
        return owner.number <= number
    return isinstance(owner, (Module, Class))


def read_sample(interpreter: Interpreter, loader: Value, dataset: Value | None, node: ast.AST) -> Value:
    """One sample of a data set, read as a worker of the loader would."""
    while isinstance(dataset, Result) and dataset.name in {
        "torch.utils.data.Subset",
        "torch.utils.data.random_split",
        "torch.utils.data.ConcatDataset",
    }:
        dataset = dataset.argument(0, "dataset") or dataset.argument(0, "datasets")
        if isinstance(dataset, Container):
            items, _ = interpreter.listed(dataset)
            dataset = items[0] if items else None
    if isinstance(dataset, Container) and (samples := interpreter.listed(dataset)[0]):
        return samples[0]
    if not isinstance(dataset, Instance):
        return Unknown(frozenset({"tensor", "data"}))
    with in_worker(interpreter, loader, node):
        if interpreter._find(dataset.cls, "__iter__") is not None:
            return interpreter.element(dataset, node)
        result = interpreter.call_method(dataset, "__getitem__", [Unknown(frozenset({"loop", "index"}))], {}, node)
        if result is None:
            result = interpreter.call_method(dataset, "__getitems__", [Unknown(frozenset({"loop", "index"}))], {}, node)
    return result if result is not None else Unknown(frozenset({"tensor", "data"}))


def collated(interpreter: Interpreter, sample: Value, size: Value | None, depth: int = 4) -> Value:
    """Samples put together: the same shape of containers with tensors in them; ``size`` is how many there are."""
    if isinstance(sample, Container) and depth:
        content = interpreter.items(sample)
        if isinstance(content, dict):
            return interpreter.container(
                sample.kind,
                {key: collated(interpreter, value, size, depth - 1) for key, value in content.items()},
                is_open=bool(interpreter.store.get(sample, "open")),
            )
        return interpreter.container(
            "list",
            [collated(interpreter, value, size, depth - 1) for value in content],
            is_open=bool(interpreter.store.get(sample, "open")),
        )
    return Unknown(frozenset({"tensor", "data"}), kind="batch", bound=size)


def _given(interpreter: Interpreter, owner: Value, position: int, name: str) -> Value | None:
    """What a loader, also one of the program's own class, was made with."""
    loader = interpreter.store.get(owner, "(loader)") if isinstance(owner, Instance) else owner
    return loader.argument(position, name) if isinstance(loader, Result) else None


@attributes("torch.utils.data.DataLoader.dataset")
def dataset_of(interpreter: Interpreter, owner: Value) -> Value:
    """The data set of a loader."""
    found = _given(interpreter, owner, 0, "dataset")
    return found if found is not None else Unknown()


@attributes("torch.utils.data.DataLoader.batch_size")
def batch_size_of(interpreter: Interpreter, owner: Value) -> Value:
    """The batch of a loader."""
    found = _given(interpreter, owner, 1, "batch_size")
    return found if found is not None else Unknown()


@attributes("torch.utils.data.DataLoader.sampler")
def sampler_of(interpreter: Interpreter, owner: Value) -> Value:
    """The sampler of a loader."""
    found = _given(interpreter, owner, 3, "sampler")
    return found if found is not None else Unknown()


@models("parts(torch.utils.data.random_split)", "parts(sklearn.model_selection.train_test_split)")
def split_parts(_interpreter: Interpreter, value: Result, count: int) -> list[Value]:
    """The parts of a data set are the data set, as far as its samples go."""
    return [Result("torch.utils.data.Subset", value.call, value.tags, value.origins, data=at) for at in range(count)]


def dataset_length(interpreter: Interpreter, dataset: Value | None, node: ast.AST, depth: int = 4) -> Value | None:
    """How many samples a data set has; None where that is not known."""
    if not isinstance(dataset, Result) or dataset.call is None or not depth:
        return None
    name, call = dataset.name, dataset.call
    if name == "torch.utils.data.Subset" and type(dataset.data) is int:
        sizes = call.argument(1, "lengths")
        items, complete = interpreter.listed(sizes) if sizes is not None else ([], False)
        size = items[dataset.data] if complete and dataset.data < len(items) else None
        return size if type(constant_of(size)) is int else None
    if name == "torch.utils.data.Subset":
        return interpreter.call_library("len", [call.arguments[1]], {}, node) if len(call.arguments) > 1 else None
    if name == "torch.utils.data.TensorDataset" and call.arguments:
        return interpreter.call_library("len", [call.arguments[0]], {}, node)
    if name == "torchvision.datasets.FakeData":
        return call.argument(0, "size", Constant(1000))
    return None


@models("len(torch.utils.data.Subset)", "len(torch.utils.data.TensorDataset)", "len(torchvision.datasets.FakeData)")
def length_of_dataset(interpreter: Interpreter, dataset: Value, node: ast.AST) -> Value | None:
    """The samples of a data set of torch."""
    return dataset_length(interpreter, dataset, node)


@models("torch.utils.data.random_split")
def random_split(_interpreter: Interpreter, call: Call) -> Value:
    """A data set in parts."""
    return Result(call.name, call, tags_of(*call.arguments), origins_of(*call.arguments))


# ---- tensors


@models("?.item", "?.tolist", "?.numpy", "?.detach", "?.data")
def plain(_interpreter: Interpreter, call: Call) -> Value | None:
    """A number or a tensor without its graph."""
    if isinstance(call.receiver, Constant) and call.method == "item":
        return call.receiver
    if isinstance(call.receiver, (Unknown, Result, Bound)) or call.receiver is None:
        drop = {"graph"} if call.method in {"detach", "data"} else {"graph", "tensor"}
        tags = tags_of(call.receiver) - drop
        origins = call.receiver.origins if call.receiver is not None else ()
        return Unknown(small_tags(tags), origins, kind="number") if call.method == "item" else Unknown(tags, origins)
    return None


@models(
    "torch.isfinite",
    "torch.isnan",
    "torch.isinf",
    "numpy.isnan",
    "numpy.isfinite",
    "numpy.isinf",
    "?.isnan",
    "?.isfinite",
    "?.isinf",
)
def finite_test(interpreter: Interpreter, call: Call) -> Value:
    """A test for NaN or Inf."""
    return tested_for_finite(interpreter, call, call.method, [*call.arguments, call.receiver])


@models(
    "?.any", "?.all", "torch.any", "torch.all", "numpy.any", "numpy.all", "?.bool", "?.sum", "torch.sum", "torch.logical_not"
)
def whole_test(interpreter: Interpreter, call: Call) -> Value | None:
    """A test of all elements keeps what it tests."""
    value = call.arguments[0] if call.name.startswith(("torch.", "numpy.")) and call.arguments else call.receiver
    if isinstance(value, Constant) and isinstance(value.value, bool):
        return interpreter.unary(ast.Not(), value, call.node) if call.method == "logical_not" else value
    if isinstance(value, Unknown) and "finite" in value.tags:
        return value
    return None


@models("?.size", "torch.Tensor.size")
def size(interpreter: Interpreter, call: Call) -> Value | None:
    """The sizes of a tensor, or one of them."""
    owner = call.receiver
    if owner is None:
        return None
    made = Unknown(small_tags(owner.tags) - {"graph", "tensor"}, owner.origins)
    if constant_of(call.argument(0, "dim")) == 0:
        return interpreter.count(made, owner)
    if not call.arguments:
        made.kind, made.bound = "shape", owner
    return made


@models("torch.is_tensor")
def is_tensor(_interpreter: Interpreter, call: Call) -> Value:
    """Whether something is a tensor, where that is known."""
    value = call.argument(0)
    if isinstance(value, (Constant, Container, Instance)):
        return FALSE
    return TRUE if isinstance(value, Unknown) and {"tensor", "graph"} & value.tags and value.kind != "mapping" else Unknown()


@models("?.backward", "torch.autograd.backward")
def backward(interpreter: Interpreter, call: Call) -> Value:
    """Gradients are made: whatever unknown thing gave this value is a model."""
    mark_models(interpreter, call.receiver if call.receiver is not None else call.argument(0))
    return NONE


def mark_models(interpreter: Interpreter, value: Value | None) -> None:
    """Remember that the results of what was called for this value have a graph."""
    if value is not None:
        numbers = (to_count(tag.partition(":")[2]) for tag in value.tags if tag.startswith("called:"))
        interpreter.models.update(number for number in numbers if number is not None)
        if isinstance(value, Unknown) and "graph" not in value.tags:
            value.tags |= {"graph", "tensor"}


@models(
    "torch.distributed.all_reduce",
    "torch.distributed.broadcast",
    "torch.distributed.reduce",
    "torch.distributed.all_gather",
    "torch.distributed.barrier",
    "torch.distributed.broadcast_object_list",
    "torch.distributed.all_gather_object",
    "torch.distributed.gather_object",
    "torch.distributed.monitored_barrier",
)
def collective(interpreter: Interpreter, call: Call) -> Value:
    """What all ranks do together; the tensor holds what all of them said."""
    value = call.argument(0)
    if isinstance(value, Unknown) and call.method in {"all_reduce", "broadcast"}:
        value.tags = value.tags | {"agreed"}
    if (
        isinstance(value, Container)
        and value.kind == "list"
        and call.method in {"broadcast_object_list", "all_gather_object", "all_gather"}
    ):
        items = tuple(Unknown(tags_of(item) | {"agreed"}, item.origins) for item in interpreter.items(value))
        interpreter.store.set(value, "items", items)
    return NONE


@models(
    "torch.tensor",
    "torch.as_tensor",
    "torch.zeros",
    "torch.ones",
    "torch.full",
    "torch.Tensor",
    "torch.FloatTensor",
    "torch.from_numpy",
    "torch.empty",
    "torch.arange",
    "torch.randn",
    "torch.rand",
    "torch.zeros_like",
    "torch.ones_like",
    "torch.randperm",
    "numpy.zeros",
    "numpy.ones",
    "numpy.empty",
    "numpy.full",
    "numpy.random.randn",
    "numpy.random.permutation",
)
def make_tensor(interpreter: Interpreter, call: Call) -> Value:
    """A tensor or array without a graph; one that is filled with so many items has a length."""
    values: list[Value] = []
    for value in call.arguments:
        values += interpreter.listed(value)[0] if isinstance(value, Container) else [value]
    made = Unknown(tags_of(*values) - {"graph"} | {"tensor"}, origins_of(*values))
    if call.method in _FILLED:
        first = call.argument(0, "size")
        items = interpreter.listed(first)[0] if isinstance(first, Container) else [first] if first is not None else []
        several = call.method == "arange" and len(call.arguments) > 1
        made.kind, made.bound = "filled", items[0] if items and not several else None
    return made


_FILLED = frozenset(["zeros", "ones", "full", "empty", "arange", "randn", "rand", "permutation", "randperm", "random"])


# ---- models, optimizers


@models(*WRAPPERS)
def wrap_model(_interpreter: Interpreter, call: Call) -> Value:
    """A model behind a wrapper."""
    model = call.argument(0, "module") or call.argument(0, "model")
    if call.method in {"compile", "convert_sync_batchnorm", "script"}:
        return model if model is not None else Result("decorator", call, data=call.name)
    return Result(call.name, call, tags_of(model), data=model)


def inner_model(value: Value | None) -> Value | None:
    """The model of the program behind wrappers."""
    while isinstance(value, Result) and isinstance(value.data, Value) and value.name in WRAPPERS:
        value = value.data
    return value


for _name in WRAPPERS:

    @attributes(f"{_name}.module")
    def _module(_interpreter: Interpreter, owner: Value) -> Value:
        """The wrapped model."""
        return owner.data if isinstance(owner, Result) and isinstance(owner.data, Value) else Unknown()

    @models(f"{_name}.__call__")
    def _call_wrapped(interpreter: Interpreter, call: Call) -> Value:
        """The model runs."""
        model = inner_model(call.receiver)
        graph = () if no_graph(interpreter) else ("graph",)
        if isinstance(model, Instance):
            return interpreter.call(model, call.arguments, call.keywords, call.node, complete=call.complete)
        return unknown_from(*call.arguments, add=("tensor", *graph))

    @models(f"{_name}.train", f"{_name}.eval", f"{_name}.to", f"{_name}.cuda", f"{_name}.half", f"{_name}.float")
    def _same_wrapped(_interpreter: Interpreter, call: Call) -> Value:
        """The same model."""
        return call.receiver if call.receiver is not None else Unknown()


@models(
    "?.to",
    "?.cuda",
    "?.cpu",
    "?.float",
    "?.half",
    "?.contiguous",
    "?.clone",
    "?.requires_grad_",
    "?.bfloat16",
    "?.double",
    "?.train",
    "?.eval",
    "?.type",
    "?.pin_memory",
    "?.share_memory_",
    "?.share_memory",
    "?.xpu",
    "?.npu",
    "?.to_device",
)
def same_thing(_interpreter: Interpreter, call: Call) -> Value | None:
    """The same tensor or model in another place or mode."""
    receiver = call.receiver
    if isinstance(receiver, Instance) and not receiver.cls.library_bases():
        return None
    return receiver if isinstance(receiver, (Unknown, Result, Instance, Container)) else None


@models(
    "torch.nn.Module.__init__",
    "torch.utils.data.Dataset.__init__",
    "object.__init__",
    "lightning.LightningModule.__init__",
    "torch.utils.data.IterableDataset.__init__",
    "threading.Thread.__init__",
)
def initialised(_interpreter: Interpreter, _call: Call) -> Value:
    """Nothing that is followed."""
    return NONE


@models(
    "torch.save",
    "torch.manual_seed",
    "torch.cuda.empty_cache",
    "torch.cuda.synchronize",
    "torch.distributed.destroy_process_group",
    "torch.cuda.set_device",
    "torch.set_float32_matmul_precision",
)
def nothing(_interpreter: Interpreter, _call: Call) -> Value:
    """Nothing comes of it."""
    return NONE


@models("torch.distributed.init_process_group")
def make_group(interpreter: Interpreter, call: Call) -> Value:
    """The ranks meet; a program that no launcher started says itself how many they are."""
    join_ranks(interpreter, call.argument(3, "world_size"), call)
    return NONE


@models("torch.load")
def load(_interpreter: Interpreter, call: Call) -> Value:
    """What was saved; ``data`` is the way of keys to a part of it."""
    tags = frozenset({"checkpoint", "bulk", f"whole:{call.number}", f"loaded:{call.number}"})
    return Result("torch.load", call, tags, data=())


@models("safetensors.torch.load_file", "torch.hub.load_state_dict_from_url", "safetensors.safe_open")
def load_weights(_interpreter: Interpreter, call: Call) -> Value:
    """Weights of a file."""
    return Result(call.name, call, frozenset({"checkpoint"}))


@models("torch.load[]")
def loaded_part(_interpreter: Interpreter, owner: Result, key: Value, _node: ast.AST) -> Value:
    """A part of what was saved."""
    return Result("torch.load", owner.call, owner.tags, data=(*(owner.data or ()), constant_of(hashable(key))))


@models("torch.load.get", "torch.load.pop")
def loaded_item(_interpreter: Interpreter, call: Call) -> Value:
    """A part of what was saved, where it is there."""
    owner = call.receiver
    keys = (*(owner.data or ()), constant_of(call.argument(0))) if isinstance(owner, Result) else ()
    tags = tags_of(owner) | {"checkpoint"}
    return Result("torch.load", owner.call if isinstance(owner, Result) else None, tags, data=keys)


@models(
    "torch.no_grad",
    "torch.inference_mode",
    "torch.enable_grad",
    "torch.set_grad_enabled",
    "torch.amp.autocast",
    "torch.autocast",
)
def context(_interpreter: Interpreter, call: Call) -> Value:
    """A context, or a decorator where it is called with a function."""
    first = call.argument(0)
    if isinstance(first, (Function, Partial)):
        if isinstance(first, Function):
            first.decorators = (*first.decorators, call.name)
        return first
    mode = constant_of(first, call.name == "torch.enable_grad")
    name = "torch.no_grad" if call.method == "set_grad_enabled" and mode is False else call.name
    return Result(name, call, origins=origins_of(*call.arguments))


@models(*(f"torch.{name}.__call__" for name in ("no_grad", "inference_mode", "enable_grad", "autocast", "amp.autocast")))
def decorate_by_hand(_interpreter: Interpreter, call: Call) -> Value:
    """``torch.no_grad()(function)``."""
    function = call.argument(0)
    if isinstance(function, Function):
        function.decorators = (*function.decorators, call.name.removesuffix(".__call__"))
    return function if function is not None else Unknown()


@models("@torch.no_grad", "@torch.inference_mode")
def decorate(_interpreter: Interpreter, function: Value, _decorator: Value, _node: Any) -> Value:  # noqa: ANN401 - a place
    """A function without graphs; its decorator is noted."""
    return function


@models("torch.nn.ModuleList.__iter__", "torch.nn.Sequential.__call__")
def parts(interpreter: Interpreter, call: Call) -> Value:
    """The parts of a module run one after the other."""
    graph = () if no_graph(interpreter) else ("graph",)
    return unknown_from(*call.arguments, add=("tensor", *graph))


@elements("torch.nn.ModuleList", "torch.nn.Sequential")
def module_element(interpreter: Interpreter, value: Result, node: ast.AST) -> Value:
    """A part of a module."""
    inner = value.argument(0, "modules")
    return interpreter.element(inner, node) if inner is not None else Unknown()


@models("deepspeed.initialize")
def deepspeed_engine(interpreter: Interpreter, call: Call) -> Value:
    """The engine, and what it makes of optimizer, loader and schedule."""
    model = call.argument(1, "model")
    engine = Result("deepspeed.DeepSpeedEngine", call, data=model)
    optimizer = call.argument(2, "optimizer") or Result("deepspeed.Optimizer", call)
    data = call.argument(4, "training_data")
    loader: Value = NONE
    if data is not None and not isinstance(data, Constant):
        loader = Result("torch.utils.data.DataLoader", call)
    return interpreter.container("tuple", [engine, optimizer, loader, Result("deepspeed.Scheduler", call)])


@models("deepspeed.DeepSpeedEngine.__call__")
def call_engine(interpreter: Interpreter, call: Call) -> Value:
    """The model runs."""
    model = call.receiver.data if isinstance(call.receiver, Result) else None
    if isinstance(model, Instance):
        return interpreter.call(model, call.arguments, call.keywords, call.node, complete=call.complete)
    return unknown_from(*call.arguments, add=("tensor", "graph"))


@attributes("deepspeed.DeepSpeedEngine.module")
def engine_module(_interpreter: Interpreter, owner: Value) -> Value:
    """The model of an engine."""
    return owner.data if isinstance(owner, Result) and isinstance(owner.data, Value) else Unknown()


@attributes(
    "deepspeed.DeepSpeedEngine.global_rank",
    "deepspeed.DeepSpeedEngine.local_rank",
    "accelerate.Accelerator.process_index",
    "accelerate.Accelerator.local_process_index",
    "accelerate.PartialState.process_index",
    "lightning.LightningModule.global_rank",
    "lightning.LightningModule.local_rank",
    "lightning.Trainer.global_rank",
    "lightning.Trainer.local_rank",
    "transformers.TrainingArguments.process_index",
    "transformers.TrainingArguments.local_process_index",
    "lightning.fabric.Fabric.global_rank",
    "lightning.Fabric.global_rank",
)
def rank_attribute(interpreter: Interpreter, _owner: Value) -> Value:
    """The number of this rank."""
    return rank_value(interpreter)


@attributes(
    "accelerate.Accelerator.is_main_process",
    "accelerate.Accelerator.is_local_main_process",
    "accelerate.PartialState.is_main_process",
    "accelerate.PartialState.is_local_main_process",
    "accelerate.state.AcceleratorState.is_main_process",
    "lightning.Trainer.is_global_zero",
    "transformers.Trainer.is_world_process_zero",
    "lightning.fabric.Fabric.is_global_zero",
    "lightning.Fabric.is_global_zero",
    "transformers.TrainerState.is_world_process_zero",
)
def first_attribute(interpreter: Interpreter, _owner: Value) -> Value:
    """Whether this is rank 0."""
    return is_first_rank(interpreter)


@models("transformers.Trainer.is_world_process_zero", "transformers.Trainer.is_local_process_zero")
def first_method(interpreter: Interpreter, _call: Call) -> Value:
    """Whether this is rank 0."""
    return is_first_rank(interpreter)


@attributes(
    "accelerate.Accelerator.num_processes",
    "accelerate.PartialState.num_processes",
    "lightning.Trainer.world_size",
    "transformers.TrainingArguments.world_size",
    "lightning.fabric.Fabric.world_size",
    "lightning.Fabric.world_size",
)
def world_attribute(interpreter: Interpreter, _owner: Value) -> Value:
    """How many ranks there are."""
    return world_size(interpreter)


# ---- numbers that must be numbers

_NUMERIC: dict[str, tuple[tuple[int | None, str], ...]] = {
    "torch.optim.": ((1, "lr"), (None, "weight_decay"), (None, "momentum"), (None, "eps"), (None, "alpha"), (None, "dampening")),
    "torch.utils.data.DataLoader": ((1, "batch_size"), (5, "num_workers"), (None, "prefetch_factor")),
    "torch.nn.Dropout": ((0, "p"),),
    "torch.linspace": ((0, "start"), (1, "end"), (2, "steps")), "torch.arange": ((0, "start"), (1, "end"), (2, "step")),
    "numpy.linspace": ((0, "start"), (1, "stop"), (2, "num")), "numpy.arange": ((0, "start"), (1, "stop"), (2, "step")),
    "range": ((0, ""), (1, ""), (2, "")),
    "torch.nn.Linear": ((0, "in_features"), (1, "out_features")),
    "torch.nn.Embedding": ((0, "num_embeddings"), (1, "embedding_dim")),
    "torch.nn.Conv2d": ((0, "in_channels"), (1, "out_channels")),
    "torch.nn.LSTM": ((0, "input_size"), (1, "hidden_size")),
    "time.sleep": ((0, "secs"),),
    "transformers.TrainingArguments": tuple((None, name) for name in (
        "learning_rate", "weight_decay", "adam_epsilon", "max_grad_norm", "max_steps", "num_train_epochs", "per_device_train_batch_size",
        "per_device_eval_batch_size", "warmup_steps", "logging_steps", "save_steps", "gradient_accumulation_steps",
    )),
}  # fmt: skip
_WHOLE = (
    "range",
    "torch.utils.data.DataLoader",
    "torch.nn.Linear",
    "torch.nn.Embedding",
    "torch.nn.Conv2d",
    "torch.nn.LSTM",
)


def check_numbers(interpreter: Interpreter, call: Call) -> None:
    """A library raises for a text where it calculates, and for a float where it counts."""
    name = call.name
    if name.startswith("torch.optim.lr_scheduler.") and call.method[:1].isupper():
        wanted: tuple[tuple[int | None, str], ...] = tuple(
            (None, keyword)
            for keyword in call.keywords
            if keyword not in {"mode", "optimizer", "interpolation", "threshold_mode", "anneal_strategy"}
        )
    elif name.startswith("torch.optim.") and call.method[:1].isupper():
        wanted = _NUMERIC["torch.optim."]
    else:
        wanted = _NUMERIC.get(name, ())
    groups = call.argument(0, "params") if wanted is _NUMERIC["torch.optim."] else None
    for group in interpreter.listed(groups)[0] if isinstance(groups, Container) else ():
        for keyword in ("lr", "weight_decay") if isinstance(group, Container) and group.kind == "dict" else ():
            if (value := interpreter.items(group).get(keyword)) is not None:
                need_number(interpreter, call, value, keyword, None)
    for position, keyword in wanted:
        value = call.argument(position, keyword, NONE) or NONE
        need_number(interpreter, call, value, keyword, _written_argument(call.node, position, keyword))
    for keyword in call.keywords if name == "transformers.TrainingArguments" else ():
        value = call.keywords[keyword]
        if keyword.endswith("_strategy") and isinstance(constant_of(value), bool):
            interpreter.fail(call.node, "ValueError", f"{constant_of(value)} is no {keyword}", value)
    betas = call.argument(None, "betas", NONE) if wanted is _NUMERIC["torch.optim."] else None
    if isinstance(constant_of(betas), str):
        interpreter.fail(call.node, "TypeError", f"{call.method}() needs two numbers for betas", betas or NONE)


def need_number(interpreter: Interpreter, call: Call, value: Value, keyword: str, place: ast.expr | None) -> None:
    """A text fails where a library calculates; a variable that is not set here is a text where somebody sets it."""
    what = keyword or "its count"
    for option in value.options if isinstance(value, Choice) else ():
        is_unset = isinstance(option, Unknown) and option.kind.startswith("environment:")
        if is_unset or isinstance(constant_of(option), str):
            with interpreter.inside("branch", call.node, test=option):
                interpreter.fail(call.node, "TypeError", f"{call.method}() needs a number for {what}", option, place=place)
    plain = constant_of(value)
    if isinstance(plain, str) or (isinstance(value, Result) and value.name == "text"):
        interpreter.fail(call.node, "TypeError", f"{call.method}() needs a number for {what}", value, place=place)
    elif isinstance(plain, float) and call.name in _WHOLE:
        interpreter.fail(call.node, "TypeError", f"{call.method}() needs a whole number for {what}", value, place=place)


def _written_argument(node: ast.AST, position: int | None, keyword: str) -> ast.expr | None:
    """An argument as the call itself writes it."""
    if not isinstance(node, ast.Call):
        return None
    named = next((word.value for word in node.keywords if keyword and word.arg == keyword), None)
    if named is not None or position is None or any(isinstance(argument, ast.Starred) for argument in node.args):
        return named
    return node.args[position] if position < len(node.args) else None
