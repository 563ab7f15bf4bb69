import os
import time

import requests


class LabTracker:
    def __init__(self, name):
        self.url, self.name = os.environ["LAB_URL"], name
        self.session = requests.Session()
        self.session.trust_env = False
        for _ in range(100):
            try:
                self.log(0, started=time.time())
                break
            except requests.ConnectionError:
                time.sleep(0.1)

    def log(self, step, **values):
        answer = self.session.post(f"{self.url}/rows", json={"run": self.name, "step": step, **values})
        if answer.status_code == 429:
            print(f"WARNING tracker: 429 Too Many Requests at step {step}, trying again")
            time.sleep(0.2)
            self.session.post(f"{self.url}/rows", json={"run": self.name, "step": step, **values})

    def artifact(self, path):
        try:
            with open(path, "rb") as f:
                self.session.post(f"{self.url}/artifacts", data=f, timeout=2).raise_for_status()
        except requests.RequestException as problem:
            print(f"WARNING tracker: {path} not uploaded ({type(problem).__name__}), it stays on disk")
