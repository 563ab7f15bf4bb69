import torch
from torch.utils.data import DataLoader

torch.manual_seed(0)
a = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.Tanh()).cuda()
b = torch.nn.Linear(32, 1).cuda()
x = torch.randn(8, 32, device="cuda")
h = torch.randn(8, 32, device="cuda", requires_grad=True)
a, b = torch.cuda.make_graphed_callables((a, b), ((x,), (h,)))
opt = torch.optim.SGD([*a.parameters(), *b.parameters()], lr=0.05)
scaler = torch.amp.GradScaler("cuda", init_scale=256.0)
for epoch in range(3):
    a.train(); b.train()
    for batch in DataLoader(torch.randn(64, 32), batch_size=8, num_workers=2, pin_memory=True):
        opt.zero_grad(set_to_none=True)
        loss = b(a(batch.cuda(non_blocking=True))).pow(2).mean()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
    print(epoch, loss.item().hex(), scaler.get_scale())
