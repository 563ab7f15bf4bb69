# the whole step compiled, optimizer included; then with a scheduler and hooks
import logging
import torch
torch._logging.set_logs(all=logging.ERROR)
from torch._dynamo.testing import CompileCounter
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
lin = torch.nn.Linear(8, 8).to(device)
opt = torch.optim.Adam(lin.parameters(), lr=0.01, **({"capturable": True} if device == "cuda" else {}))
data = torch.randn(10, 4, 8, device=device)
counter = CompileCounter()
@torch.compile(backend=counter)
def opt_step():
    opt.step()
@torch.compile(backend=counter)
def forward(x):
    return (lin(x) - x).pow(2).mean()
for x in data:
    loss = forward(x)
    loss.backward()
    opt_step()
    opt.zero_grad()
print(counter.frame_count, counter.op_count, loss.item().hex())
explained = torch._dynamo.explain(lambda x: forward(x).sum())(data[0])
print(explained.graph_count, explained.graph_break_count, explained.op_count)
def whole(x):
    out = lin(x).relu()
    if out.sum() > 0:
        out = out * 2
    return out.sum()
cc = CompileCounter()
w = torch.compile(whole, backend=cc)
for n in (2, 3, 4):
    w(torch.ones(n, 8, device=device)).backward()
print(cc.frame_count, cc.op_count)
full = torch.compile(lambda x: lin(x).tanh().sum(), fullgraph=True, backend="aot_eager")
print(full(data[1]).item().hex())
for name in ("eval", "train"):
    getattr(lin, name)()
    print(name, torch.compile(lin, backend="eager", fullgraph=True)(data[2]).sum().item().hex())
with torch.no_grad():
    g = torch.export.export(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()), (torch.ones(1, 2),))
    print(len(list(g.graph.nodes)))
