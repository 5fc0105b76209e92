"""bpo-31233: `ThreadingHTTPServer`, a thread for each request, with clients of its own.

Truth: {"expect": "healthy"}
"""

import http.client
import http.server
import threading

from tests.precision.programs import scene

hits = 0
lock = threading.Lock()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        global hits
        with lock:
            hits += 1
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, format: str, *arguments: object) -> None:
        pass


class Server(http.server.ThreadingHTTPServer):
    # with the five of the class a connection may be refused while the program is stopped, and tries again after 30 s
    request_queue_size = 128


def ask(port: int) -> None:
    while not scene.stopping.is_set():
        connection = http.client.HTTPConnection("127.0.0.1", port)
        connection.request("GET", "/")
        assert connection.getresponse().read() == b"ok"
        connection.close()
        scene.stopping.wait(0.003)


if __name__ == "__main__":
    with Server(("127.0.0.1", 0), Handler) as server:
        clients = [scene.thread(f"client-{number}", ask, server.server_address[1]) for number in range(4)]
        serving = scene.thread("server", server.serve_forever)
        with scene.until_told():
            scene.ready()
            # the program's life is that of its server
            serving.join()
        for client in clients:
            client.join()
        server.shutdown()
