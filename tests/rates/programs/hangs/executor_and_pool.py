"""All workers of asyncio's executor wait for a connection; the tasks that would return one wait for a worker.

Truth: {"expect": "hang", "says": "pool|executor|worker|queue", "statuses": [1], "core": true}
"""

import asyncio
import os
import queue
from concurrent.futures import ThreadPoolExecutor

connections = queue.Queue()
for n in range(2):
    connections.put(n)


async def request(loop, executor):
    connection = await loop.run_in_executor(executor, connections.get)
    await loop.run_in_executor(executor, connections.put, connection)


async def main():
    executor = ThreadPoolExecutor(4)
    print('{"pid": %d}' % os.getpid(), flush=True)
    await asyncio.gather(*(request(asyncio.get_running_loop(), executor) for _ in range(20)))


asyncio.run(main())
