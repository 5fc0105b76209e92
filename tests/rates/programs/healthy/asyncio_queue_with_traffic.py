"""A producer and three consumers with an asyncio.Queue.

Truth: {"expect": "healthy"}
"""

import asyncio
import os


async def consume(queue):
    while True:
        await queue.get()
        queue.task_done()


async def main():
    queue = asyncio.Queue(5)
    consumers = [asyncio.create_task(consume(queue)) for _ in range(3)]
    print('{"pid": %d}' % os.getpid(), flush=True)
    while consumers:
        await queue.put(1)
        await asyncio.sleep(0.01)


asyncio.run(main())
