"""asyncio.run() is at its end and waits for its executor, whose thread waits for a queue that nobody fills.

After jaredrhod/backtalk#24. Since Python 3.12 the loop waits for five minutes only; then the interpreter waits, forever.

Truth: {"expect": "hang", "says": "consume|queue", "statuses": [1, 5], "core": true}
"""

import asyncio
import os
import queue

rows = queue.Queue()


def consume():
    return rows.get()


async def main():
    asyncio.get_running_loop().run_in_executor(None, consume)
    await asyncio.sleep(0.05)
    print('{"pid": %d}' % os.getpid(), flush=True)


asyncio.run(main())
