"""The only worker of celery, with the pool "solo", runs a task which waits for the result of another task.

After celery/celery#3498 and the warning in celery's guide.

Truth: {"expect": "hang", "says": "celery|task|outer|poll", "statuses": [1, 5], "packages": ["celery"]}
"""

import os
import sys

from celery import Celery
from celery.result import allow_join_result

os.makedirs("queue", exist_ok=True)
os.makedirs("results", exist_ok=True)
app = Celery("tasks", broker="filesystem://", backend="file://results")
app.conf.broker_transport_options = {name: "queue" for name in ("data_folder_in", "data_folder_out", "control_folder")}


@app.task
def inner():
    return 1


@app.task
def outer():
    print('{"pid": %d}' % os.getpid(), file=sys.__stdout__, flush=True)
    with allow_join_result():
        return inner.delay().get()


outer.delay()
app.Worker(pool="solo", loglevel="critical", quiet=True, without_mingle=True, without_gossip=True,
           without_heartbeat=True).start()
