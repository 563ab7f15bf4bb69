"""What the frameworks check of the sizes of a job before they start.

DeepSpeed demands its identity, and that the trainer's arguments agree with its file. Tensor x pipeline x context must divide the
ranks: Megatron and what is made of it (NeMo, gpt-neox), torchtitan and accelerate all refuse at their start. What a part of a job
says about its own engine (a rollout in vLLM, a teacher, a reward model) is another matter and does not count.
"""

from __future__ import annotations

import re
from math import prod
from typing import TYPE_CHECKING

from crashcart.causes.config._sections import squeezed
from crashcart.model import Sign
from crashcart.numbers import to_float, to_int

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.model import Evidence, Fact

__all__ = ["IDENTITY", "deepspeed", "framework"]

MOST = 1 << 40
IDENTITY = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
SIZES = {
    "tensor": {"tensormodelparallelsize", "tensorparalleldegree", "modelparallelsize", "parallelismconfigtpsize"},
    "pipeline": {"pipelinemodelparallelsize", "pipelineparalleldegree", "pipeparallelsize"},
    "context": {"contextparallelsize", "contextparalleldegree", "parallelismconfigcpsize"},
}
ELSEWHERE = re.compile(r"(?i)rollout|vllm|sglang|infer|gener|teacher|reward|critic|(?:^|[._])ref(?:[._]|$)|export|convert")


def _is_number(value: object) -> bool:
    return not isinstance(value, str) and abs(to_float(value, MOST)) < MOST


def deepspeed(case: Case) -> Iterator[Fact]:
    """The numbers of DeepSpeed's file that its identity is made of; ``auto`` is none."""
    for group in case.seen.values():
        for fact in group:
            is_json = fact.span is not None and fact.span.file.endswith(".json")
            if is_json and fact.origin == "file" and fact.spelling in IDENTITY and _is_number(fact.value):
                yield fact


def framework(case: Case) -> Iterator[Sign]:
    """Parallel sizes; DeepSpeed's identity, and the arguments of the Hugging Face trainer against its file."""
    yield from _parallel_sizes(case)
    file = {fact.spelling: fact for fact in deepspeed(case)}
    batch, micro, accumulation = (file.get(name) for name in IDENTITY)
    ranks = case.number("launch.processes")
    if batch and micro and ranks and _is_number(batch.value) and _is_number(micro.value) and ranks >= 1:
        times = (
            accumulation.value if accumulation and _is_number(accumulation.value) else batch.value // (micro.value * ranks)
        )
        if times * micro.value * ranks != batch.value:
            says = f"DeepSpeed requires train_batch_size = micro x accumulation x ranks: {batch.value:g} is not {micro.value:g} x {times:g} x {ranks:g}"
            places = (
                batch.evidence,
                micro.evidence,
                *((accumulation.evidence,) if accumulation else ()),
                case.facts["launch.processes"].evidence,
            )
            yield Sign("decisive", says, places)
    for one, name in ((micro, "train.batch_size"), (accumulation, "train.accumulation")):
        flag = case.facts.get(name)
        if (
            one
            and flag
            and flag.origin == "flag"
            and _is_number(one.value)
            and _is_number(flag.value)
            and flag.value != one.value
            and flag.spelling.startswith(("--per_device", "--gradient"))
        ):
            says = f"{flag.spelling} is {flag.value:g}, but the DeepSpeed file says {one.value:g}: the trainer refuses different values"
            yield Sign("decisive", says, (flag.evidence, one.evidence))


def _parallel_sizes(case: Case) -> Iterator[Sign]:
    """The product of the sizes does not divide the ranks of this launch."""
    ranks = case.facts.get("launch.processes")
    if ranks is None or type(ranks.value) is not int or ranks.value < 1:
        return
    sizes = {kind: fact for kind, names in SIZES.items() if (fact := _one(case, names)) is not None}
    product = prod(to_int(fact.value, 0) for fact in sizes.values())
    if sizes and product >= 1 and ranks.value % product == 0:
        yield from _batch(case, ranks, product, tuple(fact.evidence for fact in sizes.values()))
    if product < 1 or ranks.value % product == 0:
        return
    written = " x ".join(f"{fact.spelling.lstrip('-')} {fact.value}" for fact in sizes.values())
    says = f"{ranks.value} ranks are not divisible by {product} ({written}): the program refuses to start"
    yield Sign("decisive", says, (*(fact.evidence for fact in sizes.values()), ranks.evidence))


def _batch(case: Case, ranks: Fact, product: int, places: tuple[Evidence, ...]) -> Iterator[Sign]:
    """Megatron's own: the global batch is a whole number of micro-batches for each data-parallel rank."""
    batch, micro = _one(case, {"globalbatchsize"}), _one(case, {"microbatchsize"})
    if (
        batch is None
        or micro is None
        or _one(case, SIZES["tensor"] - {"parallelismconfigtpsize"}) is None
        or micro.value < 1
    ):
        return
    if any("rampup" in fact.spelling.lower() for fact in case.facts.values()):
        return
    copies = ranks.value // product
    if batch.value % (micro.value * copies):
        says = f"the global batch {batch.value} is not divisible by micro-batch {micro.value} x {copies} data-parallel ranks ({ranks.value} / {product})"
        yield Sign(
            "decisive", f"{says}: Megatron refuses to start", (batch.evidence, micro.evidence, *places, ranks.evidence)
        )


def _one(case: Case, names: set[str]) -> Fact | None:
    """The size that a flag or a file gives; none where two differ or it is only a default."""
    every = [
        fact
        for fact in case.facts.values()
        if fact.origin in {"flag", "file"}
        and squeezed(fact.spelling.lstrip("-").rpartition(".")[2]) in names
        and not ELSEWHERE.search(fact.spelling)
    ]
    flags = [fact for fact in every if fact.origin == "flag"] or every
    values = {fact.value for fact in flags if type(fact.value) is int}
    return flags[0] if len(values) == 1 and len({str(fact.value) for fact in flags}) == 1 else None
