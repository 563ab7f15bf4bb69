"""Tensors on the GPU shared with processes that were spawned."""
import torch
import torch.multiprocessing as mp

def consume(inbox, outbox):
    while (t := inbox.get()) is not None:
        outbox.put(t.double().sum().item().hex())
        del t
    w = torch.ones(3, device="cuda", requires_grad=True)
    o = torch.optim.SGD([w], lr=0.5)
    for _ in range(3):
        (w ** 2).sum().backward(); o.step(); o.zero_grad()
    outbox.put(w.sum().item().hex())

if __name__ == "__main__":
    torch.manual_seed(0)
    ctx = mp.get_context("spawn")
    inbox, outbox = ctx.Queue(), ctx.Queue()
    p = ctx.Process(target=consume, args=(inbox, outbox)); p.start()
    m = torch.nn.Linear(16, 16).cuda(); o = torch.optim.Adam(m.parameters())
    kept = []
    for i in range(5):
        l = m(torch.ones(4, 16, device="cuda")).pow(2).mean(); l.backward(); o.step(); o.zero_grad()
        kept.append(m.weight.detach().clone()); torch.cuda.synchronize(); inbox.put(kept[-1])
        print(i, l.item().hex(), outbox.get())
    inbox.put(None); print(outbox.get()); p.join(); print(p.exitcode)
    kept.clear(); torch.cuda.ipc_collect()
    for _ in range(2):
        print(sum(x.sum().item() for x in torch.utils.data.DataLoader(torch.ones(8, 2), 2, num_workers=2)))
