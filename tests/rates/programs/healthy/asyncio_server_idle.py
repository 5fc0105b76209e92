"""An asyncio server without a client.

Truth: {"expect": "healthy"}
"""

import asyncio
import os


async def answer(reader, writer):
    writer.write(await reader.readline())
    writer.close()


async def main():
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print('{"pid": %d}' % os.getpid(), flush=True)
    await server.serve_forever()


asyncio.run(main())
