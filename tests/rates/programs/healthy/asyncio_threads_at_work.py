"""An asyncio program that reads files in the threads of its executor.

Truth: {"expect": "healthy"}
"""

import asyncio
import os
import time


def read():
    time.sleep(0.05)


async def main():
    print('{"pid": %d}' % os.getpid(), flush=True)
    while True:
        await asyncio.gather(*(asyncio.to_thread(read) for _ in range(4)))


asyncio.run(main())
