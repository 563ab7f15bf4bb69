"""One of two ranks that meet and add one number: ``meet.py BACKEND SECONDS``, with RANK and MASTER_* as torchrun sets them.

Runs in the job's interpreter (Python 3.8 and later), with the environment of the shell, so that its interface variables count.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
from datetime import timedelta
from typing import Any


def main(backend: str, seconds: float) -> dict[str, Any]:
    """Start the group, reduce, end it."""
    try:
        torch: Any = importlib.import_module("torch")
        distributed: Any = importlib.import_module("torch.distributed")
    except ImportError as error:
        return {"missing": str(error)}
    if not distributed.is_available() or (backend == "nccl" and not distributed.is_nccl_available()):
        return {"missing": f"this torch has no {backend}"}
    device = "cpu"
    if backend == "nccl":
        torch.cuda.set_device(int(os.environ["RANK"]))
        device = "cuda"
    distributed.init_process_group(backend, timeout=timedelta(seconds=seconds))
    number = torch.ones(1, device=device)
    distributed.all_reduce(number)
    total = number.item()
    distributed.destroy_process_group()
    return {"sum": total} if total == float(os.environ["WORLD_SIZE"]) else {"failed": f"1 + 1 gave {total}"}


if __name__ == "__main__":
    try:
        answer = main(sys.argv[1], float(sys.argv[2]))
    except Exception as error:  # noqa: BLE001 - whatever kept them from meeting is the answer
        words = re.sub(r"^\[enforce fail at [^]]*\]\s*", "", str(error).strip()) or type(error).__name__
        answer = {"failed": words.splitlines()[0]}
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
    os._exit(0 if "sum" in answer else 1)  # a transport that is stuck must not hold the exit
