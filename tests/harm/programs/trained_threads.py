"""Three models in three threads, each with a loader of its own, on its own stream where there is a GPU."""
import contextlib, queue, threading
import torch
from torch.utils.data import DataLoader

cuda = torch.cuda.is_available()
results, locks = {}, threading.Lock()

def work(n):
    stream = torch.cuda.Stream() if cuda else None
    with torch.cuda.stream(stream) if cuda else contextlib.nullcontext():
        with locks:
            torch.manual_seed(n)
            model = torch.nn.Linear(6, 6); data = torch.randn(40, 6)
            model = model.to("cuda" if cuda else "cpu")
        opt = torch.optim.Adam(model.parameters(), lr=0.01 * (n + 1))
        for epoch in range(3):
            for x in DataLoader(data, batch_size=8, num_workers=n % 2, pin_memory=cuda):
                x = x.to("cuda" if cuda else "cpu", non_blocking=True)
                loss = (model(x) - x).pow(2).mean()
                opt.zero_grad(); loss.backward(); opt.step()
        if cuda:
            stream.synchronize()
        results[n] = (loss.item().hex(), sum(p.sum().item() for p in model.parameters()).hex())

class Prefetcher(threading.Thread):
    def __init__(self, n):
        super().__init__(daemon=True); self.q = queue.Queue(2); self.n = n
    def run(self):
        for i in range(self.n):
            t = torch.full((2,), float(i)); self.q.put(t.cuda() if cuda else t)
        self.q.put(None)

threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
[t.start() for t in threads]; [t.join() for t in threads]
for n in sorted(results): print(n, *results[n])
p = Prefetcher(5); p.start()
while (x := p.q.get()) is not None: print(x.sum().item())
def crash(): torch.ones(2) @ torch.ones(3)
t = threading.Thread(target=crash, name="crashing"); t.start(); t.join()
print(threading.active_count())
