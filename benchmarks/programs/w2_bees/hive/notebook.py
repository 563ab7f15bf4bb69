"""The desk as a tracker of accelerate's kind."""
import json
import socket
import time

from accelerate.tracking import GeneralTracker, on_main_process


class DeskTracker(GeneralTracker):
    name = "desk"
    requires_logging_directory = False

    @on_main_process
    def __init__(self, run_name, port, every=20):
        super().__init__()
        self.run_name, self.every, self.waiting = run_name, every, 0
        for attempt in range(20):  # the desk may still be getting up
            try:
                self.socket = socket.create_connection(("127.0.0.1", port), timeout=5)
                break
            except OSError as problem:
                print(f"desk not there ({problem}), attempt {attempt}", flush=True)
                time.sleep(0.5)
        self.socket.settimeout(None)
        self.wire = self.socket.makefile("rw")

    @property
    def tracker(self):
        return self.wire

    def send(self, kind, **row):
        self.wire.write(json.dumps({"kind": kind, "time": time.time(), **row}) + "\n")
        self.waiting += 1
        if self.waiting >= self.every:
            self.wire.flush()
            self.waiting = 0

    @on_main_process
    def store_init_configuration(self, values):
        self.send("open", name=self.run_name, values=values)

    @on_main_process
    def log(self, values, step=None, **more):
        self.send("row", step=step, **values)

    @on_main_process
    def finish(self):
        self.send("close")
        print("desk:", self.wire.readline().strip(), flush=True)
        self.socket.close()
