"""Which piece of `crashcart.train` cures a cause: each in a sentence, for the last of a cause's remedies and for its page."""

from __future__ import annotations

from crashcart.model import Fix

__all__ = ["PIECES", "advised"]

PIECES = {
    "StepGuard": "runs backward, unscale, clip, step and update in the right order, lets all ranks skip a bad step together, and "
    "keeps the batch that made it",
    "chunks": "splits a batch for accumulation without empty parts or lost samples, with weights that give the exact mean",
    "load_once": "lets one rank prepare while the others wait without a collective that could time out",
    "nonblocking": "wraps the tracker so that its calls cannot block, slow or end the training, and keeps a local copy",
    "per_worker": "opens files lazily in each process, whatever the start method, and closes them again",
    "chunk_index": "indexes episodes in flat arrays that workers share, and never drops a short one silently",
    "load_yaml": "reads 1e-4 as a number, and refuses duplicate and unknown keys with their lines",
    "find_batch_size": "measures the largest batch that fits, and all ranks agree on it",
    "safe_eval_batch": "evaluates or samples in smaller pieces when memory runs out, and remembers the size that fits",
    "save_atomic": "writes, syncs and renames, so that a complete checkpoint exists at every moment",
    "resume": "resumes from the newest complete checkpoint, and reports where step, rate, loss or data position differ",
}


def advised(piece: str) -> Fix:
    """The piece as a remedy: a change of a few lines, by hand."""
    return Fix(f"Or use crashcart.train.{piece}", "by-hand", f"it {PIECES[piece]}; help(crashcart.train.{piece}) shows how")
