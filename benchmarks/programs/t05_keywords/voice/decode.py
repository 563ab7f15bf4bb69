"""Decoder: a path on each line of the input, the samples as JSON on each line of the output."""
import base64
import json
import struct
import sys


def main():
    for line in sys.stdin:
        path = line.strip()
        with open(path, "rb") as f:
            raw = base64.b64decode(f.read())
        samples = struct.unpack(f"<{len(raw) // 2}h", raw)
        loud = sum(abs(s) >= 2047 for s in samples)
        if loud:
            print(f"[decode @ {id(raw):#x}] {path}: {loud} samples at full scale, signal is clipped", file=sys.stderr)
        print(json.dumps(samples), flush=True)


if __name__ == "__main__":
    main()
