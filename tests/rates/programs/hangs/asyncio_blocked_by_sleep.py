"""A coroutine calls time.sleep() with the pause that an API asked for, and the loop serves nobody.

Truth: {"expect": "hang", "says": "loop.*(call_api|sleep)|(call_api|sleep).*loop", "statuses": [5], "core": true}
"""

import asyncio
import os
import time


async def answer(reader, writer):
    writer.close()


def call_api():
    time.sleep(600)


async def main():
    await asyncio.start_server(answer, "127.0.0.1", 0)
    print('{"pid": %d}' % os.getpid(), flush=True)
    call_api()


asyncio.run(main())
