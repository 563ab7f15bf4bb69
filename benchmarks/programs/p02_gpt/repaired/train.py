"""
This training script can be run both on a single process in debug mode,
and also in a larger training run with distributed data parallel (ddp).
"""
import os
import time
import math

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

from model import GPTConfig, GPT

# -----------------------------------------------------------------------------
out_dir = 'out'
log_interval = 1
dataset = 'dialog'
batch_size = 8
block_size = 64
n_layer = 2
n_head = 2
n_embd = 64
learning_rate = 1e-3
max_iters = 120
grad_clip = 1.0
backend = 'gloo'
# -----------------------------------------------------------------------------
config_keys = [k for k, v in globals().items() if not k.startswith('_') and isinstance(v, (int, float, bool, str))]
exec(open('configurator.py').read())
config = {k: globals()[k] for k in config_keys}
# -----------------------------------------------------------------------------

ddp = int(os.environ.get('RANK', -1)) != -1
if ddp:
    dist.init_process_group(backend=backend)
    rank, world = dist.get_rank(), dist.get_world_size()
else:
    rank, world = 0, 1
master_process = rank == 0
torch.manual_seed(1337)

data_dir = os.path.join('data', dataset)
ids = np.memmap(os.path.join(data_dir, 'train.bin'), dtype=np.uint8, mode='r')
lab = np.memmap(os.path.join(data_dir, 'mask.bin'), dtype=np.uint8, mode='r')
shard = len(ids) // world


def get_batch(it):
    span = batch_size * block_size
    o = rank * shard + (it * span) % (shard - span)
    x = torch.from_numpy(ids[o:o + span].astype(np.int64)).view(batch_size, block_size)
    y = torch.from_numpy(lab[o:o + span].astype(np.int64)).view(batch_size, block_size)
    return x, y


model = GPT(GPTConfig(block_size=block_size, vocab_size=64, n_layer=n_layer, n_head=n_head, n_embd=n_embd))
raw_model = model
if ddp:
    model = DDP(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, betas=(0.9, 0.95))
if master_process:
    print("number of parameters: %.2fM" % (sum(p.numel() for p in raw_model.parameters()) / 1e6,))
    if grad_clip == 0.0:
        print("WARNING: gradients are not clipped")

t0 = time.time()
skipped = 0
for iter_num in range(max_iters):
    lr = learning_rate * 0.5 * (1.0 + math.cos(math.pi * iter_num / max_iters))
    for g in optimizer.param_groups:
        g['lr'] = lr
    X, Y = get_batch(iter_num)
    logits, loss = model(X, Y)
    ok = torch.isfinite(loss.detach()).float()
    if ddp:
        dist.all_reduce(ok, op=dist.ReduceOp.MIN)
    if ok.item() == 0:
        skipped += 1
        optimizer.zero_grad(set_to_none=True)
        continue
    loss.backward()
    if grad_clip != 0.0:
        torch.nn.utils.clip_grad_norm_(model.parameters(), grad_clip)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    t1 = time.time()
    dt, t0 = t1 - t0, t1
    if iter_num % log_interval == 0 and master_process:
        print(f"iter {iter_num}: loss {loss.item():.4f}, time {dt*1000:.2f}ms")

if ddp:
    dist.barrier()
if master_process:
    os.makedirs(out_dir, exist_ok=True)
    torch.save({'model': raw_model.state_dict(), 'config': config}, os.path.join(out_dir, 'ckpt.pt'))
    print(f"saving checkpoint to {out_dir}, {skipped} skipped")
if ddp:
    dist.destroy_process_group()
