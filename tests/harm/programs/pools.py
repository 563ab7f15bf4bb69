"""Many processes without torch; for every Python from 3.8 on."""
import concurrent.futures
import multiprocessing as mp
import os
import queue
import subprocess
import sys
import threading
import traceback


def square(x):
    return x * x


def fails(x):
    if x == 3:
        raise ValueError("three")
    return x


def child(q, depth):
    if depth:
        p = mp.Process(target=child, args=(q, depth - 1))
        p.start()
        p.join()
        q.put(("joined", depth, p.exitcode))
    else:
        q.put(("leaf", mp.current_process().name.count(":") >= 0))


def exits(code):
    if code == "raise":
        raise KeyError("raised in a process")
    if code == "os":
        os._exit(9)
    sys.exit(code)


def locked(counter, lock):
    for _ in range(50):
        with lock:
            counter.value += 1


def main():
    print(sys.version_info[:2], sys.implementation.name)
    with mp.Pool(3) as pool:
        print(pool.map(square, range(10)), sum(pool.imap_unordered(square, range(100))))
        try:
            pool.map(fails, range(5))
        except ValueError:
            print(traceback.format_exc())
    for method in ("spawn", "forkserver"):
        context = mp.get_context(method)
        with context.Pool(2) as pool:
            print(method, pool.starmap(pow, [(2, 3), (3, 2)]))
    with concurrent.futures.ProcessPoolExecutor(2) as executor:
        print(list(executor.map(square, range(5))))
        try:
            executor.submit(fails, 3).result()
        except ValueError as e:
            print(repr(e), type(e.__cause__).__name__)
    with concurrent.futures.ProcessPoolExecutor(1) as executor:
        try:
            executor.submit(exits, "os").result()
        except concurrent.futures.process.BrokenProcessPool as e:
            print(e)
    with concurrent.futures.ThreadPoolExecutor(4) as executor:
        print(sorted(executor.map(square, range(5))))
    context = mp.get_context("fork")
    q = context.Queue()
    mp.set_start_method("fork", force=True)
    p = context.Process(target=child, args=(q, 3))
    p.start(); p.join()
    print(sorted(q.get() for _ in range(4)))
    for code in (0, 5, "text", "raise", "os"):
        sys.stdout.flush(); sys.stderr.flush()
        p = context.Process(target=exits, args=(code,), name="P")
        p.start(); p.join()
        print(code, p.exitcode)
    counter, lock = context.Value("i", 0), context.Lock()
    ps = [context.Process(target=locked, args=(counter, lock)) for _ in range(3)]
    [p.start() for p in ps]; [p.join() for p in ps]
    print(counter.value)
    with mp.Manager() as manager:
        d = manager.dict(a=1); d["b"] = 2
        print(dict(d))
    p = context.Process(target=threading.Event().wait, daemon=True)
    p.start(); p.terminate(); p.join(); print(p.exitcode)
    work = queue.Queue()
    t = threading.Thread(target=lambda: [work.put(i) for i in range(3)]); t.start(); t.join()
    print([work.get() for _ in range(3)])
    print(subprocess.run([sys.executable, "-c", "import sys; print(sys.argv); sys.exit(2)", "a"], stdout=subprocess.PIPE).returncode)
    print(subprocess.check_output([sys.executable, "-c", "print(6*7)"], env={}))
    try:
        import numpy
        print(numpy.random.RandomState(0).rand(3).tolist())
    except ImportError:
        print("no numpy")


if __name__ == "__main__":
    main()
