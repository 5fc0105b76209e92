"""Each of three tasks has a permit of an asyncio.Semaphore(3) and waits for a second one, while a server runs.

Truth: {"expect": "hang", "says": "semaphore|download", "statuses": [1, 5], "core": true}
"""

import asyncio
import os


async def answer(reader, writer):
    writer.close()


async def download(limit, depth):
    async with limit:
        await asyncio.sleep(0)
        if depth:
            await download(limit, depth - 1)


async def main():
    await asyncio.start_server(answer, "127.0.0.1", 0)
    limit = asyncio.Semaphore(3)
    print('{"pid": %d}' % os.getpid(), flush=True)
    await asyncio.gather(*(download(limit, 1) for _ in range(3)))


asyncio.run(main())
