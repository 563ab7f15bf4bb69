import argparse
import numpy as np


class RemoteTiles:
    """Stands for the object store of the institute: 0.1 s for each object, sometimes a 503."""

    latency = 0.1

    def __init__(self, path):
        z = np.load(path)
        self.img, self.lab = z["img"], z["lab"]

    def __len__(self):
        return len(self.img)

    def get(self, i):
        import time
        time.sleep(self.latency)
        if i % 97 == 13:
            print(f"[store] GET tile/{i:04d}: 503 Service Unavailable, retry 1/5", flush=True)
            time.sleep(self.latency)
        return self.img[i], self.lab[i]


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--out")
    rng = np.random.default_rng(5)
    n = 240
    lab = (rng.random((n, 4, 4)) > 0.7).repeat(8, 1).repeat(8, 2)
    img = lab[:, None] * 1.5 + rng.standard_normal((n, 3, 32, 32))
    np.savez(ap.parse_args().out, img=img.astype("float32"), lab=lab.astype("int64"))
