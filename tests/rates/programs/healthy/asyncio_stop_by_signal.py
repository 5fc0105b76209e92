"""An asyncio service that waits for the Event of its handler of SIGTERM, with a server beside.

Truth: {"expect": "healthy"}
"""

import asyncio
import os
import signal


async def answer(reader, writer):
    writer.close()


async def main():
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await asyncio.start_server(answer, "127.0.0.1", 0)
    print('{"pid": %d}' % os.getpid(), flush=True)
    await stop.wait()


asyncio.run(main())
