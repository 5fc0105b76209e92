"""A task joins a thread without await; the thread calls a function in trio's loop.

After agronholm/anyio#1201, where a call in the wrong thread blocks the loop.

Truth: {"expect": "hang", "says": "trio|loop", "statuses": [1], "packages": ["trio"]}
"""

import os
import threading

import trio


def read(token):
    trio.from_thread.run_sync(print, "progress", trio_token=token)


async def main():
    thread = threading.Thread(target=read, args=(trio.lowlevel.current_trio_token(),), name="reader")
    print('{"pid": %d}' % os.getpid(), flush=True)
    thread.start()
    thread.join()


trio.run(main)
