"""A client with a limit of one connection keeps a response unread, and its next request waits for a connection.

After aio-libs/aiohttp#2217.

Truth: {"expect": "hang", "says": "aiohttp|connect|client|task", "statuses": [1, 5], "packages": ["aiohttp"]}
"""

import asyncio
import os

import aiohttp
from aiohttp import web


async def big(request):
    return web.Response(body=bytes(10**7))


async def client(port):
    timeout = aiohttp.ClientTimeout(total=None)
    connector = aiohttp.TCPConnector(limit=1)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        first = await session.get(f"http://127.0.0.1:{port}/")
        print('{"pid": %d}' % os.getpid(), flush=True)
        second = await session.get(f"http://127.0.0.1:{port}/")
        return first, second


async def main():
    app = web.Application()
    app.router.add_get("/", big)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    await client(runner.addresses[0][1])


asyncio.run(main())
