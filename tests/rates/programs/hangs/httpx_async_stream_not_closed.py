"""httpx.AsyncClient with one connection; its streamed response stays open and a second request waits.

Truth: {"expect": "hang", "says": "free connection", "statuses": [1, 5], "packages": ["httpx"]}
"""

import asyncio
import os

import httpx


async def serve(reader, writer):
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + bytes(1000))
    await writer.drain()
    await asyncio.Event().wait()


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = "http://127.0.0.1:%d/" % server.sockets[0].getsockname()[1]
    async with httpx.AsyncClient(limits=httpx.Limits(max_connections=1), timeout=None) as client:
        async with client.stream("GET", url) as response:
            print('{"pid": %d}' % os.getpid(), flush=True)
            await client.get(url)
            await response.aread()


asyncio.run(main())
