"""Everything that can be done to an output stream: python outputs.py KIND"""
import os, sys, time
kind = sys.argv[1]
if kind == "huge":
    line = "x" * 120
    for i in range(60000):
        print(i, line)
    sys.stderr.write("e" * 1_000_000 + "\n")
elif kind == "binary":
    for i in range(256):
        sys.stdout.buffer.write(bytes(range(256)))
    sys.stdout.flush()
    os.write(2, b"\xff\xfe\x00 not utf-8 \x80\r\n\r\r\n" + bytes(range(256)))
    os.write(1, b"no newline at the end")
elif kind == "progress":
    for i in range(101):
        print(f"\r{i:3d}% |{'#' * (i // 5):20}|", end="", flush=True); time.sleep(0.002)
    print("\r\033[K\033[32mdone\033[0m")
    for i in range(5):
        sys.stderr.write(f"\rstep {i}"); sys.stderr.flush()
elif kind == "closed":
    sys.stdout.close()
    try: print("never seen")
    except ValueError as e: sys.stderr.write(f"{e}\n")
    os.close(2)
    open("log.txt", "w").write("still writing")
elif kind == "redirected":
    import contextlib, io
    with contextlib.redirect_stdout(io.StringIO()) as s: print("hidden")
    print(len(s.getvalue()))
    saved = os.dup(1); f = os.open("captured.txt", os.O_CREAT | os.O_WRONLY, 0o640)
    sys.stdout.flush(); os.dup2(f, 1); print("in the file"); os.system("echo from a child"); sys.stdout.flush(); os.dup2(saved, 1)
    class Tee:
        def __init__(self, *s): self.s = s
        def write(self, t): [s.write(t) for s in self.s]
        def flush(self): [s.flush() for s in self.s]
    with open("tee.txt", "w") as t:
        sys.stdout = Tee(sys.__stdout__, t); print("both"); sys.stdout = sys.__stdout__
    sys.stdout.reconfigure(encoding="latin-1", errors="replace", newline="\r\n"); print("ä€")
    sys.stdout = os.fdopen(1, "w", 64, encoding="utf-8", closefd=False); print("é" * 100)
elif kind == "refused":
    # what cannot be written is an error of the line that prints it
    import traceback
    sys.stdout.reconfigure(encoding="ascii")
    for what in ("temp\xe9rature", 3.5):
        try: sys.stdout.write(what)
        except (UnicodeEncodeError, TypeError): traceback.print_exc()
    try: print("loss \u2193")
    except UnicodeEncodeError as e: print(e, len(traceback.extract_tb(e.__traceback__)))
    print("temp\xe9rature")  # not caught
elif kind == "stream":
    import io
    print(sys.stdout, type(sys.stdout), isinstance(sys.stdout, io.TextIOWrapper), sys.stdout is sys.__stdout__, sys.stdout.name, sys.stdout.newlines)
elif kind == "empty":
    pass
elif kind == "nonblocking":
    import fcntl
    print(fcntl.fcntl(1, fcntl.F_GETFL) & (os.O_NONBLOCK | os.O_ACCMODE), fcntl.fcntl(0, fcntl.F_GETFL) & (os.O_NONBLOCK | os.O_ACCMODE))
elif kind == "order":
    # to one pipe: what comes first must stay first
    os.dup2(1, 2)
    for i in range(50):
        print("out", i)
        print("err", i, file=sys.stderr)
        if i % 10 == 0: os.system(f"echo shell {i}")
elif kind == "stdin":
    print(sys.stdin.isatty())
    name = input("name? "); age = int(input())
    print(f"hello {name}, {age + 1}")
    print([line.rstrip() for line in sys.stdin])
    try: input()
    except EOFError as e: print("EOF", e)
elif kind == "eof":
    try: input("anybody there? ")
    except EOFError: print("nobody"); sys.exit(2)
elif kind == "interrupted":
    for prompt in ("first > ", "second > "):
        try: print("got", repr(input(prompt)))
        except KeyboardInterrupt: print("interrupted"); sys.exit(7)
        except EOFError: print("end of file")
elif kind == "ask":
    print([os.isatty(n) for n in range(3)], os.get_terminal_size(), os.ttyname(0)[:4])
    while (a := input("say > ")) != "quit": print("you said", a)
    import getpass
    print(len(getpass.getpass("secret > ")))
