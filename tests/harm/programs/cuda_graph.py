"""A whole training step captured in a CUDA graph and replayed; loaders with workers around it, epochs afterwards."""
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
N, D = 16, 64
model = torch.nn.Sequential(torch.nn.Linear(D, 128), torch.nn.ReLU(), torch.nn.Linear(128, 1)).cuda()
opt = torch.optim.Adam(model.parameters(), lr=1e-3, capturable=True)
loss_fn = torch.nn.MSELoss()
static_x, static_y = torch.randn(N, D, device="cuda"), torch.randn(N, 1, device="cuda")
loader = DataLoader(TensorDataset(torch.randn(96, D), torch.randn(96, 1)), batch_size=N, num_workers=2, pin_memory=True, shuffle=True)

for x, y in loader:  # eager first: the workers of the next epoch are forked after losses were seen
    opt.zero_grad(set_to_none=True)
    loss_fn(model(x.cuda(non_blocking=True)), y.cuda(non_blocking=True)).backward()
    opt.step()
s = torch.cuda.Stream()
s.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(s):
    for _ in range(3):
        opt.zero_grad(set_to_none=True)
        loss_fn(model(static_x), static_y).backward()
        opt.step()
torch.cuda.current_stream().wait_stream(s)
g = torch.cuda.CUDAGraph()
opt.zero_grad(set_to_none=True)
with torch.cuda.graph(g):
    static_loss = loss_fn(model(static_x), static_y)
    static_loss.backward()
    opt.step()
for epoch in range(3):
    for x, y in loader:
        static_x.copy_(x, non_blocking=True)
        static_y.copy_(y, non_blocking=True)
        g.replay()
    print(epoch, static_loss.item().hex())
    with torch.no_grad():
        print("  eager", loss_fn(model(static_x), static_y).item().hex())
print(sum(p.double().sum().item() for p in model.parameters()).hex())
