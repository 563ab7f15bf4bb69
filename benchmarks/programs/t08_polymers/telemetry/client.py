import os
import time
import uuid

import requests


class Run:
    def __init__(self, port_file="collector.port"):
        for _ in range(100):
            if os.path.exists(port_file):
                break
            time.sleep(0.1)
        with open(port_file) as f:
            self.url = f"http://127.0.0.1:{f.read()}"
        self.name = uuid.uuid4().hex[:8]
        self.session = requests.Session()
        self.session.trust_env = False

    def log(self, step, **values):
        for name, value in values.items():
            row = {"run": self.name, "step": step, "name": name, "value": float(value)}
            self.session.post(f"{self.url}/row", json=row).raise_for_status()

    def finish(self):
        self.session.post(f"{self.url}/finish", json={"run": self.name}).raise_for_status()
