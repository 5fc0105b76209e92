"""bpo-31233: `socketserver` with threads that wait for their clients, which take their time.

The handlers are in `recv`, the clients have a turn lock among themselves and mostly sleep.

Truth: {"expect": "healthy"}
"""

import socket
import socketserver
import threading
import time

from tests.precision.programs import scene

turn = threading.Lock()


class Echo(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        for line in self.rfile:
            self.wfile.write(line)


def talk(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as connection, connection.makefile("rwb", 0) as file:
        while not scene.stopping.is_set():
            with turn:
                file.write(b"hello\n")
                assert file.readline() == b"hello\n"
                time.sleep(0.002)


if __name__ == "__main__":
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Echo) as server:
        server.daemon_threads = True
        scene.thread("server", server.serve_forever)
        clients = [scene.thread(f"client-{number}", talk, server.server_address[1]) for number in range(6)]
        with scene.until_told():
            scene.ready()
            for client in clients:
                client.join()
        for client in clients:
            client.join()
        server.shutdown()
