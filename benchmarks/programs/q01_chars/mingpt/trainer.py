"""
Simple training loop; Boilerplate that could apply to any arbitrary neural network,
so nothing in this file really has anything to do with GPT specifically.
"""
import time
from collections import defaultdict
import torch
from torch.utils.data import DataLoader


class Trainer:
    def __init__(self, config, model, train_dataset):
        self.config, self.model, self.train_dataset = config, model, train_dataset
        self.callbacks = defaultdict(list)
        self.history = []
        self.iter_num, self.iter_time = 0, time.time()

    def add_callback(self, onevent, callback):
        self.callbacks[onevent].append(callback)

    def trigger_callbacks(self, onevent):
        for callback in self.callbacks[onevent]:
            callback(self)

    def run(self):
        c = self.config
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=c.lr)
        loader = DataLoader(self.train_dataset, batch_size=c.batch_size, num_workers=c.workers,
                            prefetch_factor=8, persistent_workers=True, pin_memory=False)
        self.model.train()
        it = iter(loader)
        while self.iter_num < c.max_iters:
            try:
                x, y = next(it)
            except StopIteration:
                it = iter(loader)
                x, y = next(it)
            _, self.loss = self.model(x, y)
            self.model.zero_grad(set_to_none=True)
            self.loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            self.history.append(self.loss.item())
            self.iter_num += 1
            now = time.time()
            self.iter_dt, self.iter_time = now - self.iter_time, now
            self.trigger_callbacks("on_batch_end")
