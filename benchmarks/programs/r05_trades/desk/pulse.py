import threading
import time


class Pulse(threading.Thread):
    """Says every five seconds that the process is alive; operations want it."""

    def __init__(self):
        super().__init__(daemon=True, name="pulse")
        self.count = 0

    def run(self):
        while True:
            time.sleep(5)
            print(f"[pulse] alive, {self.count} days done", flush=True)
