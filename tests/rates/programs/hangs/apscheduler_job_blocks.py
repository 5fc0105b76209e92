"""A job of apscheduler waits for an Event of a later job, which waits in the executor's queue behind it.

After agronholm/apscheduler#157, in which shutdown() waits for a job that hangs.

Truth: {"expect": "hang", "says": "pool|worker|wait_for_import|executor", "statuses": [1, 5], "packages": ["apscheduler"]}
"""

import os
import threading
import time

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler

imported = threading.Event()


def wait_for_import():
    imported.wait()


def import_data():
    imported.set()


scheduler = BackgroundScheduler(executors={"default": ThreadPoolExecutor(1)})
scheduler.start()
scheduler.add_job(wait_for_import)
time.sleep(0.1)
scheduler.add_job(import_data)
time.sleep(0.1)
print('{"pid": %d}' % os.getpid(), flush=True)
scheduler.shutdown()
