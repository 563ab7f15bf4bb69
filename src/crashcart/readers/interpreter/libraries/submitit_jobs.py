"""submitit: a program that hands a function to the scheduler, with as many ranks as it asks for.

executor.update_parameters(nodes=8, tasks_per_node=8)
executor.submit(Trainer(args))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.readers.interpreter.libraries import attributes, models
from crashcart.readers.interpreter.libraries.torch_library import rank_value, world_size
from crashcart.readers.interpreter.store import NONE
from crashcart.readers.interpreter.values import Constant, Result, Unknown, Value, constant_of

if TYPE_CHECKING:
    from crashcart.readers.interpreter.interpreter import Interpreter
    from crashcart.readers.interpreter.trace import Call

_EXECUTORS = ("submitit.AutoExecutor", "submitit.SlurmExecutor", "submitit.helpers.AutoExecutor")
_NAMES = {
    "nodes": "nodes",
    "tasks_per_node": "tasks",
    "slurm_ntasks_per_node": "tasks",
    "ntasks_per_node": "tasks",
    "slurm_nodes": "nodes",
}


@models(*(f"{name}.update_parameters" for name in _EXECUTORS))
def update_parameters(interpreter: Interpreter, call: Call) -> Value:
    """How many tasks are asked for."""
    for keyword, value in call.keywords.items():
        if keyword in _NAMES and call.receiver is not None:
            interpreter.store.set(call.receiver, _NAMES[keyword], value)
    return NONE


@models(*(f"{name}.{method}" for name in _EXECUTORS for method in ("submit", "map_array")))
def submit(interpreter: Interpreter, call: Call) -> Value:
    """The function runs in every task."""
    launch = interpreter.launch
    asked = [interpreter.store.get(call.receiver, name) for name in ("nodes", "tasks")]
    nodes, tasks = (constant_of(value if isinstance(value, Value) else Constant(1)) for value in asked)
    if launch.kind in {"", "python", "program"}:
        known = type(nodes) is int and type(tasks) is int and 0 < nodes * tasks < 10**6
        launch.ranks = nodes * tasks if known else None
        launch.rank_facts = tuple(fact for value in asked if isinstance(value, Value) for fact in value.origins)
        launch.starters.append(id(call.node))
    if call.arguments:
        interpreter.call(call.arguments[0], list(call.arguments[1:]), call.keywords, call.node)
    return Result("submitit.Job", call)


@attributes("submitit.JobEnvironment.global_rank", "submitit.JobEnvironment.local_rank", "submitit.JobEnvironment.node")
def rank(interpreter: Interpreter, _owner: Value) -> Value:
    """The number of this task."""
    return rank_value(interpreter)


@attributes("submitit.JobEnvironment.num_tasks")
def tasks(interpreter: Interpreter, _owner: Value) -> Value:
    """How many tasks there are."""
    return world_size(interpreter)


@attributes("submitit.JobEnvironment.num_nodes", "submitit.JobEnvironment.job_id", "submitit.JobEnvironment.hostnames")
def environment(_interpreter: Interpreter, _owner: Value) -> Value:
    """A matter of the scheduler."""
    return Unknown()
