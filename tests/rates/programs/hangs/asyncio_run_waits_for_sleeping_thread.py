"""asyncio.run() is cancelled and waits for a thread of to_thread() that sleeps for hours.

After python/cpython#111358.

Truth: {"expect": "hang", "says": "blocking|sleep", "statuses": [5], "core": true}
"""

import asyncio
import os
import time


def blocking():
    time.sleep(20000)


async def main():
    asyncio.get_running_loop().call_later(0.05, asyncio.current_task().cancel)
    print('{"pid": %d}' % os.getpid(), flush=True)
    await asyncio.to_thread(blocking)


asyncio.run(main())
