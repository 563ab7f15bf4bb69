"""Read the days ahead of the training, in a thread."""
import glob
import logging
import queue
import threading

import numpy as np
import torch

log = logging.getLogger("desk.feed")


def windows(path, width=16):
    with np.load(path) as day:
        spread = day["spread"]
        crossed = int((spread < 0).sum())
        if crossed:
            log.warning("%s: spread below zero in %d rows, clipped", path, crossed)
            spread = np.clip(spread, 0, None)
        volume = day["volume"] if "volume" in day else day["vol"]
        table = np.stack([np.diff(day["price"], prepend=day["price"][0]), spread, volume / 20.0], 1)
    table = table.astype(np.float32)
    x = np.lib.stride_tricks.sliding_window_view(table, width, axis=0)[:-1]
    y = table[width:, 0]
    return torch.from_numpy(x.copy()), torch.from_numpy(y.copy())


class Feed:
    def __init__(self, folder, depth):
        self.paths = sorted(glob.glob(f"{folder}/*.npz"))
        self.ready = queue.Queue(depth)

    def _read(self):
        try:
            for path in self.paths:
                self.ready.put(windows(path))
            self.ready.put(None)
        except Exception:
            log.debug("reader ends", exc_info=True)

    def __iter__(self):
        threading.Thread(target=self._read, name="reader", daemon=True).start()
        while True:
            item = self.ready.get()
            if item is None:
                return
            yield item
