"""A task is cancelled while it is the first to wait for a lock, which is released at the same time.

``alike``: a task waits for a lock of another one, which waits for an event that nobody sets.
"""
import asyncio
import json
import os
import sys

import anyio


async def worker(lock):
    async with lock:
        pass


async def holder(lock):
    async with lock:
        await anyio.Event().wait()


async def main():
    lock = anyio.Lock()
    if sys.argv[1:] == ["alike"]:
        first = asyncio.create_task(holder(lock), name="first")
    else:
        await lock.acquire()
        first = asyncio.create_task(worker(lock), name="first")
    await anyio.wait_all_tasks_blocked()
    second = asyncio.create_task(worker(lock), name="second")
    if sys.argv[1:] != ["alike"]:
        first.cancel()
        lock.release()
    print(json.dumps({"pid": os.getpid()}), flush=True)
    await second


anyio.run(main)
