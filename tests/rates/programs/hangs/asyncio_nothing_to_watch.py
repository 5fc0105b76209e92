"""An asyncio loop without timers or descriptors; its only task waits for a future that nothing completes.

Truth: {"expect": "hang", "says": "loop|task|future", "statuses": [1], "core": true}
"""

import asyncio
import os


async def wait_for_reply(reply):
    return await reply


async def main():
    print('{"pid": %d}' % os.getpid(), flush=True)
    await wait_for_reply(asyncio.get_running_loop().create_future())


asyncio.run(main())
