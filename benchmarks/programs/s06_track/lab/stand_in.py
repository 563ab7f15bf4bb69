"""What the lab's tracking service does, on one's own machine."""
import argparse
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

rows = []
scan = threading.Semaphore(0)  # the virus scan's slots


class Handler(BaseHTTPRequestHandler):
    def answer(self, status, body=b"{}"):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/rows":
            rows.append(json.loads(body))
            self.answer(429 if len(rows) == 3 else 200)
        elif self.path == "/artifacts":
            scan.acquire()
            self.answer(201)
        else:
            self.answer(404)

    def log_message(self, text, *words):
        print(time.strftime("%H:%M:%S"), text % words, flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int)
    ThreadingHTTPServer(("127.0.0.1", parser.parse_args().port), Handler).serve_forever()
