"""Pictures of what the model sees, written beside the training."""
import logging
import os
import queue
import threading

import numpy as np
from PIL import Image

log = logging.getLogger("previews")


def contrast(plane):
    high = np.quantile(plane, 0.995)
    if high < 0.6:
        log.warning("a faint plane, highest %.3f", high)
    return (np.clip(plane / max(high, 1e-6), 0, 1) * 255).astype(np.uint8)


def peaks(density):
    """Where the density is a local maximum, the strongest first."""
    inner = density[1:-1, 1:-1]
    top = (inner >= density[:-2, 1:-1]) & (inner >= density[2:, 1:-1]) & (inner >= density[1:-1, :-2]) & (inner >= density[1:-1, 2:])
    ys, xs = np.nonzero(top & (inner > 0.01))
    order = np.argsort(-inner[ys, xs])
    return np.stack([ys[order] + 1, xs[order] + 1], 1)


def overlay(image, guess, truth):
    picture = np.stack([contrast(image)] * 3, -1)
    marks = peaks(truth)
    strongest = truth[tuple(marks[0])] if len(marks) else 0.1
    for y, x in peaks(guess):
        if guess[y, x] > 0.3 * strongest:
            picture[y, x] = (255, 60, 60)
    picture[tuple(marks.T)] = (60, 255, 60)
    return Image.fromarray(picture).resize((192, 192), Image.NEAREST)


class Previews(threading.Thread):
    def __init__(self, folder, waiting):
        super().__init__(name="previews", daemon=True)
        self.folder, self.jobs = folder, queue.Queue(waiting)
        os.makedirs(folder, exist_ok=True)
        self.start()

    def add(self, name, image, guess, truth):
        self.jobs.put((name, image.numpy(), guess.detach().numpy(), truth.numpy()))

    def run(self):
        while True:
            name, *planes = self.jobs.get()
            try:
                overlay(*planes).save(os.path.join(self.folder, name + ".png"))
            except OSError as problem:
                log.warning("%s: %s", name, problem)
            except Exception as problem:
                log.warning("%s: no preview (%s)", name, problem)
            self.jobs.task_done()

    def finish(self):
        self.jobs.join()
