"""Small metrics server of the group: takes rows over HTTP, writes them to SQLite when a run has ended."""
import argparse
import json
import os
import queue
import sqlite3
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

pending = queue.Queue(256)


class Handler(BaseHTTPRequestHandler):
    database = ""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/finish":
            self._write()
        else:
            pending.put((body["run"], body["step"], body["name"], body["value"]))
            if pending.full():
                self._write()
        self.send_response(204)
        self.end_headers()

    def _write(self):
        rows = []
        while not pending.empty():
            rows.append(pending.get())
        with sqlite3.connect(self.database) as db:
            db.execute("create table if not exists metrics (run, step, name, value)")
            db.executemany("insert into metrics values (?, ?, ?, ?)", rows)

    def log_message(self, *args):
        pass


def leave_with(parent):
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(0)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--port-file")
    p.add_argument("--db")
    a = p.parse_args()
    Handler.database = a.db
    threading.Thread(target=leave_with, args=(os.getppid(),), daemon=True).start()
    server = HTTPServer(("127.0.0.1", 0), Handler)
    with open(a.port_file + ".new", "w") as f:
        f.write(str(server.server_port))
    os.replace(a.port_file + ".new", a.port_file)
    server.serve_forever()


if __name__ == "__main__":
    main()
