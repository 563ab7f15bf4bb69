"""Processes of all kinds after the GPU was used: none of them touches it, all of them end well."""
import concurrent.futures, gc, multiprocessing as mp, os, subprocess, sys, threading, warnings
import torch
warnings.filterwarnings("ignore", category=DeprecationWarning)  # forks beside threads

def square(n): return n * n
def allocate_and_collect(n):
    x = [torch.ones(10) for _ in range(n)]
    del x
    gc.collect()
    return torch.ones(n).sum().item()
def compute(q, train):
    torch.manual_seed(0)
    m = torch.nn.Linear(3, 1)
    if train:  # not in a fork of a process that used the GPU: autograd refuses to work there
        o = torch.optim.SGD(m.parameters(), 0.1)
        for _ in range(5): m(torch.ones(2, 3)).pow(2).sum().backward(); o.step(); o.zero_grad()
    with torch.no_grad(): q.put(m(torch.ones(2, 3)).sum().item().hex())
def main():
    cuda = torch.cuda.is_available(); dev = "cuda" if cuda else "cpu"
    torch.manual_seed(0)
    m = torch.nn.Linear(8, 8).to(dev); o = torch.optim.Adam(m.parameters()); sc = torch.amp.GradScaler(dev)
    def steps(n):
        for _ in range(n):
            l = m(torch.ones(4, 8, device=dev)).pow(2).mean(); sc.scale(l).backward(); sc.step(o); sc.update(); o.zero_grad()
        return l.item().hex()
    print(steps(10)); sys.stdout.flush()
    for how in ("os._exit", "sys.exit", "collect"):
        pid = os.fork()
        if pid == 0:
            if how == "collect": gc.collect(); os._exit(0)
            if how == "sys.exit": sys.exit(3)
            os._exit(4)
        print(how, os.waitpid(pid, 0)[1] >> 8); sys.stdout.flush()
        steps(3)
    with mp.get_context("fork").Pool(3) as pool: print(pool.map(allocate_and_collect, range(1, 6)))
    print(steps(3)); sys.stdout.flush()
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=mp.get_context("fork")) as ex: print(list(ex.map(square, range(5))))
    q = mp.get_context("fork").SimpleQueue(); p = mp.get_context("fork").Process(target=compute, args=(q, not cuda)); p.start(); p.join(30); print(p.exitcode, None if q.empty() else q.get()); sys.stdout.flush()
    print(subprocess.run([sys.executable, "-c", "print('sub')"], stdout=subprocess.PIPE).stdout, os.system("exit 3") >> 8)
    t = threading.Thread(target=lambda: print("thread", steps(3))); t.start(); t.join()
    def fork_in_thread():
        pid = os.fork()
        if pid == 0: os._exit(5)
        print(os.waitpid(pid, 0)[1] >> 8)
    t = threading.Thread(target=fork_in_thread); t.start(); t.join()
    print(steps(3))
if __name__ == "__main__":
    main()
