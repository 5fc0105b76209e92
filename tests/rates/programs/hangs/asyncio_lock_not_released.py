"""A task was cancelled between acquire() and its try block and so left an asyncio.Lock locked; all others wait.

Truth: {"expect": "hang", "says": "lock|write", "statuses": [1, 5], "core": true}
"""

import asyncio
import os


async def write(lock, prepare):
    await lock.acquire()
    await prepare
    try:
        pass
    finally:
        lock.release()


async def main():
    loop, lock = asyncio.get_running_loop(), asyncio.Lock()
    first = asyncio.create_task(write(lock, loop.create_future()))
    await asyncio.sleep(0)
    first.cancel()
    print('{"pid": %d}' % os.getpid(), flush=True)
    await asyncio.gather(*(asyncio.create_task(write(lock, asyncio.sleep(0)), name=f"write-{n}") for n in range(3)))


asyncio.run(main())
