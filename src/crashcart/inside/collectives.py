"""Waits for other ranks that can be seen without touching what torch.compile knows by identity: barriers, objects, the start."""

from __future__ import annotations

from typing import Any

from . import page, patching, phases, settings

_NAMES = (
    "barrier", "monitored_barrier", "all_gather_object", "gather_object", "broadcast_object_list", "scatter_object_list",
    "send_object_list", "recv_object_list", "destroy_process_group",
)  # fmt: skip


def install(module: Any) -> None:
    """Wrap them in the module that defines them, before others take them from there."""
    for name in _NAMES:
        patching.replace(module, name, patching.within(phases.COLLECTIVE))

    def joined(args: Any, kwargs: Any, seconds: float) -> None:  # noqa: ARG001
        page.put("rank", module.get_rank())
        page.put("world_size", module.get_world_size())
        given = dict(zip(("backend", "init_method", "timeout"), args), **kwargs)
        limit = given.get("timeout")
        if type(limit).__name__ == "timedelta":
            given["timeout_seconds"] = limit.total_seconds()  # type: ignore[union-attr]
        values = settings.plain({name: value for name, value in given.items() if name != "init_method"})
        settings.tell("process group", dict(values, world_size=module.get_world_size()))

    patching.replace(module, "init_process_group", patching.within(phases.COLLECTIVE, joined))

    def grouped(args: Any, kwargs: Any, seconds: float) -> None:  # noqa: ARG001
        ranks = kwargs.get("ranks", args[0] if args else None)
        if ranks is not None and len(ranks) < module.get_world_size():
            page.add("subgroups")

    patching.replace(module, "new_group", patching.within(phases.COLLECTIVE, grouped))
