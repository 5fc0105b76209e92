"""An aiohttp server without a client.

Truth: {"expect": "healthy", "packages": ["aiohttp"]}
"""

import asyncio
import os

from aiohttp import web


async def main():
    runner = web.AppRunner(web.Application())
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print('{"pid": %d}' % os.getpid(), flush=True)
    await asyncio.Event().wait()


asyncio.run(main())
