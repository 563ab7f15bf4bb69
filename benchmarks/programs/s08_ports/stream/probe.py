import logging
import socket
import time


def reachable(address, tries=3):
    host, _, port = address.partition(":")
    for n in range(tries):
        try:
            socket.create_connection((host, int(port)), 1).close()
            return True
        except OSError as problem:
            logging.warning("board at %s: %s (try %d of %d)", address, problem, n + 1, tries)
            time.sleep(0.2)
    logging.warning("going on without the remote board")
    return False
