"""Runs evaluation or sampling in smaller parts when memory runs out, instead of ending the training that waits for it.

::

    evaluate = safe_eval_batch(model)
    for batch in loader:
        logits = evaluate(batch)
"""

from __future__ import annotations

import functools
import logging
from collections import deque
from typing import TYPE_CHECKING, Any

import torch

from crashcart.train.all_ranks import numbers_of_all
from crashcart.train.batches.joining import check_joinable, joined
from crashcart.train.batches.samples import Samples
from crashcart.train.batches.splitting import even
from crashcart.train.memory.out_of_memory import free_memory, is_out_of_memory, let_go

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["SafeEval", "safe_eval_batch"]

_log = logging.getLogger("crashcart.train")


def safe_eval_batch(
    fn: Callable[..., Any] | None = None,
    *,
    numbers: str | None = None,
    join: Callable[[Sequence[Any]], Any] | None = None,
    largest: int | None = None,
    all_ranks: bool = False,
    group: Any = None,  # noqa: ANN401 - a ProcessGroup
    **split: Any,  # noqa: ANN401 - dim, size, shared, per_sample
) -> Any:  # noqa: ANN401 - a SafeEval, or a decorator that gives one
    """A function of a batch (or of a number of samples to draw) that runs `fn` without gradients and survives out of memory.

    When memory runs out the samples that are left are run in parts of half the size, each size tried once, down to a single
    sample; that one's error is raised. The results are put together in order, and the size that worked is kept for later
    batches (`.size`; set it to None to try whole batches again). Other errors pass as they are.

    `numbers`: what a single number in the result is over its batch, ``mean`` or ``sum``.
    `join`: your own way to make one result of the list of the parts' results.
    `largest`: samples in a part from the beginning. `split`: as `chunks` takes it (dim, size, shared, per_sample).
    `all_ranks`: `fn` has collectives (FSDP): all ranks of `group` go on together with the same number of calls.
    """
    if fn is None:
        return functools.partial(
            safe_eval_batch, numbers=numbers, join=join, largest=largest, all_ranks=all_ranks, group=group, **split
        )
    if numbers not in {None, "mean", "sum"}:
        raise ValueError(f"numbers must be 'mean' or 'sum', not {numbers!r}")
    if unknown := set(split) - {"dim", "size", "shared", "per_sample"}:
        raise TypeError(f"safe_eval_batch takes no {', '.join(sorted(unknown))}")
    if largest is not None and largest < 1:
        raise ValueError(f"largest must be at least 1, not {largest}")
    return SafeEval(fn, numbers, join, largest, (all_ranks, group), split)


class SafeEval:
    """What `safe_eval_batch` gives."""

    def __init__(
        self,
        fn: Callable[..., Any],
        numbers: str | None,
        join: Callable[[Sequence[Any]], Any] | None,
        largest: int | None,
        ranks: tuple[bool, Any],
        split: dict[str, Any],
    ) -> None:
        self.size = largest
        """The most samples in a call; None until memory has run out once."""
        self._fn, self._numbers, self._join, self._split = fn, numbers, join, split
        self._together, self._group = ranks
        self._checked = False
        self._told: set[str] = set()
        if not isinstance(fn, torch.nn.Module):
            functools.update_wrapper(self, fn, updated=())

    @torch.no_grad()
    def __call__(self, batch: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as fn
        """`fn(batch, ...)`, in as many parts as memory asks for; other arguments go whole to each."""
        part_of, total = self._cut(batch)
        pending = deque(self._ranges(0, total))
        results: list[Any] = []
        sizes: list[int] = []
        while pending:
            start, stop = pending.popleft()
            result, worked = self._attempt(lambda: self._fn(part_of(start, stop), *args, **kwargs), stop - start)  # noqa: B023 - called at once
            if not worked:
                pending = deque(self._ranges(start, total))
                continue
            if not results and total > 1:
                self._check(result, stop - start)
            results.append(result)
            sizes.append(stop - start)
            del result
        if not results:
            return self._fn(batch, *args, **kwargs)  # an empty batch is for fn to judge
        if len(results) == 1:
            return results[0]
        return joined(results, sizes, self._numbers) if self._join is None else self._join(results)

    def _cut(self, batch: Any) -> tuple[Callable[[int, int], Any], int]:  # noqa: ANN401 - any batch
        """Any range of the samples, and how many there are; what cannot be split is one sample."""
        if isinstance(batch, int) and not isinstance(batch, bool):
            return lambda start, stop: stop - start, batch
        try:
            samples = Samples(batch, **self._split)
        except (TypeError, ValueError) as error:
            self._tell(f"this batch could not be split if memory ran out: {error}")
            return lambda _start, _stop: batch, 1
        return samples.part, samples.size

    def _attempt(self, run: Callable[[], Any], size: int) -> tuple[Any, bool]:
        """The result, and whether it worked here and on all ranks; a smaller size is set where it did not."""
        failure: Exception | None = None
        result = None
        try:
            result = run()
        except Exception as error:
            if not (self._together or is_out_of_memory(error)):
                raise
            failure = error
        failed, smaller = (failure is not None, max(1, size // 2)) if not self._together else self._agreed(failure, size)
        if failure is not None and (size == 1 or not is_out_of_memory(failure)):
            raise failure
        if not failed:
            return result, True
        del result
        said = "on another rank" if failure is None else let_go(failure)
        del failure
        free_memory()
        self.size = smaller
        _log.warning(
            "out of memory with %d samples, going on with %d at a time (%s)", size, smaller, said.splitlines()[0][:200]
        )
        return None, False

    def _agreed(self, failure: Exception | None, size: int) -> tuple[bool, int]:
        """Whether any rank failed, and the size to go on with then."""
        ended = failure is not None and (size == 1 or not is_out_of_memory(failure))
        rows = numbers_of_all([ended, failure is not None, size], self._group)
        for rank, (hopeless, _, _) in enumerate(rows):
            if hopeless and failure is None:
                raise RuntimeError(f"rank {rank} failed in this evaluation, so it ends here too; its own log tells why")
        return any(failed for _, failed, _ in rows), max(1, int(min(each for _, _, each in rows)) // 2)

    def _ranges(self, start: int, total: int) -> list[tuple[int, int]]:
        left = total - start
        count = -(-left // self.size) if self.size and left else min(1, left)
        if self._together:
            rows = numbers_of_all([count, left], self._group)
            count = int(max(wanted for wanted, _ in rows))
            if count > min(have for _, have in rows):
                raise RuntimeError(
                    f"the ranks cannot make {count} calls each with {[int(have) for _, have in rows]} samples left: "
                    "give them batches of one size"
                )
        return [(start + a, start + b) for a, b in even(left, count)]

    def _check(self, result: Any, size: int) -> None:  # noqa: ANN401 - whatever fn gives
        """Say at the first call what will not work in the hour of need."""
        if self._join is None and not self._checked:
            self._checked = True
            try:
                check_joinable(result, size, self._numbers)
            except (TypeError, ValueError) as error:
                self._tell(f"this evaluation could not be split if memory ran out: {error}")

    def _tell(self, sentence: str) -> None:
        if sentence not in self._told:
            self._told.add(sentence)
            _log.warning("safe_eval_batch: %s", sentence)
