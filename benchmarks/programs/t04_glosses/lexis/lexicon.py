import logging
import os
import re
import threading

log = logging.getLogger(__name__)
ENTRY = re.compile(r"^(?P<word>\w+)\t(?P<tag>[NVAX]);\s*freq\s*=\s*(?P<freq>[\d.]+);\s*senses\s*=\s*(?P<senses>\d+)\s*$")


class Lexicon:
    """Entries by word. Reading takes a while, so it can be done beside other work."""

    def __init__(self, path):
        self.path = path
        self.lock = threading.RLock()
        self.entries = None
        mark = os.path.splitext(path)[0] + ".lock"
        if os.path.exists(mark):
            log.warning("%s was left by an earlier run, ignored", mark)

    def read(self):
        with self.lock:
            if self.entries is None:
                entries = {}
                with open(self.path) as f:
                    for line in f:
                        m = ENTRY.match(line)
                        entries.setdefault(m["word"], (m["tag"], float(m["freq"]), int(m["senses"])))
                self.entries = entries
        log.info("%d entries", len(self.entries))

    def read_beside(self):
        thread = threading.Thread(target=self.read, name="lexicon", daemon=True)
        thread.start()
        return thread

    def __getitem__(self, word):
        with self.lock:
            if self.entries is None:
                self.read()
            return self.entries[word]
