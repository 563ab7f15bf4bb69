"""Eight workers read one HDF5 file: `python hdf5_workers.py FILE usual|ours fork|spawn|forkserver DRIVER` prints wrong samples."""

# ruff: noqa: T201 - the count is the answer
from __future__ import annotations

import sys
import threading
from typing import Any

import h5py
import torch
from torch.utils.data import DataLoader, Dataset

from crashcart.train import per_worker

torch.set_num_threads(1)


class Rows(Dataset[tuple[int, int]]):
    """Row i of the file holds i everywhere; the parent has looked at it, as most do for a length."""

    def __init__(self, path: str, kind: str, driver: str | None) -> None:
        self.path, self.driver = path, driver
        self.file: Any = h5py.File(path, "r", driver=driver) if kind == "usual" else None
        self.files = per_worker(h5py.File)
        self.count = len(self.opened())

    def opened(self) -> Any:
        file = self.file if self.file is not None else self.files(self.path, "r", driver=self.driver)
        return file["rows"]

    def __len__(self) -> int:
        return 8 * self.count

    def __getitem__(self, number: int) -> tuple[int, int]:
        wanted = number * 7 % self.count
        return wanted, int(self.opened()[wanted].max())


def main(path: str, kind: str, start: str, driver: str) -> None:
    rows = Rows(path, kind, None if driver == "default" else driver)
    stop = threading.Event()

    def read_on() -> None:
        while kind == "ours" and not stop.is_set():
            assert int(rows.opened()[5].max()) == 5

    reader = threading.Thread(target=read_on, daemon=True)
    reader.start()
    loader = DataLoader(rows, batch_size=16, num_workers=8, multiprocessing_context=start, timeout=300)
    wrong = sum(int((wanted != found).sum()) for wanted, found in loader)
    stop.set()
    reader.join(20)
    print(wrong, int(rows.opened()[5].max()))


if __name__ == "__main__":
    main(*sys.argv[1:])
