"""An asyncio program whose only timer runs for half an hour.

Truth: {"expect": "healthy"}
"""

import asyncio
import os


async def main():
    print('{"pid": %d}' % os.getpid(), flush=True)
    while True:
        await asyncio.sleep(1800)


asyncio.run(main())
