"""Tasks share one connection of httpx; each request takes a fifth of a second.

Truth: {"expect": "healthy", "packages": ["httpx"]}
"""

import asyncio
import os

import httpx


async def serve(reader, writer):
    while await reader.readuntil(b"\r\n\r\n"):
        await asyncio.sleep(0.2)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx")


async def work(client, url):
    while True:
        await client.get(url)


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = "http://127.0.0.1:%d/" % server.sockets[0].getsockname()[1]
    async with httpx.AsyncClient(limits=httpx.Limits(max_connections=1), timeout=None) as client:
        print('{"pid": %d}' % os.getpid(), flush=True)
        await asyncio.gather(*(work(client, url) for n in range(4)))


asyncio.run(main())
