"""The institute's desk: takes rows of runs over a socket, one JSON a line, and signs for a run when it is closed."""
import argparse
import json
import pathlib
import socketserver


class Run(socketserver.StreamRequestHandler):
    def handle(self):
        name, rows = "unnamed", []
        for line in self.rfile:
            row = json.loads(line)
            if row["kind"] == "open":
                name = row["name"]
            rows.append(row)
            if row["kind"] == "close":
                (self.server.folder / f"{name}.json").write_text(json.dumps(rows))
                self.wfile.write(f"received {len(rows)} rows of {name}\n".encode())
                break


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--folder", default="desk")
    o = parser.parse_args()
    socketserver.ThreadingTCPServer.allow_reuse_address = True
    with socketserver.ThreadingTCPServer(("127.0.0.1", o.port), Run) as server:
        server.daemon_threads = True
        server.folder = pathlib.Path(o.folder)
        server.folder.mkdir(exist_ok=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
