"""apscheduler with a job every hour, and MainThread in a loop of sleeps.

Truth: {"expect": "healthy", "packages": ["apscheduler"]}
"""

import os
import time

from apscheduler.schedulers.background import BackgroundScheduler

scheduler = BackgroundScheduler()
scheduler.add_job(print, "interval", hours=1)
scheduler.start()
print('{"pid": %d}' % os.getpid(), flush=True)
while True:
    time.sleep(2)
