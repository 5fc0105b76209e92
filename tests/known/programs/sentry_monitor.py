"""A thread is in the monitor of Sentry while another one forks; ``alike``: the program's own lock is copied instead."""
import json
import os
import sys
import threading

import sentry_sdk
from sentry_sdk.transport import Transport


class Quiet(Transport):
    def capture_envelope(self, envelope):
        pass


def hold(lock):
    with lock:
        held.set()
        done.wait()


own = threading.Lock()
held, done = threading.Event(), threading.Event()
alike = sys.argv[1:] == ["alike"]
sentry_sdk.init(dsn="https://public@example.invalid/1", transport=Quiet, traces_sample_rate=1.0)
lock = own if alike else sentry_sdk.get_client().monitor._thread_lock
threading.Thread(target=hold, args=(lock,), daemon=True).start()
held.wait()
child = os.fork()
if child == 0:
    if alike:
        with own:
            pass
    with sentry_sdk.start_transaction(name="job"):
        pass
    os._exit(0)
print(json.dumps({"pid": child}), flush=True)
done.set()
os.waitpid(child, 0)
