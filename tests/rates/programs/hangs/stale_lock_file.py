"""A lock file was left behind by a killed build; the next build polls every 50 ms for its end.

After pytorch/pytorch#189245.

Truth: {"expect": "hang", "says": "wait_for_other_build|stale\\.lock", "statuses": [5]}
"""

import os
import time

LOCK = "stale.lock"
open(LOCK, "w").close()


def wait_for_other_build():
    while os.path.exists(LOCK):
        time.sleep(0.05)


print('{"pid": %d}' % os.getpid(), flush=True)
wait_for_other_build()
