"""All threads of an anyio CapacityLimiter run functions that wait for a further function under the same limiter.

Truth: {"expect": "hang", "says": "limiter|worker|thread|to_thread|outer", "statuses": [1, 5], "packages": ["anyio"]}
"""

import os

import anyio
import anyio.from_thread
import anyio.to_thread


def inner():
    return 1


async def call_inner(limiter):
    return await anyio.to_thread.run_sync(inner, limiter=limiter)


def outer(limiter):
    return anyio.from_thread.run(call_inner, limiter)


async def main():
    limiter = anyio.CapacityLimiter(2)
    print('{"pid": %d}' % os.getpid(), flush=True)
    async with anyio.create_task_group() as group:
        for _ in range(2):
            group.start_soon(lambda: anyio.to_thread.run_sync(outer, limiter, limiter=limiter))


anyio.run(main)
