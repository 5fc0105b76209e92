"""Two tasks of trio acquire two locks in different orders.

Truth: {"expect": "hang", "says": "tasks wait for each other", "never": "asyncio", "statuses": [1], "packages": ["trio"]}
"""

import os

import trio


async def transfer(first, second):
    async with first:
        await trio.sleep(0.05)
        async with second:
            pass


async def main():
    accounts, journal = trio.Lock(), trio.Lock()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(transfer, accounts, journal)
        nursery.start_soon(transfer, journal, accounts)
        await trio.sleep(0.1)
        print('{"pid": %d}' % os.getpid(), flush=True)


trio.run(main)
