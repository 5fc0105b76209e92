"""A consumer of a trio channel waits for hours at most; its nursery is inside of the deadline.

Truth: {"expect": "healthy", "packages": ["trio"]}
"""

import os

import trio


async def consume(receiver):
    async for _ in receiver:
        pass


async def main():
    _, receiver = trio.open_memory_channel(0)
    with trio.move_on_after(3 * 3600):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(consume, receiver)
            print('{"pid": %d}' % os.getpid(), flush=True)


trio.run(main)
