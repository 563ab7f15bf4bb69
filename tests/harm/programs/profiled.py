"""torch.profiler with a schedule: which operations, how often."""
import os
os.environ["KINETO_LOG_LEVEL"] = "6"
import torch
from torch.profiler import ProfilerActivity, profile, record_function, schedule
from torch.utils.data import DataLoader, TensorDataset

cuda = torch.cuda.is_available()
dev = "cuda" if cuda else "cpu"
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(10, 10), torch.nn.ReLU(), torch.nn.Linear(10, 1)).to(dev)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.randn(64, 10)), batch_size=8, num_workers=1)

def ready(p):
    for e in sorted(p.key_averages(), key=lambda e: e.key):
        if not e.key.startswith(("cuda", "cuLaunch", "Activity Buffer", "Lazy", "Buffer", "Command", "Runtime", "void ", "Memcpy", "Memset")):
            print(f"{e.key[:60]:60} {e.count}")

for _ in range(2):
    (x,) = next(iter(loader)); net(x.to(dev)).sum().backward(); opt.step(); opt.zero_grad()
with profile(activities=[ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if cuda else []), schedule=schedule(wait=1, warmup=1, active=3), on_trace_ready=ready, record_shapes=True) as prof:
    for (x,) in loader:
        with record_function("my step"):
            loss = net(x.to(dev)).pow(2).mean(); loss.backward(); opt.step(); opt.zero_grad()
        prof.step()
with torch.autograd.profiler.profile() as p:
    net(x.to(dev)).sum().backward()
print(len(p.function_events) > 0, sum(e.count for e in p.key_averages() if not e.key.startswith("cu")) if not cuda else "")
if cuda:
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as p:
        for _ in range(5):
            net(x.to(dev)).pow(2).mean().backward(); opt.step(); opt.zero_grad()
        torch.cuda.synchronize()
    names = [e.name for e in p.events()]
    print({n: names.count(n) for n in sorted(set(names)) if n in ("cudaLaunchKernel", "cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaMemcpyAsync", "cudaEventRecord", "cudaEventQuery", "cudaHostAlloc", "cudaMalloc")})
print(loss.item().hex())
