import io, os, shlex, subprocess, sys, tempfile, textwrap, time

def sh(cmd, **kw):
    r = subprocess.run(cmd, shell=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kw)
    print(r.returncode, r.stdout, r.stderr)

sh("echo one; echo two >&2; exit 3")
sh(f"{shlex.quote(sys.executable)} -c 'import sys; sys.stderr.write(\"x\")'")
sh(f"{shlex.quote(sys.executable)} -c '1/0'")
sh(f"{shlex.quote(sys.executable)} -", input=b"print(__name__)\nimport os; os._exit(2)")
sh("cat", input=bytes(range(256)))
sh("kill -9 $$")
p = subprocess.Popen([sys.executable, "-u", "-c", "for l in iter(input, 'q'): print(l.upper())"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
for w in ("a", "b", "q"):
    p.stdin.write(w + "\n")
p.stdin.close(); print(p.stdout.read().split(), p.wait())
try:
    subprocess.run(["sleep", "30"], timeout=0.2)
except subprocess.TimeoutExpired as e:
    print(e.cmd)
try:
    subprocess.run(["does-not-exist-anywhere"])
except FileNotFoundError as e:
    print(e)
try:
    subprocess.run([sys.executable, "-c", "raise SystemExit(5)"], check=True)
except subprocess.CalledProcessError as e:
    print(e.returncode)
a = subprocess.Popen(["yes"], stdout=subprocess.PIPE); b = subprocess.Popen(["head", "-n", "2"], stdin=a.stdout, stdout=subprocess.PIPE)
a.stdout.close(); print(b.communicate()[0], a.wait())
print(subprocess.getoutput("ls nothing-here-at-all; echo $?").splitlines()[-1])
q = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
q.terminate(); print(q.wait())
print(subprocess.run([sys.executable, "-c", "import os; print(sorted(int(n) for n in os.listdir('/proc/self/fd') if int(n) < 100))"], stdout=subprocess.PIPE, close_fds=True).stdout)
with open("log.txt", "w") as log:
    subprocess.run(["sh", "-c", "echo to a file; echo and errors >&2"], stdout=log, stderr=subprocess.STDOUT)
print(open("log.txt").read())
