"""Arithmetic on out-of-memory messages that the causes of this family share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import compiled
from crashcart.numbers import to_int

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.log import Frame, Line, Memory

GIB = 1 << 30
CONTEXT = GIB // 2  # what a CUDA context takes beside the allocator, rounded up
VALIDATING = (
    r"\b(?:valid|validation|validating|val|eval|evaluating|evaluation|test|testing|sampling)\b[^|]{0,60}\d%|mAP@|"
    r"^\s*Class\s+Images|\bRunning (?:validation|evaluation)\b|"
    r"^\W{0,3}(?:val(?:id(?:at\w{1,60})?)?|eval\w{0,60}|test\w{0,60})\b[^a-z]{0,4}(?:epoch\W{0,3})?[\d/ ]{1,20}\W"
)
# torch's own functions between torch.load or load_state_dict and the allocation.
LOADING = frozenset({
    "default_restore_location", "restore_location", "persistent_load", "load_tensor", "_cuda_deserialize", "_deserialize",
    "load_state_dict", "_load_from_state_dict",
})  # fmt: skip
# Functions that only evaluation, sampling or logging of images has, whichever framework they belong to.
EVALUATING = (
    r"^(?:torch_pad_and_concatenate|numpy_pad_and_concatenate|nested_(?:concat|numpify|truncate|detach)|distributed_concat|"
    r"_?pad_across_processes|gather_for_metrics|compute_metrics|preprocess_logits_for_metrics|_?evaluat\w*|"
    r"_?validat\w*(?<!args)|_*(?:val|eval)|"
    r"do_(?:eval|valid|test)\w*|run_(?:eval|valid|val|test|inference)\w*|eval_\w+|val_(?:step|epoch|loop|one_epoch|"
    r"model)\w*|"
    r"test_(?:epoch|step|model|loop|one_epoch)\w*|prediction_(?:step|loop)|predict_step|single_gpu_test|multi_gpu_test|"
    r"inference\w*|simple_test|aug_test|forward_test|post_?process\w*|on_validation\w*|on_test\w*)$"
)
SAMPLING = (
    r"^(?:\w*debug_images?|translate_using_\w+|log_(?:images?|validation|samples?|video)|save_(?:samples?|images?|"
    r"previews?)|"
    r"sample_(?:images?|and_save|during_training|loop)\w*|generate_(?:images?|samples?|previews?|video)\w*|visuali[sz]e\w*|"
    r"p_sample\w*|ddim_\w+|plms_\w+|_?(?:beam|greedy|contrastive)_search|_sample|denois(?:e|ing)_loop|make_(?:samples?|"
    r"video))$"
)
CALLED = (
    r"\b(?:evaluate|validate|do_eval|run_eval\w*|test_epoch|\w*debug_image|log_images?|log_validation|visuali[sz]e\w*|"
    r"save_samples?|sample_images?)\(|num_inference_steps|\bs?_?pipe(?:line)?\(|\binputs_val\b|\bnets_ema\b|\bema_model\("
)
# Words that stand in front of the message in its own line: a bar that it was glued to, or who caught it.
BEFORE = r"\b(?:sampl(?:es?|ing)|previews?|validat\w+|evaluat\w+|inference|generating)\b[^.]{0,40}$"
WORDS = (
    r"(?:CUDA|HIP)?\W{0,3}(?:error: |runtime error \(2\) ?: )?out of memory|THCudaCheck FAIL|OutOfMemoryError|"
    r"Tried to allocate"
)
ABOVE = 3  # lines between a stack and the bare message below it
CUT = 40  # lines between a message and the stack below it
SIZES = ("size", "batch_size", "bsz", "frames", "tokens", "ntokens", "num_tokens", "seq_len", "seqlen", "max_len", "labels")
QUOTED = r"\braise\b|\bexcept\b|[\[,]\s*['\"](?:CUDA )?out of memory"
RETRIED = r"\b(?:oom|memory|batch)\b.{0,200}\b(?:halving|retrying|re-trying|will retry|trying again)\b"
LONG_AFTER = 10  # step lines after a stack that show the program alive, even where other ranks may write them
SKIPPED = r"skip|recover|re-?try|retry|fall(?:ing)? back|reduc|decreas|smaller|halv|to CPU|using CPU|batch removed"


def deaths(case: Case) -> Iterator[Memory]:
    """Out-of-memory messages that the program did not get over, as far as the lines beside them tell.

    A warning is the end all the same when no step follows it and nothing says that the batch was skipped. Steps that follow
    an error do not clear it here: other ranks go on for a while. The engine knows which process wrote on.
    """
    known: dict[int, bool] = case.derived.setdefault("gpu-memory/deaths", {})
    for memory in _messages(case):
        order = memory.line.order
        if order not in known:
            known[order] = not _retried(case, memory) and (not memory.survived or _last_words(case, memory))
        if known[order]:
            yield memory


def survived(case: Case) -> Iterator[Memory]:
    """Out-of-memory messages that the program got over."""
    ended = {memory.line.order for memory in deaths(case)}
    return (memory for memory in _messages(case) if memory.line.order not in ended)


def _messages(case: Case) -> Iterator[Memory]:
    """Messages that were meant: source lines and lists of settings that hold the words are none."""
    return (memory for memory in case.log.memory if not _says(case, QUOTED, memory.line))


def _says(case: Case, pattern: str, line: Line) -> bool:
    """Whether a line fits a pattern; kept, since many messages and several causes ask about the same lines."""
    known: dict[tuple[str, int], bool] = case.derived.setdefault("gpu-memory/lines", {})
    key = pattern, line.order
    if key not in known:
        known[key] = compiled(pattern).search(line.text) is not None
    return known[key]


def _retried(case: Case, memory: Memory) -> bool:
    return any(_says(case, RETRIED, line) for line in case.log.around(memory.line, before=6))


def alive(case: Case, memory: Memory) -> bool:
    """Whether step lines of a known shape follow: at once where there is no stack (quoted text), many where there is one."""
    steps = [metric for metric in case.log.metrics if metric.line.log == memory.line.log and metric.step is not None]
    known = {step.shape for step in steps if step.line.order < memory.line.order}
    later = sum(step.line.order > memory.line.order and step.shape in known for step in steps)
    return later >= (LONG_AFTER if memory.functions else 1)


def _last_words(case: Case, memory: Memory) -> bool:
    if any(_says(case, SKIPPED, line) for line in case.log.around(memory.line, after=2)):
        return False
    return not any(metric.line.order > memory.line.order for metric in case.log.metrics) and case.log.finished is None


def phase(case: Case, memory: Memory) -> str | None:
    """What the program was doing: the stack first, then words in front of the message, then the last bar that was drawn."""
    known: dict[int, str | None] = case.derived.setdefault("gpu-memory/phases", {})
    if memory.line.order not in known:
        known[memory.line.order] = _phase(case, memory)
    return known[memory.line.order]


def _phase(case: Case, memory: Memory) -> str | None:
    if LOADING.intersection(memory.functions):
        return "load"
    if memory.phase not in {None, "train"}:
        return memory.phase
    told = _by_stack(case, memory) or _by_own_line(memory)
    if told or memory.functions:
        return told or memory.phase
    steps = {metric.line.order for metric in case.log.metrics if any("loss" in name for name, _ in metric.values)}
    for line in reversed(case.log.around(memory.line, before=30)[:-1]):
        if _says(case, VALIDATING, line):
            return "evaluate"
        if line.order in steps:
            break
    return memory.phase


def _by_stack(case: Case, memory: Memory) -> str | None:
    """What functions and calls tell on the stack of the message, or on one below it whose own last line was cut off."""
    frames: tuple[Frame, ...] = ()
    for raised in case.log.raised:
        if raised.line.order == memory.line.order:
            frames = raised.frames
        elif (
            raised.stack_only
            and not frames
            and any(line.order == raised.line.order for line in case.log.around(memory.line, before=ABOVE, after=CUT))
        ):
            frames = raised.frames
            if raised.phase not in {None, "train"}:
                return raised.phase
    for frame in reversed(frames):
        if "/torch/" in frame.file:
            continue
        if compiled(EVALUATING).search(frame.function):
            return "evaluate"
        if compiled(SAMPLING).search(frame.function):
            return "sample"
        if compiled(CALLED).search(frame.code) and "train" not in frame.code:
            return "sample"
    return None


def _by_own_line(memory: Memory) -> str | None:
    before = compiled(WORDS).split(memory.line.text, maxsplit=1)[0][-300:]
    if compiled(BEFORE).search(before):
        return "sample" if compiled(r"sampl|preview|generat").search(before) else "evaluate"
    return "evaluate" if compiled(VALIDATING).search(before) else None


def steps_before(case: Case, memory: Memory) -> int:
    """How many steps of training the log shows before the message; 0 where it shows none."""
    steps = {metric.step for metric in case.log.metrics if metric.step is not None and metric.line.order < memory.line.order}
    return max(steps) if len(steps) > 1 else 0


def epochs_before(case: Case, memory: Memory) -> int:
    """How many epochs the step lines before the message count."""
    before = (metric for metric in case.log.metrics if metric.line.order < memory.line.order)
    found = (compiled(r"\bepochs?\W{0,4}(\d+)").search(one.line.text) for one in before)
    epochs = {to_int(match[1], 0) for match in found if match}
    return max(epochs) if len(epochs) > 1 else 0


def sizes_vary(case: Case, memory: Memory) -> bool:
    """Whether the step lines before the message show batches of different sizes."""
    before = [metric for metric in case.log.metrics if metric.line.order < memory.line.order][-20:]
    return any(len({one.get(name) for one in before} - {None}) > 1 for name in SIZES)


def capacity(memory: Memory) -> int | None:
    """The size of the card, or the least it can be where the message does not say."""
    if memory.capacity is None and memory.free is not None and memory.allocated is not None:
        return memory.free + memory.allocated + (memory.unallocated or 0)
    return memory.capacity


def held_by_others(memory: Memory) -> int | None:
    """Bytes on the card that are neither free nor held by this process."""
    if memory.capacity is None or memory.free is None:
        return None
    if memory.process:  # some drivers say 0 bytes
        return memory.capacity - memory.free - memory.process
    own = _pool(memory)
    return None if own is None else memory.capacity - memory.free - own - CONTEXT


def _pool(memory: Memory) -> int | None:
    """What PyTorch took from the card. Up to torch 1.3 "cached" is only what it holds beyond the allocated bytes."""
    if memory.allocated is not None and memory.unallocated is not None:
        return memory.allocated + memory.unallocated
    if memory.reserved is None:
        return None
    beyond = memory.allocated is not None and memory.reserved < memory.allocated
    return memory.reserved + (memory.allocated or 0) if beyond else memory.reserved


def idle_in_pool(memory: Memory) -> int | None:
    """Bytes that PyTorch holds and does not use."""
    if memory.unallocated is not None:
        return memory.unallocated
    pool = _pool(memory)
    return None if pool is None or memory.allocated is None else pool - memory.allocated


def gib(count: float) -> str:
    """Bytes for people."""
    return f"{count / GIB:.1f} GiB" if count >= GIB else f"{count / (1 << 20):.0f} MiB"
