"""Settings that exclude each other, each with the code base that refuses them: nothing is told of programs that do not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crashcart.model import Sign

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.model import Evidence, Fact

__all__ = ["contradictions"]


def contradictions(case: Case) -> Iterator[Sign]:
    """The pairs of settings that a trainer or a loader refuses."""
    if case.all("code.hf_trainer"):
        yield from _trainer(case)
    yield from _halves(case)
    yield from _loader(case)


def _said(case: Case, *spellings: str) -> Fact | None:
    """The setting as the user gave it: a flag or a line of a file, no default."""
    for group in case.seen.values():
        for fact in group:
            if fact.origin in {"flag", "file"} and fact.spelling.lstrip("-").replace("-", "_") in spellings:
                return fact
    return None


def _value(fact: Fact | None) -> Any:  # noqa: ANN401 - a value of any type
    return fact.value if fact is not None else None


def _places(*facts: Fact | None) -> tuple[Evidence, ...]:
    return tuple(fact.evidence for fact in facts if fact is not None)


def _trainer(case: Case) -> Iterator[Sign]:
    """What TrainingArguments refuses in its ``__post_init__``."""
    best = _said(case, "load_best_model_at_end")
    save, evaluate = _said(case, "save_strategy"), _said(case, "eval_strategy", "evaluation_strategy")
    kinds = [
        str("no" if _value(one) is False else _value(one) or default).lower()
        for one, default in ((save, "steps"), (evaluate, "no"))
    ]
    if _value(best) is True and kinds[0] != kinds[1]:
        says = (
            f"load_best_model_at_end needs saving and evaluation to go together: saving is {kinds[0]}, evaluation {kinds[1]}"
        )
        yield Sign("decisive", says, _places(best, save, evaluate))
    elif _value(best) is True and kinds[0] == "steps":
        each, check = _said(case, "save_steps"), _said(case, "eval_steps")
        saves, checks = _value(each) or 500, _value(check) or 500
        if isinstance(saves, int) and isinstance(checks, int) and checks and saves % checks:
            says = f"load_best_model_at_end needs save_steps ({saves}) to be a multiple of eval_steps ({checks})"
            yield Sign("decisive", says, _places(best, each, check))
    sharded, stages = _said(case, "fsdp"), _said(case, "deepspeed")
    if _value(sharded) and _value(stages):
        yield Sign("decisive", "--deepspeed and --fsdp cannot be used together", _places(stages, sharded))


def _halves(case: Case) -> Iterator[Sign]:
    """fp16 and bf16 at once, in one DeepSpeed file or for one trainer."""
    pairs = [(_said(case, "fp16.enabled"), _said(case, "bf16.enabled"))]
    if case.all("code.hf_trainer"):
        pairs.append((_said(case, "fp16"), _said(case, "bf16")))
    for half, brain in pairs:
        if _value(half) is True and _value(brain) is True:
            yield Sign("decisive", "fp16 and bf16 are both on, and only one can be", _places(half, brain))


def _loader(case: Case) -> Iterator[Sign]:
    """What DataLoader refuses without workers: seen in the program, or in settings of a program that was not followed."""
    for fact in case.all("code.loader_refuses"):
        says = f"{fact.value['name']} needs workers, but num_workers is 0: DataLoader refuses it"
        yield Sign("decisive", says, (*fact.value["places"], fact.evidence))
    workers = case.facts.get("loader.workers")
    if workers is None or workers.value != 0 or isinstance(workers.value, bool) or case.all("code.followed"):
        return
    prefetch, persistent = case.facts.get("loader.prefetch"), case.facts.get("loader.persistent")
    wrong = [prefetch] if prefetch is not None and type(prefetch.value) is int and prefetch.value > 0 else []
    wrong += [persistent] if persistent is not None and persistent.value is True else []
    for fact in wrong:
        if fact.origin != "default" and workers.origin != "default" and not case.all("code.loader_refuses"):
            says = f"{fact.spelling} needs workers, but {workers.spelling} is 0 (if both are used for the same loader)"
            yield Sign("strong", says, _places(fact, workers))
