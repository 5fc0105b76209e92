"""A task of asyncio holds a lock of threads while it waits for a thread of to_thread(), which needs the lock.

Truth: {"expect": "hang", "says": "lock", "statuses": [1], "core": true}
"""

import asyncio
import os
import threading

lock = threading.Lock()


def save():
    with lock:
        return 1


def tell():
    print('{"pid": %d}' % os.getpid(), flush=True)


async def main():
    with lock:
        asyncio.get_running_loop().call_later(0.1, tell)
        await asyncio.to_thread(save)


asyncio.run(main())
