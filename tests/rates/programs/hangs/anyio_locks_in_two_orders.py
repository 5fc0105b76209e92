"""Two tasks of anyio take two locks in opposite order.

Truth: {"expect": "hang", "says": "DEADLOCK OF TASKS.*(transfer|refund)", "never": "anyio\\.Lock.*free", "statuses": [1], "core": true, "packages": ["anyio"]}
"""

import os

import anyio


async def transfer(first, second, name):
    async with first:
        await anyio.sleep(0.1)
        async with second:
            return name


async def main():
    accounts, ledger = anyio.Lock(), anyio.Lock()
    print('{"pid": %d}' % os.getpid(), flush=True)
    async with anyio.create_task_group() as group:
        group.start_soon(transfer, accounts, ledger, "transfer", name="transfer")
        group.start_soon(transfer, ledger, accounts, "refund", name="refund")


anyio.run(main)
