"""Every task has one connection of an asyncio pool and acquires a second one, as long as none is given back.

After MagicStack/asyncpg#5, with a queue as the pool.

Truth: {"expect": "hang", "says": "queue|acquire|copy", "statuses": [1, 5], "core": true}
"""

import asyncio
import os


async def copy(pool):
    source = await pool.get()
    await asyncio.sleep(0.01)
    target = await pool.get()
    pool.put_nowait(source)
    pool.put_nowait(target)


async def main():
    pool = asyncio.Queue()
    for n in range(2):
        pool.put_nowait(n)
    print('{"pid": %d}' % os.getpid(), flush=True)
    await asyncio.gather(*(copy(pool) for _ in range(2)))


asyncio.run(main())
