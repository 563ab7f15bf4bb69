"""Every rank holds the full weights in host memory at once while it loads or gathers them.

What happens: one process loads the model without trouble; several on the same node are killed in the middle of it,
before the first step.

Why: each rank reads the whole checkpoint into host memory: ranks times size of the weights, in float32 twice what the
file shows, and for a moment the state dict beside the model. A resume adds the optimizer state (for Adam twice the
weights). Saving gathers the full weights the same way.

How it shows: ``Loading checkpoint shards``, ``Loading checkpoint from ... optim_states.pt`` or a weights bar is the
last thing the ranks say, then ``Killed``, ``-9``, or DeepSpeed's ``Killing subprocess`` without any traceback.

What to do: ``low_cpu_mem_usage=True`` and the file's own dtype, safetensors (memory-mapped), FSDP with
``cpu_ram_efficient_loading`` or rank 0 loading and broadcasting, ZeRO-3 initialisation (``zero.Init``), fewer ranks at
once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import compiled
from crashcart.causes.host_memory._kills import ECHOES, End, ends, limits
from crashcart.log import evidence
from crashcart.model import Experiment, Fix, Sign

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.log import Line
    from crashcart.model import Strength

title = "Host memory ran out because every rank loads the full weights at once"
alike = ("host-memory/oom-kill",)
_LOADING = (
    r"load(?:ing|ed)? (?:\w{1,60} ){0,3}(?:checkpoint|weights?|state[_ ]?dicts?|shards|safetensors|pretrained|pipeline "
    r"components|"
    r"optimizer states?|model)\b|Loading (?:VLA|LLM|base model|model)|ZeRO state_dicts|Attempting to resume|"
    r"_optim_states\.pt|model_states\.pt|pytorch_model.{0,200}\.bin|under default dtype|\bfrom_pretrained\b|zero_to_fp32|"
    r"Parameter Offload: Total persistent|Gathering (?:full|weights|state)|Converting .{0,20}weights|consolidat\w{1,60} "
    r".{0,20}(?:weights|checkpoint)|"
    r"加载(?:模型|权重|检查点)"
)
_LAUNCHER = (
    r"launch\.py|sigkill_handler|closing signal|elastic|exitcode|return code|Killed\s*$|^\s*$|semaphore|warnings\.warn|"
    r"Traceback|^\s+File |^\s{2,}\S|UserWarning|FutureWarning|wandb:|legacy behaviou?r|Loading extension module|Time to load"
)
_WORK = (
    r"\bloss\b|Epoch\b.{0,30}\d|\*{1,20} Running training|Num examples|Map\b.{0,20}%|Tokeniz|\biter\w{0,60}\W{1,3}\d|"
    r"\bstep\W{1,3}[1-9]"
)
_FRAMES = frozenset({
    "from_pretrained", "_load_pretrained_model", "load_state_dict", "load_checkpoint", "load_pretrained_model", "load_model",
    "_load_state_dict_into_model", "load_sharded_checkpoint", "load_shard_file", "load_weights", "from_checkpoint",
})  # fmt: skip
_NEAR = 40
_OTHERS = 6


def in_log(case: Case) -> Iterator[Sign]:
    """Host memory ended a process while loading was the last thing that it said it did."""
    kinds: dict[int, str] = {}
    for end in [*ends(case), *_silent_launcher(case)]:
        if end.raised is not None and _FRAMES & set(end.raised.functions):
            says = "a host memory allocation failed while weights were loaded"
            yield Sign("decisive", says, (evidence(end.line),), order=end.line.order)
            return
        loading = _last_loading(case, end.line, kinds)
        if loading is not None and (end.raised is None or end.raised.phase in {None, "load", "start-up"}):
            says = f"loading weights was the last message before the end: {end.says}"
            strength: Strength = "decisive" if _limit_named(case) else "strong"
            yield Sign(strength, says, (evidence(loading), evidence(end.line)), order=min(loading.order, end.line.order))
            return


def _last_loading(case: Case, end: Line, kinds: dict[int, str]) -> Line | None:
    """The loading that ended with this line: no step, and no more than a few lines of anything else, came between."""
    others = 0  # other ranks and libraries talk meanwhile
    for line in reversed(case.log.around(end, before=_NEAR)):
        kind = kinds.get(line.order) or _kind(line)
        kinds[line.order] = kind
        if kind == "loading":
            return line
        if line is not end and kind == "work":
            return None
        if kind != "launcher":
            others += 1
            if line is not end and others > _OTHERS:
                return None
    return None


def _kind(line: Line) -> str:
    if compiled(_LOADING).search(line.text):
        return "loading"
    if compiled(_WORK).search(line.text):
        return "work"
    return "launcher" if compiled(_LAUNCHER).search(line.text) else "other"


def _silent_launcher(case: Case) -> Iterator[End]:
    """DeepSpeed stops all ranks and no rank printed a traceback: a signal ended one of them."""
    log = case.log
    if any(one.kind and one.kind not in ECHOES for one in log.raised) or log.collectives or log.finished is not None:
        return
    if any(death.signal != "SIGKILL" for death in log.deaths):
        return
    for line in log.lines:
        if "killing subprocess" in line.lowered:
            yield End(line, "the launcher stopped all ranks and none printed a traceback, as after a SIGKILL")
            return


def _limit_named(case: Case) -> bool:
    return next(limits(case), None) is not None or any(event.kind == "oom-kill" and event.ours for event in case.kernel)


fixes = (
    Fix(
        "Load the weights on one rank only, or without a second copy",
        "exact",
        "with FSDP use cpu_ram_efficient_loading and sync_module_states; with ZeRO-3 create the model under deepspeed.zero.Init; "
        "otherwise use low_cpu_mem_usage=True with torch_dtype='auto' and safetensors files",
    ),
    Fix("Start fewer ranks on the node", "same-recipe", "loading needs ranks times the size of the weights in host memory"),
)
experiment = Experiment(
    title="Load the model and stop, once with one rank and once with all; record the peak memory of the cgroup",
    start_from="the beginning",
    stop_after="the first optimizer step",
    confirms="the peak grows with the number of ranks by the size of the weights, and only the larger start is killed",
    refutes="one rank alone is killed as well (the weights do not fit), or the peak is the same in both",
)
