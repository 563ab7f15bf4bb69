"""Takes nine tenths of what a card has free, in steps, writes patterns and reads them back; one line of JSON tells how it went.

Runs in the job's interpreter (Python 3.8 and later) with one card visible.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from typing import Any

STEPS = 10
SHARE = 0.9
PATTERNS = (0x5555555555555555, -0x5555555555555556)  # every bit once 0 and once 1


def main() -> dict[str, Any]:
    """Allocate, write, verify, free."""
    begin = time.time()
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError as error:
        return {"missing": str(error)}
    if not torch.cuda.is_available():
        return {"failed": "torch.cuda.is_available() is False in this interpreter"}
    free, total = torch.cuda.mem_get_info()
    count = int(free * SHARE) // STEPS // 8
    blocks: list[Any] = []
    try:
        for _ in range(STEPS):
            blocks.append(torch.empty(count, dtype=torch.int64, device="cuda"))  # noqa: PERF401 - those before a failure count
    except RuntimeError as error:
        done = sum(block.numel() * 8 for block in blocks)
        return {"failed": str(error).splitlines()[0], "bytes": done, "free": free, "total": total}
    wrong = 0
    for pattern in PATTERNS:
        for number, block in enumerate(blocks):
            block.fill_(pattern ^ number)  # another word in each block: two that share memory are noticed
        torch.cuda.synchronize()
        for number, block in enumerate(blocks):
            expected = pattern ^ number
            wrong += int(block.min().item() != expected or block.max().item() != expected)
    return {
        "bytes": count * 8 * STEPS,
        "free": free,
        "total": total,
        "wrong_blocks": wrong,
        "seconds": round(time.time() - begin, 1),
    }


if __name__ == "__main__":
    try:
        answer = main()
    except Exception as error:  # noqa: BLE001 - whatever the card did is the answer
        answer = {"failed": (str(error) or type(error).__name__).splitlines()[0]}
    sys.stdout.write(json.dumps(answer) + "\n")
