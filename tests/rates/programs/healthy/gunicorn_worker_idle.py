"""gunicorn with one worker with threads and without a client; the worker is reported.

Truth: {"expect": "healthy", "packages": ["gunicorn"]}
"""

import os

from gunicorn.app.base import BaseApplication


class Application(BaseApplication):
    def load_config(self):
        self.cfg.set("bind", "127.0.0.1:0")
        self.cfg.set("threads", 4)
        self.cfg.set("loglevel", "critical")
        self.cfg.set("post_worker_init", lambda worker: print('{"pid": %d}' % os.getpid(), flush=True))

    def load(self):
        return lambda environ, start_response: []


Application().run()
