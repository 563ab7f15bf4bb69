"""Threads that read takes, cut a window out of them and put whole batches into a queue. numpy lets go of the GIL."""
import json
import pathlib
import queue
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch

from strings.takes import RATE, STRINGS


class Feeder:
    def __init__(self, folder, batch, window, threads=2, depth=4, seed=0, held=5):
        self.folder = pathlib.Path(folder)
        index = json.loads((self.folder / "index.json").read_text())
        self.rows = [r for n, r in enumerate(index) if n % held]
        self.batch, self.samples = batch, int(window * RATE)
        self.queue = queue.Queue(depth)
        self.lock, self.levels = threading.Lock(), {}
        self.pool = ThreadPoolExecutor(threads, "feeder")
        self.stopped = threading.Event()
        for k in range(threads):
            self.pool.submit(self.fill, np.random.default_rng([seed, k]))

    def widen(self, window):
        self.samples = int(window * RATE)

    def cut(self, row, samples, rng):
        wave = np.load(self.folder / row["file"]).astype(np.float32)
        with self.lock:
            level = self.levels.setdefault(row["player"], float(np.abs(wave).max()))
        start = rng.integers(0, len(wave) - samples)
        return wave[start : start + samples] / max(level, 1e-3)

    def fill(self, rng):
        names = list(STRINGS)
        while not self.stopped.is_set():
            picked = rng.permutation(len(self.rows))
            for at in range(0, len(picked) - self.batch + 1, self.batch):
                rows = [self.rows[n] for n in picked[at : at + self.batch]]
                samples = self.samples
                waves = torch.from_numpy(np.stack([self.cut(row, samples, rng) for row in rows]))
                self.queue.put((waves, torch.tensor([names.index(row["string"]) for row in rows])))
                if self.stopped.is_set():
                    return

    def get(self):
        return self.queue.get()

    def close(self):
        self.stopped.set()
        while not self.queue.empty():
            self.queue.get_nowait()
        self.pool.shutdown()
