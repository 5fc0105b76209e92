"""Like `tail -f`: polls a file for new lines every 100 ms.

Truth: {"expect": "healthy"}
"""

import os
import time

print('{"pid": %d}' % os.getpid(), flush=True)
with open("app.log", "w+") as log:
    while True:
        if not log.readline():
            time.sleep(0.1)
