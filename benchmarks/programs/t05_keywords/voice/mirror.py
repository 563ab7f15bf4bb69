import logging
import queue
import shutil
import threading

log = logging.getLogger("mirror")


class Mirror:
    """Copies what was saved to the scratch disk, beside the training."""

    def __init__(self, folder):
        self.folder = folder
        self.wanted = queue.SimpleQueue()
        threading.Thread(target=self._work, name="mirror", daemon=True).start()

    def copy(self, path):
        self.wanted.put(path)

    def _work(self):
        try:
            while True:
                shutil.copy(self.wanted.get(), self.folder)
        except OSError:
            log.exception("mirror to %s stopped", self.folder)
