"""A coroutine waits for a thread without await; the thread waits for a coroutine in the same loop.

Truth: {"expect": "hang", "says": "(loop|asyncio).*(import_rows|save|handler)|(import_rows|save|handler).*(loop|asyncio)", "statuses": [1], "core": true}
"""

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor


async def save(row):
    return row


def import_rows(loop):
    return asyncio.run_coroutine_threadsafe(save(1), loop).result()


async def handler():
    with ThreadPoolExecutor(1, thread_name_prefix="importer") as pool:
        call = pool.submit(import_rows, asyncio.get_running_loop())
        print('{"pid": %d}' % os.getpid(), flush=True)
        return call.result()


asyncio.run(handler())
