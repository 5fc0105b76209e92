"""A uvicorn server without a client.

Truth: {"expect": "healthy", "packages": ["uvicorn"]}
"""

import asyncio
import os

import uvicorn


async def app(scope, receive, send):
    pass


async def main():
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="critical", lifespan="off"))
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    print('{"pid": %d}' % os.getpid(), flush=True)
    await serving


asyncio.run(main())
