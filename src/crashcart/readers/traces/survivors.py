"""Where a run left traces when its log is lost: trackers, schedulers, launchers and frameworks keep files of their own.

A training folder mostly looks like one of these, or like all of them::

    wandb/run-20261115_071203-a1b2c3d4/files/{output.log,wandb-summary.json,wandb-metadata.json,config.yaml}
    runs/events.out.tfevents.1794726723.node1.4410.0         mlruns/0/3f2a.../{meta.yaml,metrics/loss}
    slurm-77.out   nohup.out   logs/train.log                elastic/none_x1/attempt_0/3/{stderr.log,error.json}
    lightning_logs/version_0/{metrics.csv,hparams.yaml}      checkpoint-2000/trainer_state.json
    train.sh   configs/base.yaml   dmesg.txt

The walk is bounded in depth and in entries, goes through each folder once however many links lead there, and says what
it could not enter. Nothing is opened here; what stands in the files is read by ``tfevents``, ``tracker`` and ``slurm``.
"""

from __future__ import annotations

import heapq
import os
import re
import time
from collections import deque

from crashcart.model import NotLooked
from crashcart.record import field, record

__all__ = ["Found", "Survivor", "survivors"]

MAX_DEPTH = 8
MAX_ENTRIES = 100_000
MAX_IN_FOLDER = 10_000
MAX_SECONDS = 0.6  # of processor time
MAX_OF_A_KIND = 2000
MAX_CONFIG_BYTES = 1 << 20
MAX_NOT_LOOKED = 20

_SKIPPED = frozenset({"site-packages", "dist-packages", "node_modules", "__pycache__", "conda-meta", "proc", "sys"})
_CHECKPOINT_FOLDER = re.compile(r"^(?:checkpoint|ckpt|global_step|step|epoch|iter)[-_=]?\d+", re.IGNORECASE)
_CHECKPOINT_FILE = re.compile(r"\.(?:ckpt|pt|pth|safetensors|distcp)$|^pytorch_model.*\.bin$")
_NOT_A_CONFIG = re.compile(r"^(?:tokenizer|special_tokens_map|vocab|added_tokens|package).*\.json$|\.index\.json$")
_TRACKER = re.compile(r"/(?:wandb|mlruns)/")

_KINDS = tuple(
    (kind, re.compile(pattern))
    for kind, pattern in (
        ("wandb-output", r"/wandb/[^/]+/files/output\.log$"),
        ("wandb-summary", r"/wandb/[^/]+/files/wandb-summary\.json$"),
        ("wandb-metadata", r"/wandb/[^/]+/files/wandb-metadata\.json$"),
        ("wandb-config", r"/wandb/[^/]+/files/config\.yaml$"),
        ("wandb-debug", r"/wandb/(?:[^/]+/logs/)?debug[^/]*\.log$"),
        ("tfevents", r"events\.out\.tfevents\.[^/]{1,200}$"),
        ("mlflow-run", r"/mlruns/[^/]+/[^/]+/meta\.yaml$"),
        ("mlflow-metric", r"/mlruns/[^/]+/[^/]+/metrics/"),
        (
            "kernel-log",
            r"/(?:dmesg[^/]*(?:\.txt|\.log)?|kern\.log|syslog|messages|journal[^/]*\.(?:log|txt))(?:\.\d+)?(?:\.gz)?$",
        ),
        ("elastic-log", r"/attempt_\d+/\d+/(?:stdout|stderr)\.log$"),
        ("error-file", r"/attempt_\d+/\d+/error\.json$|/(?:torchelastic_)?error[^/]*\.json$"),
        ("lightning-metrics", r"/version_\d+/metrics\.csv$"),
        ("lightning-hparams", r"/version_\d+/hparams\.yaml$"),
        ("trainer-state", r"/trainer_state\.json$"),
        ("slurm-output", r"/slurm-[^/]*\.(?:out|err)$"),
        ("output", r"/nohup\.out$|\.(?:out|err)$"),
        ("log", r"\.log(?:\.\d+)?$|/logs?/[^/]+\.txt$"),
        ("launch-script", r"\.(?:sh|sbatch|slurm)$"),
        ("config", r"\.(?:yaml|yml|json|toml)$"),
    )
)


@record(frozen=True)
class Survivor:
    """One file, or one folder of checkpoints, with its size and when it was last written."""

    kind: str
    path: str
    size: int
    modified: float


@record(frozen=True)
class Found:
    """What was found, by kind and newest first, and what could not be looked at."""

    by_kind: dict[str, tuple[Survivor, ...]] = field(default_factory=dict)
    not_looked: tuple[NotLooked, ...] = ()

    def of(self, *kinds: str) -> tuple[Survivor, ...]:
        """Everything of these kinds, newest first."""
        listed = [survivor for kind in kinds for survivor in self.by_kind.get(kind, ())]
        return tuple(sorted(listed, key=lambda survivor: -survivor.modified))


def survivors(folder: str | os.PathLike[str]) -> Found:
    """Look through a folder for everything that may tell about a run."""
    walk = _Walk(os.path.abspath(folder))
    walk.go()
    by_kind = {
        kind: tuple(heapq.nlargest(MAX_OF_A_KIND, listed, key=lambda survivor: survivor.modified))
        for kind, listed in walk.all().items()
    }
    return Found(by_kind, tuple(walk.not_looked))


class _Walk:
    def __init__(self, top: str) -> None:
        self.top = top
        self.found: dict[str, list[Survivor]] = {}
        self.not_looked: list[NotLooked] = []
        self._roots: dict[str, Survivor] = {}
        self._seen: set[tuple[int, int]] = set()
        self._entries = 0
        self._refused = 0

    def all(self) -> dict[str, list[Survivor]]:
        roots = {"checkpoints": list(self._roots.values())} if self._roots else {}
        return {**self.found, **roots}

    def go(self) -> None:
        """Breadth first, links last, so that a folder is met under its own name before it is met through a link."""
        folders, links = deque([(self.top, 0)]), deque[tuple[str, int]]()
        until = time.thread_time() + MAX_SECONDS
        while folders or links:
            path, depth = folders.popleft() if folders else links.popleft()
            if self._entries >= MAX_ENTRIES or time.thread_time() > until:
                left = f"{path} and {len(folders) + len(links)} more folders" if folders or links else path
                self._stop(left, f"there is too much below {self.top}: stopped after {self._entries} entries")
                return
            if depth > MAX_DEPTH:
                self._refuse(path, f"deeper than {MAX_DEPTH} folders", "name this folder itself")
                continue
            for entry in self._list(path):
                inner = self._take(entry, path)
                if inner is not None:
                    (links if entry.is_symlink() else folders).append((inner, depth + 1))

    def _list(self, path: str) -> list[os.DirEntry[str]]:
        listed: list[os.DirEntry[str]] = []
        try:
            status = os.stat(path)
            if (status.st_dev, status.st_ino) in self._seen:
                return []
            self._seen.add((status.st_dev, status.st_ino))
            with os.scandir(path) as entries:
                for entry in entries:
                    if len(listed) >= MAX_IN_FOLDER:
                        self._refuse(path, f"has more than {MAX_IN_FOLDER} entries; the rest was skipped")
                        break
                    listed.append(entry)
        except OSError as error:
            self._refuse(path, error.strerror or str(error))
        self._entries += len(listed)
        return listed

    def _take(self, entry: os.DirEntry[str], parent: str) -> str | None:
        """Note a file; give back a folder that should be entered."""
        try:
            if entry.is_dir():
                if _CHECKPOINT_FOLDER.match(entry.name):
                    self._checkpoints(parent, 0, entry.stat().st_mtime)
                return entry.path if self._enters(entry) else None
            if entry.is_file():
                status = entry.stat()
                self._file(entry, parent, status)
        except OSError as error:
            self._refuse(entry.path, error.strerror or str(error))
        return None

    def _enters(self, entry: os.DirEntry[str]) -> bool:
        if entry.name in _SKIPPED or entry.name.startswith("."):
            return False
        return not os.path.exists(os.path.join(entry.path, "pyvenv.cfg"))

    def _file(self, entry: os.DirEntry[str], parent: str, status: os.stat_result) -> None:
        folder = os.path.basename(parent)
        if _CHECKPOINT_FILE.search(entry.name):
            if not _CHECKPOINT_FOLDER.match(folder):
                self._checkpoints(parent, status.st_size, status.st_mtime)
            return
        kind = next((kind for kind, pattern in _KINDS if pattern.search(entry.path)), None)
        if kind == "config" and not self._is_config(entry, status.st_size):
            return
        if kind is not None:
            self.found.setdefault(kind, []).append(Survivor(kind, entry.path, status.st_size, status.st_mtime))

    def _is_config(self, entry: os.DirEntry[str], size: int) -> bool:
        inside = entry.path[len(self.top) :]
        return size <= MAX_CONFIG_BYTES and not _TRACKER.search(inside) and not _NOT_A_CONFIG.search(entry.name)

    def _checkpoints(self, folder: str, size: int, modified: float) -> None:
        before = self._roots.get(folder, Survivor("checkpoints", folder, 0, modified))
        self._roots[folder] = Survivor("checkpoints", folder, size + before.size, max(modified, before.modified))

    def _stop(self, path: str, why: str) -> None:
        """Told before all else, and also where much was refused."""
        self.not_looked.insert(0, NotLooked(path, why, "name a smaller folder"))

    def _refuse(self, path: str, why: str, how: str = "") -> None:
        self._refused += 1
        if self._refused <= MAX_NOT_LOOKED:
            self.not_looked.append(NotLooked(path, why, how))
        elif self._refused == MAX_NOT_LOOKED + 1:
            self.not_looked.append(NotLooked(f"more folders below {self.top}", "for the same reasons"))
