"""A trio program waits for an event, which a task sets when SIGTERM comes.

Truth: {"expect": "healthy", "packages": ["trio"]}
"""

import os
import signal

import trio


async def watch(stop):
    with trio.open_signal_receiver(signal.SIGTERM) as signals:
        async for _ in signals:
            stop.set()


async def main():
    stop = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch, stop)
        await trio.sleep(0.05)
        print('{"pid": %d}' % os.getpid(), flush=True)
        await stop.wait()
        nursery.cancel_scope.cancel()


trio.run(main)
