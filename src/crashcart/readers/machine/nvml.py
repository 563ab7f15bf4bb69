"""NVIDIA's cards as NVML tells them: every question by itself, and what a card or driver does not know is None.

NVML needs neither root nor a CUDA context. A container sees the cards that it was given, and process ids of its own only.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any

from crashcart.readers.machine.reading import within

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Cards", "cards"]

_PATIENCE = 20.0  # without persistence mode the driver wakes each card first
_TRACES = ("/dev/nvidiactl", "/proc/driver/nvidia", "/dev/dxg")  # the last is Windows' own Linux
Ask = Any


class Cards:
    """What all cards say; ``why`` is a sentence where none could be asked, ``broken`` says that a driver is there and fails."""

    def __init__(self, why: str = "", *, broken: bool = False) -> None:
        self.why = why
        self.broken = broken
        self.driver = ""
        self.cuda: tuple[int, int] | None = None  # the newest CUDA that the driver can
        self.each: list[dict[str, Any]] = []


def cards() -> Cards:
    """Ask NVML, with patience for a driver that does not answer."""
    if not any(map(os.path.exists, _TRACES)):
        return Cards("no NVIDIA driver found: there is no /dev/nvidiactl and no /proc/driver/nvidia")
    return within(_PATIENCE, _asked, Cards(f"the driver did not respond within {_PATIENCE:.0f} s", broken=True))


def _asked() -> Cards:
    try:
        import pynvml
    except ImportError:
        return Cards("nvidia-ml-py is not installed")
    try:
        pynvml.nvmlInit()
    except Exception as error:  # noqa: BLE001 - no library, no driver, no permission: NVML says which
        return _without(error)
    found = Cards()
    try:
        found.driver = _text(_try(pynvml.nvmlSystemGetDriverVersion) or "")
        newest = _try(pynvml.nvmlSystemGetCudaDriverVersion_v2)
        found.cuda = (newest // 1000, newest % 1000 // 10) if newest else None
        for index in range(_try(pynvml.nvmlDeviceGetCount) or 0):
            found.each.append(_card(pynvml, index))
    finally:
        with contextlib.suppress(Exception):
            pynvml.nvmlShutdown()
    return found


def _without(error: Exception) -> Cards:
    kind = type(error).__name__
    if "LibraryNotFound" in kind:
        return Cards("no NVIDIA driver found: its library libnvidia-ml is missing")
    if "DriverNotLoaded" in kind:
        return Cards("the NVIDIA driver is not loaded")
    return Cards(str(error) or kind, broken=True)


def _card(n: Any, index: int) -> dict[str, Any]:  # noqa: ANN401 - a library without types
    """One card; ``lost`` says why its handle could not be had, which is what a card off the bus looks like."""
    try:
        handle = n.nvmlDeviceGetHandleByIndex(index)
    except Exception as error:  # noqa: BLE001 - any failure of the driver
        return {"index": index, "lost": str(error) or type(error).__name__}

    def ask(name: str, *arguments: Any) -> Any:  # noqa: ANN401 - whatever NVML answers
        return _try(lambda: getattr(n, name)(handle, *arguments))

    memory = ask("nvmlDeviceGetMemoryInfo")
    rates = ask("nvmlDeviceGetUtilizationRates")
    rows = ask("nvmlDeviceGetRemappedRows")
    mig = ask("nvmlDeviceGetMigMode")
    volatile, lifetime = n.NVML_VOLATILE_ECC, n.NVML_AGGREGATE_ECC
    corrected, uncorrected = n.NVML_MEMORY_ERROR_TYPE_CORRECTED, n.NVML_MEMORY_ERROR_TYPE_UNCORRECTED
    return {
        "index": index,
        "name": _text(ask("nvmlDeviceGetName") or "unnamed"),
        "uuid": _text(ask("nvmlDeviceGetUUID") or ""),
        "bus": _text(getattr(ask("nvmlDeviceGetPciInfo"), "busId", "")),
        "capability": ask("nvmlDeviceGetCudaComputeCapability"),
        "total": getattr(memory, "total", None),
        "used": getattr(memory, "used", None),
        "free": getattr(memory, "free", None),
        "busy": getattr(rates, "gpu", None),
        "processes": _processes(ask),
        "temperature": ask("nvmlDeviceGetTemperature", n.NVML_TEMPERATURE_GPU),
        "slowdown_at": ask("nvmlDeviceGetTemperatureThreshold", n.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN),
        "power": _scaled(ask("nvmlDeviceGetPowerUsage")),
        "power_limit": _scaled(ask("nvmlDeviceGetEnforcedPowerLimit")),
        "power_usual": _scaled(ask("nvmlDeviceGetPowerManagementDefaultLimit")),
        "clock": ask("nvmlDeviceGetClockInfo", n.NVML_CLOCK_SM),
        "clock_limit": ask("nvmlDeviceGetMaxClockInfo", n.NVML_CLOCK_SM),
        "throttle": ask("nvmlDeviceGetCurrentClocksThrottleReasons"),
        "ecc_mode": (ask("nvmlDeviceGetEccMode") or [None])[0],
        "ecc_corrected": ask("nvmlDeviceGetTotalEccErrors", corrected, volatile),
        "ecc_uncorrected": ask("nvmlDeviceGetTotalEccErrors", uncorrected, volatile),
        "ecc_corrected_ever": ask("nvmlDeviceGetTotalEccErrors", corrected, lifetime),
        "ecc_uncorrected_ever": ask("nvmlDeviceGetTotalEccErrors", uncorrected, lifetime),
        "retired": _retired(n, ask),
        "retired_pending": ask("nvmlDeviceGetRetiredPagesPendingStatus"),
        "rows": None if rows is None else dict(zip(("corrected", "uncorrected", "pending", "failed"), rows, strict=False)),
        "pcie": tuple(
            ask(f"nvmlDeviceGet{which}PcieLink{what}") for which in ("Curr", "Max") for what in ("Generation", "Width")
        ),
        "persistence": ask("nvmlDeviceGetPersistenceMode"),
        "mig": None if mig is None else mig[0],
        "mode": ask("nvmlDeviceGetComputeMode"),
        "links": _links(n, ask),
        "recovery": _recovery(n, ask),
        "fabric": _fabric(n, handle),
    }


def _try(question: Callable[[], Any]) -> Any:  # noqa: ANN401 - whatever NVML answers
    try:
        return question()
    except Exception:  # noqa: BLE001 - a card that cannot, a driver too old: the answer is unknown
        return None


def _processes(ask: Ask) -> list[dict[str, Any]] | None:
    """Who is on the card: pid, memory, name and owner; the last two are None for a process of another namespace."""
    found: dict[int, dict[str, Any]] = {}
    known = False
    for kind in ("Compute", "Graphics"):
        listed = ask(f"nvmlDeviceGet{kind}RunningProcesses")
        known = known or listed is not None
        for one in listed or ():
            found[one.pid] = {"pid": one.pid, "memory": one.usedGpuMemory, **_who(one.pid)}
    return list(found.values()) if known else None


def _who(pid: int) -> dict[str, str | None]:
    try:
        owner = os.stat(f"/proc/{pid}").st_uid
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            name = file.read().strip()
    except OSError:
        return {"name": None, "owner": None}
    import pwd

    with contextlib.suppress(KeyError):
        return {"name": name, "owner": pwd.getpwuid(owner).pw_name}
    return {"name": name, "owner": str(owner)}


def _retired(n: Any, ask: Ask) -> int | None:  # noqa: ANN401 - a library without types
    """Pages taken out of use for both reasons, on cards before Ampere."""
    causes = ("MULTIPLE_SINGLE_BIT_ECC_ERRORS", "DOUBLE_BIT_ECC_ERROR")
    found = [ask("nvmlDeviceGetRetiredPages", getattr(n, f"NVML_PAGE_RETIREMENT_CAUSE_{cause}", 0)) for cause in causes]
    return None if all(pages is None for pages in found) else sum(len(pages or ()) for pages in found)


def _links(n: Any, ask: Ask) -> tuple[int, int] | None:  # noqa: ANN401 - a library without types
    """How many NVLinks are up, of how many."""
    states = [ask("nvmlDeviceGetNvLinkState", link) for link in range(getattr(n, "NVML_NVLINK_MAX_LINKS", 0))]
    known = [state for state in states if state is not None]
    return (sum(1 for state in known if state), len(known)) if known else None


def _recovery(n: Any, ask: Ask) -> int | None:  # noqa: ANN401 - a library without types
    field = getattr(n, "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION", None)
    values = ask("nvmlDeviceGetFieldValues", [field]) if field is not None else None
    if not values or values[0].nvmlReturn != 0:
        return None
    value: int = values[0].value.uiVal
    return value


def _fabric(n: Any, handle: Any) -> tuple[int, int] | None:  # noqa: ANN401 - a library without types
    """State (3 is completed) and status of the fabric that NVSwitch machines need; None where there is none."""

    def ask() -> tuple[int, int]:
        info = n.c_nvmlGpuFabricInfoV_t()
        n.nvmlDeviceGetGpuFabricInfoV(handle, n.byref(info))
        return info.state, info.status

    found: tuple[int, int] | None = _try(ask)
    return found if found is not None and found[0] else None


def _scaled(milliwatts: float | None) -> float | None:
    return None if milliwatts is None else milliwatts / 1000


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
