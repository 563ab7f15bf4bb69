import argparse
import os
import h5py
import numpy as np


def main(args):
    os.makedirs(os.path.dirname(args["out"]), exist_ok=True)
    rng = np.random.default_rng(0)
    with h5py.File(args["out"], "w") as root:
        for i in range(args["num_episodes"]):
            T = int(rng.integers(90, 120))
            g = root.create_group(f"episode_{i:03d}")
            t = np.linspace(0, 3, T)[:, None]
            qpos = np.sin(t * rng.uniform(0.5, 2, 14)[None]) + 0.01 * rng.standard_normal((T, 14))
            g.create_dataset("qpos", data=qpos.astype("f4"), chunks=(16, 14), compression="gzip")
            g.create_dataset("action", data=np.roll(qpos, -1, 0).astype("f4"), chunks=(16, 14), compression="gzip")
        root.create_dataset("weights", data=np.ones(args["num_episodes"], "f4"))
        root.attrs["sim"] = True
    print(f"Saved {args['num_episodes']} episodes to {args['out']}")


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--num_episodes", type=int, default=16)
    p.add_argument("--out", default="data/sim_cube.hdf5")
    main(vars(p.parse_args()))
