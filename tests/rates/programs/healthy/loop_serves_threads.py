"""Threads wait with result() for coroutines of a loop that runs in a thread of its own.

Truth: {"expect": "healthy"}
"""

import asyncio
import os
import threading

loop = asyncio.new_event_loop()


async def fetch():
    await asyncio.sleep(0.05)


def work():
    while True:
        asyncio.run_coroutine_threadsafe(fetch(), loop).result()


for n in range(2):
    threading.Thread(target=work, name=f"worker-{n}").start()
print('{"pid": %d}' % os.getpid(), flush=True)
loop.run_forever()
