"""MainThread waits in select for a pipe that only this process writes, and no other thread is left.

Truth: {"expect": "hang", "says": "pipe", "statuses": [1]}
"""

import os
import select

reading, writing = os.pipe()
print('{"pid": %d}' % os.getpid(), flush=True)
select.select([reading], [], [])
