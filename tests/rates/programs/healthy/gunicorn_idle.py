"""gunicorn with two sync workers and without a client; the arbiter is reported.

Truth: {"expect": "healthy", "packages": ["gunicorn"]}
"""

import os

from gunicorn.app.base import BaseApplication


class Application(BaseApplication):
    def load_config(self):
        self.cfg.set("bind", "127.0.0.1:0")
        self.cfg.set("workers", 2)
        self.cfg.set("loglevel", "critical")
        self.cfg.set("when_ready", lambda arbiter: print('{"pid": %d}' % os.getpid(), flush=True))

    def load(self):
        return lambda environ, start_response: []


Application().run()
