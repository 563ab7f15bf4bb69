"""The files that tell a launcher how many processes to start: accelerate's config, DeepSpeed's hostfile.

accelerate takes a flag before ``--config_file`` before ``default_config.yaml`` in the cache folder of Hugging Face before its
own defaults. ``num_processes`` counts all machines. A hostfile says ``node1 slots=8``; ``--include node1:0,2`` picks from it.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from crashcart.errors import CommandError
from crashcart.model import Evidence, Fact
from crashcart.numbers import to_count
from crashcart.readers.job.config import read_config
from crashcart.readers.job.shell import text_of
from crashcart.readers.project import found_in
from crashcart.record import replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["launch_facts"]

KINDS = {
    "multi_gpu": "ddp", "multi_cpu": "ddp", "deepspeed": "deepspeed", "fsdp": "fsdp", "megatron_lm": "megatron", "no": "none",
}  # fmt: skip
KEPT = ("launch.", "distributed.", "train.precision", "train.accumulation", "train.clip", "config.fsdp", "config.deepspeed")
SLOTS = re.compile(r"^(?P<host>[\w.-]+)[ \t]+slots=(?P<slots>\d+)", re.MULTILINE)


def launch_facts(facts: Sequence[Fact], places: Sequence[str]) -> list[Fact]:
    """What the launcher's own files add to the command; the command's own words come later and count."""
    last = {fact.name: fact for fact in facts}
    kind = str(last["launch.kind"].value) if "launch.kind" in last else ""
    if kind == "accelerate":
        return list(_accelerate(last, places))
    return list(_deepspeed(last, places)) if kind == "deepspeed" and "launch.processes" not in last else []


def _accelerate(last: dict[str, Fact], places: Sequence[str]) -> Iterator[Fact]:
    given = last.get("launch.config_path")
    path = found_in(places, str(given.value)) if given is not None else _default_config()
    try:
        found = read_config(path) if path else []
    except CommandError:
        return
    for fact in found:
        if fact.name == "distributed.kind" or fact.spelling == "distributed_type":
            kind = KINDS.get("no" if fact.value is False else str(fact.value).lower())
            yield replace(fact, name="distributed.kind", value=kind or str(fact.value).lower())
        elif fact.name == "train.precision" and fact.value is False:
            yield replace(fact, value="no")
        elif fact.name.startswith(KEPT):
            yield fact


def _default_config() -> str | None:
    home = os.environ.get("HF_HOME") or os.path.join(os.path.expanduser("~"), ".cache", "huggingface")
    path = os.path.join(home, "accelerate", "default_config.yaml")
    return path if os.path.isfile(path) else None


def _deepspeed(last: dict[str, Fact], places: Sequence[str]) -> Iterator[Fact]:
    include = next((last[name] for name in ("flag.include", "flag.i") if name in last), None)
    if include is not None:
        total = sum(len(part.split(":")[1].split(",")) for part in str(include.value).split("@") if ":" in part)
        if total:
            yield replace(include, name="launch.processes", value=total, span=None)
            return
    hostfile = next((last[name] for name in ("flag.hostfile", "flag.H") if name in last), None)
    path = found_in(places, str(hostfile.value)) if hostfile is not None else None
    if path is None:
        return
    try:
        hosts = list(SLOTS.finditer(text_of(path)))
    except CommandError:
        return
    if hosts and "launch.processes_per_node" not in last:
        evidence = Evidence("config", hosts[0].group(), path)
        yield Fact("launch.nodes", len(hosts), evidence, "file", "hostfile")
        yield Fact("launch.processes", sum(to_count(host["slots"], 0) for host in hosts), evidence, "file", "hostfile")
