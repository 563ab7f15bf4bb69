"""The board: one line in, one line back. Rows go to rows.jsonl, pictures to a folder."""
import argparse
import json
import os
import socketserver
import sys

p = argparse.ArgumentParser()
p.add_argument("--socket")
args = p.parse_args()
folder = os.path.dirname(args.socket)


class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        for n, line in enumerate(self.rfile):
            m = json.loads(line)
            if m["kind"] == "row":
                if n == 3:
                    print("WARNING row 3 came late, clock skew 4.1 s?", flush=True)
                with open(os.path.join(folder, "rows.jsonl"), "a") as f:
                    f.write(json.dumps(m["data"]) + "\n")
            else:
                with open(os.path.join(folder, m["name"] + ".txt"), "w") as f:
                    f.write(m["data"])
            self.wfile.write(b"ok\n")


if os.path.exists(args.socket):
    os.unlink(args.socket)
with socketserver.UnixStreamServer(args.socket, Handler) as server:
    print("board listens on", args.socket, "pid", os.getpid(), file=sys.stderr, flush=True)
    server.serve_forever()
