"""`await process.wait()` with a pipe that nobody reads: the child cannot write, and so it does not end.

The documentation of asyncio.subprocess warns of it.

Truth: {"expect": "hang", "says": "pipe|child", "statuses": [1, 5]}
"""

import asyncio
import os
import sys


async def main():
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "print('x' * 10**6)", stdout=asyncio.subprocess.PIPE)
    print('{"pid": %d}' % os.getpid(), flush=True)
    await child.wait()


asyncio.run(main())
