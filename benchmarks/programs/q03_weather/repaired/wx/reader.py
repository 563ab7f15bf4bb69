import os
import struct
import sys
import numpy as np

FILL = -9999.0


def read_header(f, path):
    magic = f.read(4)
    version, n, h, w = struct.unpack("<HHHH", f.read(8))
    if magic != b"WTHR" or version not in (1, 2):
        raise ValueError(f"{path}: unknown header {magic!r} {version}")
    return version, n, h, w


def read_shard(path):
    with open(path, "rb") as f:
        version, n, h, w = read_header(f, path)
        a = np.frombuffer(f.read(), dtype="<f4" if version == 2 else "<i2").reshape(n, h, w).astype("f4")
        if version == 1:
            a /= 100
    bad = (a == FILL).any(axis=(1, 2))
    if bad.any():
        print(f"{os.path.basename(path)}: WARNING {bad.sum()} of {n} frames hold fill values, replaced by their neighbours", flush=True)
        for i in np.flatnonzero(bad):
            a[i] = a[i - 1]
    return os.path.basename(path), a


if __name__ == "__main__":
    for p in sys.argv[1:]:
        name, a = read_shard(p)
        print(name, a.shape, a.mean())
