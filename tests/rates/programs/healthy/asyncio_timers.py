"""An asyncio program with a task for each of several timers, the longest of ten minutes.

Truth: {"expect": "healthy"}
"""

import asyncio
import os


async def every(seconds):
    while True:
        await asyncio.sleep(seconds)


async def main():
    print('{"pid": %d}' % os.getpid(), flush=True)
    await asyncio.gather(*(every(seconds) for seconds in (0.3, 5, 600)))


asyncio.run(main())
