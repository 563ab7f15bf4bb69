"""Healthy multi-rank training output in the styles of ten frameworks: to bury incidents in, and to make large logs.

The run goes well and never ends, so that an incident can be put anywhere in it: loss falls, evaluations and checkpoints come
and go, and the warnings that healthy runs print are all there.
"""

from __future__ import annotations

import json
import math
import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

STYLES = ("plain", "ranks", "megatron", "deepspeed", "hf", "titan", "lightning", "fairseq", "mmengine", "json")
WARNINGS = (
    "UserWarning: Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch 1.1.0 and later, you should call them in the opposite order.  Failure to do this will result in PyTorch skipping the first value of the learning rate schedule.",
    "[W reducer.cpp:1389] Warning: find_unused_parameters=True was specified in DDP constructor, but did not find any unused parameters in the forward pass. (function operator())",
    "huggingface/tokenizers: The current process just got forked, after parallelism has already been used. Disabling parallelism to avoid deadlocks...",
    "WARNING: skipped corrupt sample shard-{a:05d}/{b:07d}.jpg (cannot identify image file), drew another index",
    "wandb: Network error (ReadTimeout), entering retry loop.\nwandb: Network error resolved after 0:00:{c:02d}.118231, resuming normal operation.",
    "/env/lib/python3.11/site-packages/torch/utils/checkpoint.py:87: UserWarning: None of the inputs have requires_grad=True. Gradients will be None",
    "HTTP Error 503 thrown while requesting GET storage/shards/train-{a:05d}.tar\nRetrying in 1s [Retry 1/5].",
    "libpng warning: iCCP: known incorrect sRGB profile",
    "Corrupt JPEG data: {c} extraneous bytes before marker 0xd9",
    "node-{d}:{b}:{a} [{d}] NCCL INFO Channel {c:02d}/0 : {d}[{d}] -> {e}[{e}] via P2P/CUMEM/read",
    "node-{d}:{b}:{a} [{d}] NCCL INFO NET/Plugin: No plugin found (libnccl-net.so)",
    "Token indices sequence length is longer than the specified maximum sequence length for this model ({b} > 4096). Running this sequence through the model will result in indexing errors",
    "WARNING:data:worker {d} slow: 2.{c} s for one batch (timeout=120), num_timeouts=0",
    "[GC] Performing periodic GC collection took 0.0{c} seconds",
    "gradient clipped: norm 3.{c} > 1.0, nan_count=0 inf_grad_ratio=0.0",
    "metrics: word_error_rate=0.{a:04d} num_failed=0 nan_count=0 inf_grad_ratio=0.0 timeouts=0 killed_workers=0",
    "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 32768.0",
)
EPOCH = 5000


class Run:
    """One run that goes well."""

    def __init__(self, seed: int, style: str | None = None, ranks: int = 4) -> None:
        self.random = random.Random(seed)
        self.style = style or self.random.choice(STYLES)
        self.ranks = ranks
        self.step = 0
        self.seconds = 8 * 3600.0

    def lines(self) -> Iterator[str]:
        """Lines without end; one may hold carriage returns, never a line feed."""
        next_eval, next_save = 200, 450
        while True:
            self.step += 1
            self.seconds += self.random.uniform(0.4, 0.6)
            yield from self._step()
            if self.step >= next_eval:
                next_eval += self.random.randint(150, 500)
                yield from self._evaluation()
            if self.step >= next_save:
                next_save += self.random.randint(300, 900)
                yield f"{self._time()} saving checkpoint step_{self.step}.pt"
                yield f"{self._time()} saved checkpoint step_{self.step}.pt in {self.random.uniform(2, 30):.1f}s"
            if self.random.random() < 0.006:
                yield from self._warning()

    def _time(self) -> str:
        seconds = int(self.seconds) % 86400
        return f"2025-05-06 {seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"

    def _loss(self) -> float:
        return (2.2 + 6 * math.exp(-self.step / 20000)) * (1 + self.random.gauss(0, 0.012))

    def _step(self) -> Iterator[str]:
        step, loss, norm, rate = self.step, self._loss(), self.random.uniform(0.25, 0.9), 3e-4 * min(1, self.step / 500)
        epoch, inner, when = step // EPOCH, step % EPOCH, self._time()
        if self.style == "plain":
            yield f"step {step:7d} | loss {loss:.6f} | lr {rate:.6e} | grad_norm {norm:.5f} | {self.random.uniform(310, 330):.2f} ms/step | tok/s {self.random.randrange(98000, 102000)} | nan 0"
        elif self.style == "ranks":
            for rank in self.random.sample(range(self.ranks), self.ranks):
                yield f"[rank{rank}]: {when} INFO train: step={step} loss={loss:.4f} lr={rate:.3e} gnorm={norm:.6f} ms={self.random.uniform(300, 500):.3f} data_errors=0"
        elif self.style == "megatron":
            yield f" [{when}] iteration {step:8d}/  500000 | consumed samples: {step * 256:12d} | elapsed time per iteration (ms): {self.random.uniform(1080, 1160):.1f} | throughput per GPU (TFLOP/s/GPU): {self.random.uniform(171, 182):.1f} | learning rate: {rate:.6E} | global batch size:   256 | lm loss: {loss:.6E} | loss scale: 1.0 | grad norm: {norm:.3f} | number of skipped iterations:   0 | number of nan iterations:   0 |"
        elif self.style == "deepspeed":
            yield f"[{when},118] [INFO] [logging.py:96:log_dist] [Rank 0] step={step}, skipped={step // 9000}, lr=[{rate:.6g}], mom=[(0.9, 0.95)]"
            yield f"Epoch: {epoch}, Step: {step}, Rank: 0, loss = {loss:.6f}"
        elif self.style == "hf":
            yield str(
                {
                    "loss": round(loss, 4),
                    "grad_norm": norm,
                    "learning_rate": rate * self.random.random(),
                    "epoch": round(step / EPOCH, 2),
                }
            )
            yield "\r".join(_bar(inner + more, EPOCH, "Train", f"loss={loss:.3f}") for more in range(3))
        elif self.style == "titan":
            yield f"[rank0]:[titan] {when},201 - root - INFO - step: {step:2d}  loss: {loss:7.4f}  grad_norm: {norm:7.4f}  memory: 47.81GiB(60.44%)  tps: {self.random.randrange(5000, 6000):,}  tflops: {self.random.uniform(320, 345):.2f}  mfu: {self.random.uniform(33, 36):.2f}%"
        elif self.style == "lightning":
            extra = f"v_num=3, train_loss={loss:.3f}, error_rate={min(0.99, loss / 12):.3f}"
            yield "\r".join(_bar(inner + more, EPOCH, f"Epoch {epoch}", extra) for more in range(3))
        elif self.style == "fairseq":
            yield f"{when} | INFO | train_inner | epoch {epoch + 1:03d}:  {inner:5d} / {EPOCH} loss={loss:.3f}, nll_loss={loss * 0.8:.3f}, ppl={2**loss:.2f}, wps={self.random.uniform(48000, 52000):.1f}, ups=2.39, wpb={self.random.uniform(20000, 21000):.1f}, bsz={self.random.uniform(700, 800):.1f}, num_updates={step}, lr={rate:.6g}, gnorm={norm:.3f}, clip=0, oom=0, loss_scale=128, gb_free=9.2, wall={step}"
        elif self.style == "mmengine":
            yield f"05/06 {when[11:]} - mmengine - INFO - Epoch(train)  [{epoch + 1}][{inner:5d}/{EPOCH}]  lr: {rate:.4e}  eta: 1 day, 3:12:12  time: {self.random.uniform(0.4, 0.6):.4f}  data_time: {self.random.uniform(0.004, 0.02):.4f}  memory: 21433  grad_norm: {norm * 40:.4f}  loss: {loss:.4f}"
        else:
            row = {
                "ts": when,
                "rank": self.random.randrange(self.ranks),
                "step": step,
                "loss": round(loss, 4),
                "errors": 0,
                "oom": False,
                "exception": None,
                "timeout": 1800,
            }
            yield json.dumps(row)

    def _evaluation(self) -> Iterator[str]:
        loss = self._loss()
        if self.style in {"hf", "lightning"}:
            yield "\r".join(_bar(done, 48, "Validation", "nan_batches=0") for done in range(0, 49, 6))
            yield str(
                {
                    "eval_loss": round(loss, 4),
                    "eval_error_rate": round(loss / 12, 4),
                    "eval_runtime": 31.2,
                    "eval_num_failed": 0,
                }
            )
            return
        for done in range(10, 90, 10):
            yield f"eval [{done}/80] loss {loss:.4f}"
        yield f"eval done: loss {loss:.4f} ppl {math.exp(loss):.2f} error_rate {loss / 12:.4f} invalid_samples 0"

    def _warning(self) -> Iterator[str]:
        rank = self.random.randrange(self.ranks)
        numbers = {
            "a": self.random.randrange(10000),
            "b": self.random.randrange(4100, 99999),
            "c": self.random.randrange(10, 60),
        }
        yield from self.random.choice(WARNINGS).format(d=rank, e=(rank + 1) % self.ranks, **numbers).split("\n")


def _bar(done: int, total: int, label: str, extra: str) -> str:
    full = "█" * (10 * done // total)
    return f"{label}: {100 * done // total:3d}%|{full:10}| {done}/{total} [{done // 120:02d}:{done // 2 % 60:02d}<41:07,  2.01it/s, {extra}]"


def healthy(count: int, seed: int, style: str | None = None) -> list[str]:
    """That many healthy lines."""
    source = Run(seed, style).lines()
    return [next(source) for _ in range(count)]


def bury(log: bytes, count: int, seed: int) -> bytes:
    """An incident behind healthy output, and before a little more of it, as when other ranks have yet to notice."""
    chance = random.Random(f"{seed}:{len(log)}")
    lines = healthy(count, chance.randrange(1 << 30))
    place = count - chance.choice((0, 0, 0, 2))
    before, after = "\n".join(lines[:place]).encode(), "\n".join(lines[place:]).encode()
    return before + b"\n" + log.rstrip(b"\n") + b"\n" + after + (b"\n" if after else b"")
