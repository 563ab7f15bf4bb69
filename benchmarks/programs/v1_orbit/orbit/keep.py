"""Checkpoints on the observatory's network store, without the training waiting for it."""
import glob
import io
import logging
import os
import threading
import time

import torch

log = logging.getLogger("keep")


class Keeper:
    """Writes in the background, 256 KiB at a time: the store throttles whoever is faster than about 3 MiB a second."""

    def __init__(self, folder, block=1 << 18, pause=0.08):
        self.folder, self.block, self.pause = folder, block, pause
        self.writing = None
        os.makedirs(folder, exist_ok=True)

    def save(self, step, **what):
        if self.writing is not None:
            self.writing.join()
        buffer = io.BytesIO()
        torch.save({"step": step, **what}, buffer)
        path = os.path.join(self.folder, f"step{step:06d}.pt")
        self.writing = threading.Thread(target=self._write, args=(path, buffer.getbuffer()), daemon=True)
        self.writing.start()
        log.info("keeping %s, %.1f MiB", path, buffer.getbuffer().nbytes / 2**20)

    def _write(self, path, content):
        with open(path, "wb") as f:
            for start in range(0, len(content), self.block):
                f.write(content[start : start + self.block])
                f.flush()
                time.sleep(self.pause)


def newest(folder):
    paths = sorted(glob.glob(os.path.join(folder, "step*.pt")))
    if not paths:
        raise FileNotFoundError(f"no checkpoint in {folder}")
    return paths[-1]
