import argparse, time
p = argparse.ArgumentParser(); p.add_argument("--every", type=float); p.add_argument("--file")
a = p.parse_args()
while True:
    with open(a.file, "w") as f:
        f.write(str(time.time()))
    time.sleep(a.every)
