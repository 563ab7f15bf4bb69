"""One thread captures graphs while others read loaders and train; captures must not be invalidated."""
import faulthandler
import threading
import time
import torch
from torch.utils.data import DataLoader

faulthandler.dump_traceback_later(75, exit=True)  # rather than wait for ever
torch.manual_seed(0)
stop = threading.Event()
seen = []
LONGEST = 20_000  # rounds

def read_on():
    while not stop.is_set() and len(seen) < LONGEST:
        for x in DataLoader(torch.arange(64.0), batch_size=4):
            seen.append(x.shape[0])
            time.sleep(0.001)  # lets the others have the interpreter
            if stop.is_set():
                break

def train_on_cpu():
    m = torch.nn.Linear(4, 1); o = torch.optim.SGD(m.parameters(), 0.01)
    for _ in range(LONGEST):
        if stop.is_set():
            break
        time.sleep(0.001)
        m(torch.ones(2, 4)).sum().backward(); o.step(); o.zero_grad()

x = torch.randn(16, 64, device="cuda")
models = [torch.nn.Linear(64, 64).cuda() for _ in range(6)]  # before the threads draw random numbers too
threads = [threading.Thread(target=read_on), threading.Thread(target=train_on_cpu)]
[t.start() for t in threads]
while not seen:
    time.sleep(0.001)
total = 0.0
for n in range(6):
    g = torch.cuda.CUDAGraph()
    model = models[n]; opt = torch.optim.SGD(model.parameters(), lr=0.01)
    mode = ("thread_local", "global", "relaxed")[n % 3]
    s = torch.cuda.Stream(); s.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(s):
        for _ in range(3):
            (model(x) - x).pow(2).mean().backward(); opt.step(); opt.zero_grad(set_to_none=True)
    torch.cuda.current_stream().wait_stream(s)
    with torch.cuda.graph(g, capture_error_mode=mode):
        loss = (model(x) - x).pow(2).mean()
        loss.backward()
        opt.step()
    g.replay(); g.replay()
    total += loss.item()
    del loss, g  # what a graph accumulates into belongs to the stream that it was captured on
stop.set(); [t.join() for t in threads]
faulthandler.cancel_dump_traceback_later()
print(total.hex(), model.weight.double().sum().item().hex(), len(seen) > 0)
