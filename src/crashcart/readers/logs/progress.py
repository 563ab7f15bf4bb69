"""How far the run came, what its step lines say, and which phase it was in.

Step lines have no common form; what they share is ``name: number`` or ``name=number``, a step or a bar (``4710/10000 [``)
and that a line of the same shape comes again and again.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from crashcart.log import Frame, Index, Line, Metrics, Progress
from crashcart.numbers import to_float, to_int
from crashcart.pattern import Pattern

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "find_goal",
    "find_metrics",
    "find_progress",
    "find_skips",
    "phase_of_frames",
    "phase_of_line",
    "phase_of_lines",
    "shape",
]

_VALUE = r"(?P<value>[-+]?(?:\d{1,40}(?:\.\d{0,40})?(?:e[-+]?\d{1,9})?|nan|inf(?:inity)?)(?:\(ind\))?|None)(?:\s?(?P<unit>[KMGT])(?:i?B)?\b)?(?![\w.])"
_UNITS = {"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_PAIR = Pattern(
    rf"['\"]?(?<![A-Za-z_])(?P<name>[A-Za-z_][\w/.@\-]{{0,60}}(?: loss| norm| rate)?)['\"]?\s{{0,30}}[:=]\s*(?:tensor\(|\[)?['\"]?{_VALUE}",
    re.IGNORECASE,
)
_SPACED = Pattern(
    rf"(?P<name>\b[\w/]{{0,60}}(?:loss|grad[_ ]?norm|gnorm|loss_scale)[\w/]{{0,30}}|\b(?:lr|ppl|wps|mem))[\])]?\s{{1,20}}\|?\s?{_VALUE}",
    re.IGNORECASE,
)
_LONGEST = 4000
_OF_A_SHAPE = 120
_NOT_A_METRIC = Pattern(r"\.py$|^t\d\d$|^\d|^line$|^pid$|^port$")
_BAR = Pattern(r"(?P<step>\d{1,15})/(?P<total>\d{1,15})\s*\[", needs=("[",))
_STEP = Pattern(
    r"(?:global[_ ]?step|\bsteps?|\biter(?:ation)?s?|\bit|update|num_updates)['\"]?[\s:=\[(#]*(?P<step>\d{1,15})(?:\s*(?:/|of)\s*(?P<total>\d{1,15}))?",
    re.IGNORECASE,
    needs=("step", "it", "update"),
)
_BRACKETED = Pattern(
    r"\]?\s?\[\s*(?P<step>\d{1,15})\s*/\s*(?P<total>\d{1,15})\s*\]|\b(?P<step2>\d{1,15})\s*/\s*(?P<total2>\d{1,15});|epoch.{0,20}\bbatch[ \[:=]+(?P<step3>\d{1,15})",
    re.IGNORECASE,
    needs=("/", "batch"),
)
_WORTH = ("loss", "nan", "inf", "grad", "acc", "metric", "reward", "ppl", "lr", "map", "step", "iter")
_DIGITS = str.maketrans("", "", "0123456789.+-e# \t|█▏▎▍▌▋▊▉:,<>?[]()%'\"/=")
_NOT_FINITE = Pattern(r"\b(?:nan|inf)\b", re.IGNORECASE)
_NOT_TRAINING = Pattern(
    r"download|loading|shards|tokeniz|map \(|mapping|filter|generating|processing|\bMB/s|\bkB/s|GB/s|resolving",
    re.IGNORECASE,
)


def shape(text: str) -> str:
    """What stays the same from one step line to the next."""
    return _NOT_FINITE.sub("", text).translate(_DIGITS).lower()


def find_metrics(index: Index) -> list[Metrics]:
    """The numbers of step lines: of each shape the first, the last, some between, and those that are not finite."""
    by_shape: dict[str, list[Line]] = {}
    for line in index.saying(_WORTH):
        if len(line.text) < _LONGEST:
            by_shape.setdefault(shape(line.text), []).append(line)
    found = []
    for form, lines in by_shape.items():
        between = lines[_OF_A_SHAPE:-_OF_A_SHAPE]
        broken = [line for line in between if "nan" in line.lowered or "inf" in line.lowered][:_OF_A_SHAPE]
        spread = between[:: max(1, len(between) // _OF_A_SHAPE)]
        middle = {line.order: line for line in (*broken, *spread)}
        for line in [*lines[:_OF_A_SHAPE], *middle.values(), *lines[max(_OF_A_SHAPE, len(lines) - _OF_A_SHAPE) :]]:
            values = _values(line.text)
            if values:
                found.append(Metrics(line, form, _step(line.text)[0], tuple(values)))
    return sorted(found, key=lambda one: one.line.order)


def _step(text: str) -> tuple[int | None, int | None]:
    match = _BAR.search(text) or _STEP.search(text)
    if match:
        return to_int(match["step"]), to_int(match["total"])
    match = _BRACKETED.search(text)
    if match is None:
        return None, None
    step, total = match["step"] or match["step2"] or match["step3"], match["total"] or match["total2"]
    return to_int(step), to_int(total)


def _values(text: str) -> list[tuple[str, float]]:
    pairs = {}
    for pattern in (_SPACED, _PAIR):
        for match in pattern.finditer(text):
            value = match["value"]
            name = match["name"].lower()
            number = to_float(value.replace("(ind)", ""), finite=False)
            if number is not None and not _NOT_A_METRIC.search(name):
                pairs[name] = number * _UNITS.get((match["unit"] or "").upper(), 1)
    return list(pairs.items())


def find_progress(lines: Sequence[Line]) -> Progress:
    """The last step that any line names, and how many there were to be."""
    for line in reversed(lines):
        if "(most recent" in line.text or 'File "' in line.text or not any(map(str.isdigit, line.text)):
            continue
        step, total = _step(line.text)
        if step is not None and not _NOT_TRAINING.search(line.text):
            return Progress(step, total, line)
    return Progress()


_SKIPPED = Pattern(
    r"skip\w{0,60} (?:\w{1,60} ){0,2}(?:batch|step|update|sample|iteration|backward|gradient)|training process will continue|"
    r"attempting to recover from OOM|empty (?:batch|target)|no (?:valid|positive) (?:anchors|targets|samples|boxes)|"
    r"loss is (?:nan|zero|inf)|batch skipped",
    re.IGNORECASE,
)
_SKIPPING = ("skip", "will continue", "recover from oom", "empty", "no valid", "no positive", "loss is")


def find_skips(index: Index) -> list[Line]:
    """Lines in which a program says that it leaves out a batch or a step."""
    return [line for line in index.saying(_SKIPPING) if _SKIPPED.search(line.text)]


_EPOCH_OF = Pattern(
    r"\bepochs?\b[\s:\[(#=]{0,4}(?P<done>\d{1,9})\s{0,2}(?:/|of)\s{0,2}(?P<total>\d{1,9})", re.IGNORECASE, needs=("epoch",)
)
_STILL_SENDING = Pattern(r"^wandb: .{0,12}(?:uploading|waiting)", re.IGNORECASE, needs=("wandb",))
_AFTER_THE_GOAL = 30  # lines: of a final evaluation, a summary, the tracker


def find_goal(index: Index) -> Line | None:
    """The line in which a run came to the end of its last announced epoch, where little was printed after it.

    Epochs are counted from 0 or from 1. In the last one a bar has to be full, or a checkpoint to be saved. A log that ends while a
    tracker sends its data ended too early.
    """
    epochs = [(line, match) for line in index.saying(("epoch",)) if (match := _EPOCH_OF.search(line.text)) is not None]
    if not epochs:
        return None
    last, match = epochs[-1]
    done, total = to_int(match["done"], 0), to_int(match["total"], 0)
    from_zero = any(to_int(other["done"], 1) == 0 for _, other in epochs)
    if not total or done != total - from_zero:
        return None
    later = [line for line in index.lines if line.order >= last.order]
    bars = [(line, bar) for line in later if (bar := _BAR.search(line.text)) is not None]
    if bars and bars[-1][1]["step"] != bars[-1][1]["total"]:
        return None
    saved = [line for line in later if phase_of_line(line) == "save"]
    reached = max([*saved, *(line for line, _ in bars)], key=lambda line: line.order, default=None)
    after = [line for line in later if reached is not None and line.order > reached.order and line.text.strip()]
    is_left_alone = len(after) <= _AFTER_THE_GOAL and not (after and _STILL_SENDING.search(after[-1].text))
    return reached if is_left_alone else None


_PHASE_FRAMES = (
    ("load", Pattern(r"^(?:set_(?:model|optimizer)?_?state_dict|_load_model_state_dict|_load_optim_state_dict|load_checkpoint|load_state_dict|_load_checkpoint|resume\w*|restore\w*|load_from_checkpoint|load_model_ckpt|load_state|_load_optimizer_and_scheduler|_load_from_checkpoint|auto_resume|_load)$")),
    ("save", Pattern(r"save_checkpoint|^save_state$|^_save\w*$|^save$|save_pretrained|save_model|checkpoint_save|full_state_dict|_summon_full_params|gather_full|get_state_dict|^state_dict$|consolidat|dump_checkpoint|save_ckpt|write_record")),
    ("sample", Pattern(r"log_(?:images?|img|samples?|videos?|validation)|(?:^|_)sampl(?:e|es|ing|er)(?:$|_)|^generate\w*|p_sample|rollout|visuali[sz]e|plot_|make_grid|denoising_loop|^decode_\w*image|render")),
    ("evaluate", Pattern(r"evaluat|(?:^|_)eval(?:$|_)|validat|(?:^|_)val(?:id)?(?:$|_)|^test(?:$|_)|^test_|_test$|prediction_(?:step|loop)|inference|compute_metrics|predict")),
    ("train", Pattern(r"backward|training_step|train_step|train_one_epoch|optimizer_step|^step$|run_training_batch|_inner_training_loop|^train$|^fit$|train_batch|train_epoch|forward_backward")),
)  # fmt: skip
_STATE_FILES = Pattern(r"serialization|distributed/checkpoint/")
_NO_PHASE = frozenset({"_maybe_log_save_evaluate", "sample_timesteps", "resume_from_checkpoint", "validate_args", "sampler"})
_PHASE_LINES = (
    ("save", Pattern(r"sav(?:ing|ed) (?:\w+ ){0,4}(?:checkpoint|model|state|weights|optimizer|ckpt)|checkpoint(?:ing)? (?:sav|to )|Saving at|保存|state dict took|Retrieving (?:full model|optimizer) state", re.IGNORECASE)),
    ("load", Pattern(r"(?:loading|restoring|resuming)(?: \w+){0,4} (?:from|checkpoint|weights|shards)|Loading checkpoint|resume from", re.IGNORECASE)),
    ("sample", Pattern(r"generat(?:ing|ed) (?:\w+ ){0,3}(?:images?|samples?|videos?)|sampling\b|sample images|DDIM Sampl|Running validation|log(?:ging)? images|rendering", re.IGNORECASE)),
    ("evaluate", Pattern(r"\* ?Running (?:Evaluation|Prediction)|\bevaluat(?:ing|ion)\b|\bvalidat(?:ing|ion)\b(?! (?:loss|acc|set|split|data|samples|interval|every|frequency|_))|\btesting\b|\beval(?:uate)?:|mAP@|Epoch \(valid\)|Class +Images +Labels|Validation(?: DataLoader)?[ :]+\d|\bEval(?:uating)?[: ].{0,200}%\||\bTest: ?\[|验证|测试集|评估", re.IGNORECASE)),
    ("train", Pattern(r"\* ?Running training|\bloss\b|\bEpoch\b.{0,200}%\||Starting training|it/s|s/it|\bstep\b", re.IGNORECASE)),
    ("start-up", Pattern(r"Loading (?:dataset|model|pretrained)|Initializ|Building|Creating", re.IGNORECASE)),
)  # fmt: skip


def phase_of_frames(frames: Sequence[Frame]) -> str | None:
    """What the program was doing, from the function names on its stack: the innermost that tells counts."""
    train = None
    for frame in reversed(frames):
        if frame.function in _NO_PHASE or ("/torch/" in frame.file and not _STATE_FILES.search(frame.file)):
            continue
        for phase, pattern in _PHASE_FRAMES:
            if pattern.search(frame.function):
                if phase != "train":
                    return phase
                train = train or phase
    return train


def phase_of_lines(lines: Sequence[Line]) -> tuple[str | None, Line | None]:
    """What the program said last that it was doing."""
    for line in reversed(lines):
        phase = phase_of_line(line)
        if phase is not None:
            return phase, line
    return None, None


def phase_of_line(line: Line) -> str | None:
    """What a single line says that the program does."""
    return _phase_of_text(line.text)


@lru_cache(maxsize=4096)  # every exception asks for the lines before it, and exceptions come in crowds
def _phase_of_text(text: str) -> str | None:
    if 'File "' in text or text.startswith("    "):
        return None
    return next((phase for phase, pattern in _PHASE_LINES if pattern.search(text)), None)
