"""Share of the words that the speller knows."""
import subprocess
import sys


class Speller:
    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ink.speller"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def known(self, rows):
        """One answer for each line, in order."""
        for row in rows:
            self.process.stdin.write(row + "\n")
        self.process.stdin.flush()
        words = odd = 0
        for _ in rows:
            first, second, *_ = self.process.stdout.readline().split()
            words, odd = words + int(first), odd + int(second)
        return 1 - odd / max(words, 1)

    def close(self):
        self.process.terminate()
        self.process.wait(10)
