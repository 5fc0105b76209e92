"""Tasks of anyio take turns with a lock. The task that has it waits for a timer.

Truth: {"expect": "healthy", "packages": ["anyio"]}
"""

import os

import anyio


async def work(lock):
    while True:
        async with lock:
            await anyio.sleep(0.5)


async def main():
    lock = anyio.Lock()
    print('{"pid": %d}' % os.getpid(), flush=True)
    async with anyio.create_task_group() as group:
        for index in range(3):
            group.start_soon(work, lock, name=f"worker-{index}")


anyio.run(main)
