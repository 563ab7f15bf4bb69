"""Shared tensors between processes: torch.multiprocessing queues, shared parameters, spawn."""
import os, sys
import torch
import torch.multiprocessing as mp

def train(rank, model, turn):
    torch.manual_seed(rank)
    turn[rank].acquire()
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(5):
        opt.zero_grad(); model(torch.randn(4, 3)).pow(2).mean().backward(); opt.step()
    if rank + 1 < len(turn): turn[rank + 1].release()

def producer(q, done):
    for i in range(4):
        q.put({"i": i, "t": torch.full((2, 2), float(i))})
    q.put(None)
    done.wait()

def fails(rank, what):
    if rank == 0:
        raise ValueError(f"rank {rank} fails on purpose: {what}")

def main():
    mp.set_sharing_strategy("file_system" if "--file-system" in sys.argv else "file_descriptor")
    ctx = mp.get_context("fork")
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 1); model.share_memory()
    turn = [ctx.Semaphore(0) for _ in range(3)]
    ps = [ctx.Process(target=train, args=(r, model, turn)) for r in range(3)]
    [p.start() for p in ps]; turn[0].release(); [p.join() for p in ps]
    print([p.exitcode for p in ps], [x.sum().item().hex() for x in model.parameters()])
    q, done = ctx.Queue(), ctx.Event()
    p = ctx.Process(target=producer, args=(q, done)); p.start()
    while (item := q.get()) is not None:
        print(item["i"], item["t"].tolist())
    done.set(); p.join(); print(p.exitcode)
    with ctx.Pool(2) as pool:
        print([t.sum().item() for t in pool.map(torch.ones, [1, 2, 3])])
        pool.close(); pool.join()  # ended by a signal, the workers leave their temporary folders or not, by chance
    try:
        mp.spawn(fails, args=("spawned",), nprocs=1)
    except Exception as e:
        print(type(e).__name__, str(e))

if __name__ == "__main__":
    main()
