"""The log book of a run: notes are kept in memory and written out now and then. The folder lies on the slow archive."""
import os
import threading
import time


class LogBook:
    def __init__(self, folder, pause=0.004):
        os.makedirs(folder, exist_ok=True)
        self.path = os.path.join(folder, "book.tsv")
        self.pause = pause
        self.notes = []
        self.guard = threading.Lock()
        self.writer = None

    def note(self, kind, **what):
        with self.guard:
            self.notes.append((time.time(), kind, what))

    def _write(self):
        with self.guard:
            with open(self.path, "a") as f:
                for t, kind, what in self.notes:
                    f.write(f"{t:.3f}\t{kind}\t{what}\n")
                    f.flush()
                    time.sleep(self.pause)
            self.notes.clear()

    def write_out(self):
        self.writer = threading.Thread(target=self._write, name="book")
        self.writer.start()


book = None


def open_book(folder):
    global book
    book = LogBook(folder)
    return book
