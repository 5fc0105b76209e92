"""asyncio.run() ends with an error and waits for a thread of to_thread(), which waits for a client of its socket.

After python/cpython#111358, where the thread sleeps.

Truth: {"expect": "hang", "says": "accept_one|accept|listen", "statuses": [5]}
"""

import asyncio
import os
import socket

server = socket.create_server(("127.0.0.1", 0))


def accept_one():
    return server.accept()


async def main():
    waiting = asyncio.create_task(asyncio.to_thread(accept_one))
    await asyncio.sleep(0.05)
    waiting.cancel()
    print('{"pid": %d}' % os.getpid(), flush=True)
    raise RuntimeError("stop")


asyncio.run(main())
