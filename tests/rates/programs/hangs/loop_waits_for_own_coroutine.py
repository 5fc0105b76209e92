"""A callback in the loop's thread waits with result() for a coroutine that only this loop can run.

After empicano/aiomqtt#174.

Truth: {"expect": "hang", "says": "(loop|asyncio|coroutine)", "statuses": [1], "core": true}
"""

import asyncio
import os


async def token():
    return "secret"


def authenticate(loop):
    return asyncio.run_coroutine_threadsafe(token(), loop).result()


async def main():
    print('{"pid": %d}' % os.getpid(), flush=True)
    return authenticate(asyncio.get_running_loop())


asyncio.run(main())
