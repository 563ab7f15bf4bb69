"""Names of interfaces and ports that a job is told to use, against those that this machine has.

NCCL_SOCKET_IFNAME holds beginnings of names (``eth``), names (``=eth0``) or what is not to be used (``^docker0``);
GLOO_SOCKET_IFNAME names. NCCL_IB_HCA names devices of /sys/class/infiniband in the same way as the first, with ports (``mlx5_0:1``).
"""

from __future__ import annotations

import os
import platform
from typing import TYPE_CHECKING, Any

from crashcart.model import Evidence, Fact
from crashcart.numbers import to_count, to_int
from crashcart.readers.machine.reading import Reading, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["listening", "look"]

GROUP = "network"
VARIABLES = {"NCCL_SOCKET_IFNAME": "net", "GLOO_SOCKET_IFNAME": "net", "NCCL_IB_HCA": "infiniband"}
LISTENS = "0A"
_HERE = ("", "localhost", "127.0.0.1", "::1", "0.0.0.0")  # noqa: S104 - compared, not bound


def look(facts: Mapping[str, Fact], environment: Mapping[str, str], root: str = "") -> Iterator[Reading]:
    """The interfaces, the variables that name them, and the port where ranks meet."""
    there = {kind: _names(f"{root}/sys/class/{kind}") for kind in ("net", "infiniband")}
    says = ", ".join(there["net"] or ["none"]) + f"; InfiniBand: {', '.join(there['infiniband'] or ['none'])}"
    yield Reading(GROUP, "interfaces", "interfaces", says, f"{root}/sys/class/net", dict(there))
    for name, kind in VARIABLES.items():
        told = _told(name, facts, environment)
        if told is not None:
            yield _variable(name, told, there[kind], f"{root}/sys/class/{kind}")
    yield from _port(facts, environment, root)


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _told(name: str, facts: Mapping[str, Fact], environment: Mapping[str, str]) -> Fact | None:
    """A variable as the job will have it: its own launch before the shell that we stand in."""
    fact = facts.get(f"environment.{name}")
    if fact is not None:
        return fact if isinstance(fact.value, str) and "$" not in fact.value else None
    value = environment.get(name)
    return (
        Fact(name, value, Evidence("environment", f"{name}={value}", "environment"), "environment", name) if value else None
    )


def _variable(name: str, told: Fact, there: list[str], folder: str) -> Reading:
    text = str(told.value).strip()
    exact, without = text.startswith(("=", "^=")) or name.startswith("GLOO"), text.startswith("^")
    wanted = [part.strip().split(":")[0] for part in text.lstrip("^=").split(",") if part.strip()]
    hits = [one for one in there if any(one == part if exact else one.startswith(part) for part in wanted)]
    chosen = [one for one in there if one not in hits] if without else hits
    lost = [part for part in wanted if not any(one == part if exact else one.startswith(part) for one in there)]
    value: dict[str, Any] = {
        "variable": name,
        "text": text,
        "chosen": chosen,
        "lost": [] if without else lost,
        "there": there,
        "told": told.evidence,
        "shell": told.evidence.where == "environment",
        "span": told.span,
    }
    says = f"{text} selects {', '.join(chosen) if chosen else 'no interface of this machine'}"
    return Reading(GROUP, "interface", name, says, folder, value)


def _port(facts: Mapping[str, Fact], environment: Mapping[str, str], root: str) -> Iterator[Reading]:
    told = facts.get("launch.port") or _told("MASTER_PORT", facts, environment)
    where = _told("MASTER_ADDR", facts, environment)
    address = str(where.value) if where is not None else ""
    port = to_count(told.value) if told is not None else None
    if told is None or port is None or address not in (*_HERE, platform.node()):
        return
    taken = listening(root)
    free = next((one for one in range(port + 1, port + 200) if one not in taken), None)
    says = f"{port} is {'in use on this machine' if port in taken else 'free here'}"
    value = {"port": port, "taken": port in taken, "free": free, "told": told.evidence, "span": told.span}
    yield Reading(GROUP, "port", told.spelling or "MASTER_PORT", says, f"{root}/proc/net/tcp", value)


def listening(root: str = "") -> set[int]:
    """The ports that somebody listens on: ``0: 0100007F:733B 00000000:0000 0A ...``, numbers in hexadecimal."""
    ports: set[int] = set()
    for name in ("tcp", "tcp6"):
        for line in (text_of(f"{root}/proc/net/{name}") or "").splitlines()[1:]:
            words = line.split()
            if len(words) > 3 and words[3] == LISTENS:  # noqa: PLR2004 - the state is the fourth word
                ports.add(to_int(words[1].rpartition(":")[2], -1, base=16))
    return ports
