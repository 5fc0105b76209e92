"""A coroutine asks its own loop's server with a blocking socket, and so the server cannot answer.

Truth: {"expect": "hang", "says": "loop|health_check", "statuses": [1, 5]}
"""

import asyncio
import os
import socket


async def answer(reader, writer):
    writer.write(b"ok\n")
    writer.close()


def health_check(port):
    with socket.create_connection(("127.0.0.1", port)) as connection:
        return connection.recv(10)


async def main():
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print('{"pid": %d}' % os.getpid(), flush=True)
    health_check(server.sockets[0].getsockname()[1])


asyncio.run(main())
