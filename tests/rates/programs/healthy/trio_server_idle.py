"""A trio server without a client, beside a task that sleeps for minutes.

Truth: {"expect": "healthy", "packages": ["trio"]}
"""

import os

import trio


async def answer(stream):
    await stream.send_all(b"hello\n")


async def clean():
    while True:
        await trio.sleep(300)


async def main():
    async with trio.open_nursery() as nursery:
        nursery.start_soon(clean)
        await nursery.start(trio.serve_tcp, answer, 0)
        print('{"pid": %d}' % os.getpid(), flush=True)


trio.run(main)
