import torch
from torch.utils.data import DataLoader
torch.manual_seed(0)
class Prefetcher:
    def __init__(self, loader):
        self.loader, self.stream = iter(loader), torch.cuda.Stream(); self.preload()
    def preload(self):
        self.next = next(self.loader, None)
        if self.next is not None:
            with torch.cuda.stream(self.stream): self.next = self.next.cuda(non_blocking=True)
    def __iter__(self):
        while self.next is not None:
            torch.cuda.current_stream().wait_stream(self.stream); x = self.next; x.record_stream(torch.cuda.current_stream()); self.preload(); yield x
m = torch.nn.Linear(64, 64).cuda(); o = torch.optim.SGD(m.parameters(), lr=0.1, foreach=True)
side = torch.cuda.Stream(); e0, e1 = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
loader = DataLoader(torch.randn(128, 64), 16, num_workers=2, pin_memory=True, persistent_workers=True)
for epoch in range(4):
    e0.record()
    for x in Prefetcher(loader):
        l = (m(x) - x).pow(2).mean(); l.backward(); o.step(); o.zero_grad()
    e1.record(); torch.cuda.synchronize()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        l2 = (m(x) - x).abs().mean(); l2.backward(); o.step(); o.zero_grad()
    torch.cuda.current_stream().wait_stream(side)
    print(epoch, l.item().hex(), l2.item().hex(), e0.elapsed_time(e1) > 0)
print(m.weight.double().sum().item().hex(), len(torch.cuda.memory_snapshot()) > 0)
