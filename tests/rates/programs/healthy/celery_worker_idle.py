"""A celery worker with the pool "solo" polls a queue without tasks.

Truth: {"expect": "healthy", "packages": ["celery"]}
"""

import os
import sys

from celery import Celery
from celery.signals import worker_ready

os.makedirs("queue", exist_ok=True)
app = Celery("tasks", broker="filesystem://")
app.conf.broker_transport_options = {name: "queue" for name in ("data_folder_in", "data_folder_out", "control_folder")}


@worker_ready.connect
def ready(**kwargs):
    print('{"pid": %d}' % os.getpid(), file=sys.__stdout__, flush=True)


app.Worker(pool="solo", loglevel="critical", quiet=True, without_mingle=True, without_gossip=True,
           without_heartbeat=True).start()
