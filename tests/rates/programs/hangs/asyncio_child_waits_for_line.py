"""A coroutine waits for a line of a child that waits for a line of this process.

Truth: {"expect": "hang", "says": "waits for child processes|process \\d+", "statuses": [1, 5]}
"""

import asyncio
import os
import sys


async def main():
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "print('got', input(), flush=True)",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE)
    child.stdin.write(b"no line feed")
    await child.stdin.drain()
    print('{"pid": %d}' % os.getpid(), flush=True)
    print(await child.stdout.readline())


asyncio.run(main())
