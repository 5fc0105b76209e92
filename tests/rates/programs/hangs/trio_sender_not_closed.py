"""A consumer waits for the end of a trio channel, of which a clone was never closed; a server's task lives on.

After python-trio/trio#719.

Truth: {"expect": "hang", "says": "channel|receive|consume", "statuses": [1, 5], "packages": ["trio"]}
"""

import os

import trio


async def consume(receiver):
    async for _ in receiver:
        pass


async def produce(sender):
    async with sender.clone() as own:
        await own.send(1)


async def main():
    sender, receiver = trio.open_memory_channel(0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(consume, receiver)
        nursery.start_soon(produce, sender)
        await trio.sleep(0.05)
        print('{"pid": %d}' % os.getpid(), flush=True)


trio.run(main)
