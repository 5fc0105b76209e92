"""A client in asyncio has no timeout, and the server, another process of this machine, does not answer.

Truth: {"expect": "hang", "says": "127\\.0\\.0\\.1|process \\d+", "statuses": [5]}
"""

import asyncio
import os
import socket
import time

server = socket.create_server(("127.0.0.1", 0))
port = server.getsockname()[1]
if os.fork() == 0:
    connection, _ = server.accept()
    time.sleep(1e6)
server.close()


async def fetch():
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.0\r\n\r\n")
    await writer.drain()
    print('{"pid": %d}' % os.getpid(), flush=True)
    return await reader.read()


asyncio.run(fetch())
