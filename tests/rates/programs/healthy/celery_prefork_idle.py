"""The worker processes of celery wait for tasks, and the main one for messages of the broker.

Truth: {"expect": "healthy", "packages": ["celery"]}
"""

import json
import os
import threading
import time

from celery import Celery

# celery greets on the standard output
output = os.dup(1)
os.dup2(2, 1)
app = Celery("tasks", broker="memory://", backend="cache+memory://")


@app.task
def add(x, y):
    return x + y


def parent_of(pid):
    try:
        return int(open(f"/proc/{pid}/stat").read().rpartition(") ")[2].split()[1])
    except OSError:
        return None


def tell():
    time.sleep(3)
    workers = [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and parent_of(pid) == os.getpid()]
    os.write(output, (json.dumps({"pid": min(workers)}) + "\n").encode())


threading.Thread(target=tell, daemon=True).start()
app.worker_main(["worker", "--pool=prefork", "--concurrency=2", "--loglevel=critical", "--without-gossip",
                 "--without-mingle", "--without-heartbeat"])
