import os, warnings; warnings.filterwarnings("ignore")
import logging
import torch, deepspeed
deepspeed.utils.logger.setLevel(logging.ERROR)
cuda = torch.cuda.is_available()
deepspeed.init_distributed("nccl" if cuda else "gloo", verbose=False)
torch.manual_seed(0)
m = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
engine, *_ = deepspeed.initialize(model=m, model_parameters=m.parameters(), config={"train_micro_batch_size_per_gpu": 4, "optimizer": {"type": "Adam", "params": {"lr": 1e-2, "torch_adam": True}}, "zero_optimization": {"stage": 1}, "bf16": {"enabled": cuda}})
for epoch in range(2):
    for x in torch.utils.data.DataLoader(torch.randn(16, 8), 4, num_workers=2):
        l = engine(x.to(engine.device, engine.module[0].weight.dtype)).float().pow(2).mean(); engine.backward(l); engine.step()
    print(epoch, l.item().hex())
torch.distributed.destroy_process_group()
