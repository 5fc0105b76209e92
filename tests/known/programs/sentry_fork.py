"""A thread is in Sentry's ``monitor``, or adds to its ``logs``, while another one forks; the argument says which.

``alike``: the program's own lock is copied instead.
"""
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


what, alike = sys.argv[1], sys.argv[2:] == ["alike"]
own = threading.Lock()
held, done = threading.Event(), threading.Event()
sentry_sdk.init(dsn="https://public@example.invalid/1", transport=Quiet, traces_sample_rate=1.0, enable_logs=True)
client = sentry_sdk.get_client()
lock = own if alike else client.monitor._thread_lock if what == "monitor" else client.log_batcher._lock
threading.Thread(target=hold, args=(lock,), daemon=True).start()
held.wait()
child = os.fork()
if child == 0:
    if alike:
        with own:
            pass
    if what == "monitor":
        with sentry_sdk.start_transaction(name="job"):
            pass
    else:
        sentry_sdk.logger.info("in the child")
    os._exit(0)
print(json.dumps({"pid": child}), flush=True)
done.set()
os.waitpid(child, 0)
