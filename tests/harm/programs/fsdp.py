"""python -m torch.distributed.run ... fsdp.py 1|2"""
import os, sys
import torch, torch.distributed as dist
import torch.nn as nn

version = sys.argv[1]
cuda = torch.cuda.is_available()
device = torch.device("cuda", 0) if cuda else torch.device("cpu")
if cuda: torch.cuda.set_device(0)
dist.init_process_group("nccl" if cuda else "gloo", device_id=device if cuda else None)
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1)).to(device)
if version == "1":
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, MixedPrecision
    from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
    model = FSDP(model, device_id=device if cuda else None, use_orig_params=True, mixed_precision=MixedPrecision(param_dtype=torch.bfloat16) if cuda else None)
else:
    from torch.distributed.fsdp import fully_shard
    for layer in model:
        if isinstance(layer, nn.Linear): fully_shard(layer)
    fully_shard(model)
opt = torch.optim.AdamW(model.parameters(), lr=1e-2)
loader = torch.utils.data.DataLoader(torch.randn(32, 8, generator=torch.Generator().manual_seed(dist.get_rank())), batch_size=8, num_workers=2, pin_memory=cuda)
for epoch in range(3):
    for x in loader:
        loss = model(x.to(device)).float().pow(2).mean(); loss.backward()
        norm = model.clip_grad_norm_(1.0) if version == "1" else nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step(); opt.zero_grad()
    total = loss.detach().clone(); dist.all_reduce(total)
    if dist.get_rank() == 0: print(epoch, total.item().hex(), flush=True)
if version == "2":
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_model_state_dict
    dcp.save({"model": get_model_state_dict(model)}, checkpoint_id="dcp")
    if dist.get_rank() == 0: print(sorted(os.listdir("dcp")))
    import shutil; dist.barrier()
    if dist.get_rank() == 0: shutil.rmtree("dcp")
dist.destroy_process_group()
