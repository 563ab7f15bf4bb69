import glob
import multiprocessing
import os
import torch
from wx.reader import read_shard


class ShardFeed:
    def __init__(self, cfg):
        self.files = sorted(glob.glob(os.path.join(cfg["shards"], "wx_*.bin")))
        self.pool = multiprocessing.Pool(cfg["readers"], maxtasksperchild=64)
        self.cfg = cfg

    def __iter__(self):
        todo = list(self.files)
        flying = [self.pool.apply_async(read_shard, (todo.pop(0),)) for _ in range(min(self.cfg["ahead"], len(todo)))]
        while flying:
            name, a = flying.pop(0).get()
            if todo:
                flying.append(self.pool.apply_async(read_shard, (todo.pop(0),)))
            x = torch.from_numpy(a)[:, None]
            for o in range(0, len(x) - 1, self.cfg["batch"]):
                now, nxt = x[o:o + self.cfg["batch"]], x[o + 1:o + 1 + self.cfg["batch"]]
                yield name, now[: len(nxt)], nxt

    def close(self):
        self.pool.close()
        self.pool.join()
