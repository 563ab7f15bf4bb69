"""A lock for folders that several jobs share."""
import fcntl
import os
import warnings


class Guard:
    def __init__(self, folder):
        self.path = os.path.join(folder, ".lock")
        self.handle = None

    def __enter__(self):
        self.handle = open(self.path, "a+")
        fcntl.flock(self.handle, fcntl.LOCK_EX)
        self.handle.seek(0)
        owner = self.handle.read().strip()
        if owner and not os.path.exists(f"/proc/{owner}"):
            warnings.warn(f"{self.path}: left by process {owner}, which is gone; taken over", stacklevel=2)
        self.handle.truncate(0)
        self.handle.write(str(os.getpid()))
        self.handle.flush()
        return self

    def __exit__(self, *_):
        self.handle.truncate(0)
        self.handle.close()
