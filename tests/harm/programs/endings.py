"""All the ways in which a program ends on purpose: python endings.py HOW"""
import atexit, os, signal, sys, threading, time

def main(how):
    atexit.register(print, "atexit: first registered, last to run")
    atexit.register(lambda: print("atexit: cleaning up", file=sys.stderr))
    print("working on", how)
    print("so far so good", file=sys.stderr)
    if how == "exit-3": sys.exit(3)
    if how == "exit-text": sys.exit("nothing more to do: all 10 epochs are done")
    if how == "exit-none": sys.exit()
    if how == "exit-300": sys.exit(300)
    if how == "os-exit": os._exit(4)
    if how == "os-exit-flushed":
        sys.stdout.flush(); os._exit(5)
    if how == "exception": raise RuntimeError("on purpose\nwith two lines")
    if how == "chained":
        try: {}["key"]
        except KeyError as e: raise ValueError("no such key") from e
    if how == "group": raise BaseException("not even an Exception")
    if how == "sigterm":
        sys.stdout.flush(); os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)
    if how == "sigkill":
        sys.stdout.flush(); os.kill(os.getpid(), signal.SIGKILL); time.sleep(60)
    if how == "sigkill-unflushed": os.kill(os.getpid(), signal.SIGKILL); time.sleep(60)
    if how == "abort":
        sys.stdout.flush(); os.abort()
    if how == "interrupt": signal.raise_signal(signal.SIGINT); time.sleep(60)
    if how == "keyboard": raise KeyboardInterrupt
    if how == "handler":
        def save(number, frame):
            with open("saved.txt", "w") as f: f.write(f"{signal.Signals(number).name} in {frame.f_code.co_name}\n")
            sys.exit(0)
        signal.signal(signal.SIGTERM, save)
        os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)
    if how == "thread-exit":
        t = threading.Thread(target=sys.exit, args=(9,)); t.start(); t.join()
        t = threading.Thread(target=lambda: 1 / 0, name="worker-7"); t.start(); t.join()
        threading.Thread(target=lambda: (time.sleep(0.3), print("a thread ends last"))).start()
    if how == "daemon-thread":
        threading.Thread(target=lambda: time.sleep(100), daemon=True).start()
    if how == "excepthook":
        sys.excepthook = lambda kind, value, trace: print("my own hook:", kind.__name__, value, trace.tb_lineno)
        threading.excepthook = lambda args: print("my thread hook:", args.exc_type.__name__, args.thread.name)
        t = threading.Thread(target=lambda: [].pop(), name="T"); t.start(); t.join()
        1 / 0
    if how == "unraisable":
        class Bad:
            def __del__(self): raise OSError("in a destructor")
        sys.unraisablehook = lambda args: print("unraisable", args.exc_type.__name__, args.exc_value, args.err_msg and args.err_msg[:17])
        Bad()
        atexit.register(lambda: 1 / 0)
    if how == "default-hooks":
        print(sys.excepthook is sys.__excepthook__, threading.excepthook is getattr(threading, "__excepthook__", threading.excepthook), sys.unraisablehook is sys.__unraisablehook__)
        print(sys.gettrace(), sys.getprofile(), threading.active_count(), sys.getswitchinterval(), sys.getrecursionlimit())
    if how == "recursion":
        def f(n): return f(n + 1)
        try: f(0)
        except RecursionError as e: print(e)
        def g(n): return g(n + 1)
        g(0)

main(sys.argv[1])
