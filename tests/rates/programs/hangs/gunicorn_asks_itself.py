"""A gunicorn with one sync worker runs a view which asks the same server; the worker's timeout is off.

After benoitc/gunicorn#2956, where requests to the own server wait.

Truth: {"expect": "hang", "says": "view|page|itself|own|this process|worker", "statuses": [1, 5], "packages": ["gunicorn", "requests"]}
"""

import os
import threading
import time

import requests
from gunicorn.app.base import BaseApplication


def page(environ, start_response):
    if environ["PATH_INFO"] == "/page":
        print('{"pid": %d}' % os.getpid(), flush=True)
        requests.get(f"http://127.0.0.1:{environ['SERVER_PORT']}/part")
    start_response("200 OK", [("Content-Length", "0")])
    return [b""]


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
    requests.get(f"http://127.0.0.1:{port}/page")


def started(arbiter):
    threading.Thread(target=ask, args=(arbiter.LISTENERS[0].sock.getsockname()[1],), daemon=True).start()


Application().run()
