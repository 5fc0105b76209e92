"""A thread of trio reads a socket and hands what it gets to a task, which waits for it in a channel.

Truth: {"expect": "healthy", "packages": ["trio"]}
"""

import os
import socket

import trio


def read(server, sender):
    while True:
        connection, _ = server.accept()
        trio.from_thread.run(sender.send, connection.recv(1))


async def consume(receiver):
    async for _ in receiver:
        pass


async def main():
    sender, receiver = trio.open_memory_channel(0)
    server = socket.create_server(("127.0.0.1", 0))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(consume, receiver)
        nursery.start_soon(trio.to_thread.run_sync, read, server, sender)
        await trio.sleep(0.1)
        print('{"pid": %d}' % os.getpid(), flush=True)


trio.run(main)
