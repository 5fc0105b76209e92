"""asyncio.Queue.join() waits for items whose consumer task ended with an error that nobody has seen.

Truth: {"expect": "hang", "says": "join|queue|unfinished", "statuses": [1, 5], "core": true}
"""

import asyncio
import os


async def consume(queue):
    while True:
        item = await queue.get()
        10 / item
        queue.task_done()


async def main():
    queue = asyncio.Queue()
    consumer = asyncio.create_task(consume(queue), name="consumer")
    for n in range(5):
        queue.put_nowait(n)
    print('{"pid": %d}' % os.getpid(), flush=True)
    await queue.join()
    consumer.cancel()


asyncio.run(main())
