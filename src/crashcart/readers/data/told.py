"""What was seen in data files, as facts: each with the file to look at again."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from crashcart.model import Evidence, Fact, NotLooked
from crashcart.numbers import to_count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.readers.data.looking import Found

__all__ = ["facts_of", "gaps_of"]

ACTIONS = re.compile(r"(?:^|/)(?:actions?|act)$")
_MOST = 20


def facts_of(found: Found, named: Fact) -> Iterator[Fact]:
    """``data.*``: what there is, and what is wrong with it."""
    seen = Evidence("data", _counted(found), found.path)
    direct = found.files == 1 and not found.folders and not found.others
    base = {"path": found.path, "named": named.evidence, "direct": direct}
    told = named.value if isinstance(named.value, dict) else {}
    kinds = found.kinds
    yield Fact("data.held", {**base, "files": found.files, "looked": found.looked, "kinds": kinds, "bytes": found.bytes,
                             "folders": found.folders, "others": found.others, "complete": found.complete,
                             "promised": told.get("count"), "promised_place": told.get("count_place"),
                             "in_a_row": _in_a_row(found)}, seen, "data")  # fmt: skip
    for path, kind in found.stand_ins[:_MOST]:
        value = {
            **base,
            "file": path,
            "kind": kind,
            "count": sum(one == kind for _, one in found.stand_ins),
            "of": found.files,
        }
        yield Fact("data.stand_in", value, Evidence("data", _WORDS[kind], path), "data")
    bad = [answer for answer in found.answers if "problem" in answer]
    for one in bad[:_MOST]:
        value = {**base, "file": one["path"], "why": one["problem"], "count": len(bad), "of": found.looked}
        yield Fact("data.unreadable", value, Evidence("data", one["problem"], one["path"]), "data")
    yield from _tables(found, base)


_WORDS = {"empty": "0 bytes", "pointer": "version https://git-lfs.github.com/spec/v1", "page": "<html ..."}


def _counted(found: Found) -> str:
    every = f"all {found.files:,} files" if found.looked >= found.files else f"{found.looked:,} of {found.files:,} files"
    return f"looked at {every}" if found.files != 1 else "looked at this file"


def _in_a_row(found: Found) -> bool:
    """Whether the files are numbered from 0 without a gap: ``episode_0.hdf5``, ``episode_1.hdf5``."""
    names = [re.fullmatch(r".*\D(\d+)\.\w+", str(answer["path"])) for answer in found.answers]
    return found.looked == found.files and sorted(to_count(name[1], -1) for name in names if name) == list(range(len(names)))


class _Gathered:
    """The tables of all files side by side: one name, several shapes, lengths, ranges of labels."""

    def __init__(self) -> None:
        self.shapes: dict[tuple[str, str], dict[tuple[int, ...], str]] = {}
        self.episodes: list[tuple[str, int]] = []
        self.sizes: dict[str, dict[str, Any]] = {}
        self.labels: dict[str, list[tuple[int, int, str]]] = {}

    def take(self, file: dict[str, Any], name: str, table: dict[str, Any], where: str) -> None:
        if "low" in table:
            self.labels.setdefault(name.rsplit("/", 1)[-1], []).append((table["low"], table["high"], where))
        if ACTIONS.search(name) and table["shape"]:
            self.episodes.append((file["path"], table["shape"][0]))
        generic = re.sub(r"\d+", "#", name)
        alone = file["kind"] in {"image", "array"} and not name
        kept = tuple(table["shape"]) if alone else tuple(table["shape"][1:])
        self.shapes.setdefault((file["kind"], generic), {}).setdefault(kept, where)
        known = self.sizes.setdefault(generic, {"kind": file["kind"], "tables": []})
        known["tables"].append((table["shape"], table["bytes"]))

    def facts(self, base: dict[str, Any], found: Found) -> Iterator[Fact]:
        for (kind, name), known in self.shapes.items():
            if len(known) > 1:
                value = {**base, "kind": kind, "name": name, "shapes": [list(shape) for shape in known][:6]}
                (one, _), (other, where) = list(known.items())[:2]
                yield Fact("data.shapes", value, Evidence("data", f"{list(one)} and {list(other)}", where), "data")
        for name, spans in self.labels.items():
            low, (_, high, where) = min(spans)[0], max(spans, key=lambda span: span[1])
            called = name or found.path
            value = {**base, "name": called, "low": low, "high": high}
            yield Fact("data.labels", value, Evidence("data", f"{called} from {low} to {high}", where), "data")
        if self.episodes:
            path, least = min(self.episodes, key=lambda one: one[1])
            lengths = sorted(length for _, length in self.episodes)
            order = [length for _, length in sorted(self.episodes, key=lambda one: one[0])]
            value = {
                **base,
                "lengths": lengths,
                "in_order": order,
                "files": found.files,
                "whole": found.looked >= found.kinds.get("hdf5", 0),
            }
            yield Fact("data.episodes", value, Evidence("data", f"{least} steps", path), "data")
        if self.sizes:
            yield Fact("data.tables", {**base, "tables": self.sizes}, Evidence("data", _counted(found), found.path), "data")


def _tables(found: Found, base: dict[str, Any]) -> Iterator[Fact]:
    gathered, rows = _Gathered(), 0
    for answer in found.answers:
        rows += answer.get("rows") or 0
        lengths = {table["shape"][0] if table.get("shape") else 0 for table in (answer.get("tables") or {}).values()}
        if answer["kind"] == "arrays" and len(lengths) == 1 and 0 not in lengths:
            count = lengths.pop()
            yield Fact(
                "data.file_rows",
                {**base, "file": answer["path"], "rows": count},
                Evidence("data", f"{count} rows", answer["path"]),
                "data",
            )
        if answer.get("rows") == 0:
            yield Fact("data.no_rows", {**base, "file": answer["path"]}, Evidence("data", "no rows", answer["path"]), "data")
        for name, table in (answer.get("tables") or {}).items():
            where = f"{answer['path']}:{name}" if name else answer["path"]
            gathered.take(answer, name, table, where)
            if table.get("nonfinite"):
                at = ", ".join(str(row) for row in table["nonfinite"])
                value = {**base, "file": answer["path"], "name": name, "kind": answer["kind"]}
                yield Fact("data.nonfinite", value, Evidence("data", f"not finite at row {at}", where), "data")
    yield from gathered.facts(base, found)
    if rows and found.looked >= found.files:
        yield Fact("data.rows", {**base, "rows": rows}, Evidence("data", f"{rows} rows", found.path), "data")


def gaps_of(found: Found) -> Iterator[NotLooked]:
    """What could not be looked at, and why."""
    lacking: dict[str, int] = {}
    for answer in found.answers:
        if "lacks" in answer:
            lacking[answer["lacks"]] = lacking.get(answer["lacks"], 0) + 1
        elif "not_looked" in answer:
            yield NotLooked(answer["path"], answer["not_looked"])
    for library, count in lacking.items():
        name = {"PIL": "pillow"}.get(library.split(".")[0], library.split(".")[0])
        yield NotLooked(
            f"{count} files below {found.path}", f"{library} is not installed beside crashcart", f"pip install {name}"
        )
