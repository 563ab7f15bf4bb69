"""Passes connections on to a host behind the depot's firewall. A host that is away is tried again and again."""
import argparse
import socket
import threading
import time


def pump(a, b):
    try:
        while data := a.recv(65536):
            b.sendall(data)
    except OSError:
        pass
    finally:
        a.close()
        b.close()


def serve(client, host, port):
    while True:
        try:
            far = socket.create_connection((host, port), 5)
            break
        except OSError as problem:
            print("no way through to", host, port, problem, flush=True)
            time.sleep(15)
    far.settimeout(None)
    threading.Thread(target=pump, args=(client, far), daemon=True).start()
    pump(far, client)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--listen", type=int)
    parser.add_argument("--to")
    options = parser.parse_args()
    host, _, port = options.to.partition(":")
    listener = socket.create_server(("127.0.0.1", options.listen))
    while True:
        client, _ = listener.accept()
        threading.Thread(target=serve, args=(client, host, int(port)), daemon=True).start()


if __name__ == "__main__":
    main()
