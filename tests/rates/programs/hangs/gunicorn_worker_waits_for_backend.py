"""gunicorn with one worker: its only thread waits for a backend which does not answer. The arbiter is reported.

After benoitc/gunicorn#1655.

Truth: {"expect": "hang", "says": "child|worker|process \\d+|page|127\\.0\\.0\\.1", "statuses": [5], "packages": ["gunicorn", "requests"]}
"""

import os
import socket
import threading
import time

import requests
from gunicorn.app.base import BaseApplication

backend = socket.create_server(("127.0.0.1", 0))
arbiter = os.getpid()


def page(environ, start_response):
    print('{"pid": %d}' % arbiter, flush=True)
    requests.get(f"http://127.0.0.1:{backend.getsockname()[1]}/data")


class Application(BaseApplication):
    def load_config(self):
        self.cfg.set("bind", "127.0.0.1:0")
        self.cfg.set("timeout", 0)
        self.cfg.set("when_ready", started)
        self.cfg.set("loglevel", "critical")

    def load(self):
        return page


def ask(port):
    time.sleep(0.3)
    socket.create_connection(("127.0.0.1", port)).sendall(b"GET / HTTP/1.0\r\n\r\n")
    threading.Event().wait()


def started(arbiter):
    if os.fork() == 0:
        ask(arbiter.LISTENERS[0].sock.getsockname()[1])


Application().run()
