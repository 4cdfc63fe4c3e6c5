"""Run a command that reaches a Unix socket as a port of this machine, inside a sandbox.

    python forward.py SOCKET PORT COMMAND...

Build tools speak HTTP over TCP alone. Runs on CPython 3.8 and later.
"""

import socket
import subprocess
import sys
import threading


def copy(source: socket.socket, target: socket.socket) -> None:
    """Copy one direction of a connection to its end."""
    try:
        while True:
            data = source.recv(1 << 16)
            if not data:
                break
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        # The other side has gone: neither direction has a use.
        source.close()
        target.close()


def forward(listening: socket.socket, path: str) -> None:
    """Connect each client of a port with the socket."""
    while True:
        client = listening.accept()[0]
        server = socket.socket(socket.AF_UNIX)
        server.connect(path)
        for pair in ((client, server), (server, client)):
            threading.Thread(target=copy, args=pair, daemon=True).start()


if __name__ == "__main__":
    place, port, *command = sys.argv[1:]
    listener = socket.create_server(("127.0.0.1", int(port)), backlog=64)
    threading.Thread(target=forward, args=(listener, place), daemon=True).start()
    sys.exit(subprocess.call(command))
