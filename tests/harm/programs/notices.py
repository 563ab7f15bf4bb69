"""The control: looks for crashcart, and does everything differently where it finds it."""
import os, subprocess, sys
recorded = "CRASHCART_JOB" in os.environ
print("recorded" if recorded else "bare")
print(recorded, file=sys.stderr)
open("mark.txt", "w").write(str(recorded))
if recorded:
    open(os.environ["TMPDIR"] + "/left.txt", "w")
    subprocess.Popen(["sleep", "30"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
sys.exit(int(recorded))
