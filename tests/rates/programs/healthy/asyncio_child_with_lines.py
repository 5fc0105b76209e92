"""An asyncio program reads the lines of a child, one every 100 ms.

Truth: {"expect": "healthy"}
"""

import asyncio
import os
import sys

TICK = "import time\nwhile True: print('tick', flush=True); time.sleep(0.1)"


async def main():
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", TICK, stdout=asyncio.subprocess.PIPE)
    print('{"pid": %d}' % os.getpid(), flush=True)
    async for _ in child.stdout:
        pass


asyncio.run(main())
