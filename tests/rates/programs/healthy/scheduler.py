"""sched runs a job every two seconds; MainThread joins its thread.

Truth: {"expect": "healthy"}
"""

import os
import sched
import threading

scheduler = sched.scheduler()


def job():
    scheduler.enter(2, 1, job)


job()
threading.Thread(target=scheduler.run, name="scheduler").start()
print('{"pid": %d}' % os.getpid(), flush=True)
