"""A client in asyncio has subscribed to messages of a server, which has confirmed that and sends one when there is one.

Truth: {"expect": "healthy"}
"""

import asyncio
import os
import socket
import time

server = socket.create_server(("127.0.0.1", 0))
port = server.getsockname()[1]
if os.fork() == 0:
    connection, _ = server.accept()
    connection.recv(100)
    time.sleep(0.05)
    connection.sendall(b"subscribed\n")
    time.sleep(1e6)
server.close()


async def main():
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"SUBSCRIBE news\n")
    await writer.drain()
    await reader.readline()
    print('{"pid": %d}' % os.getpid(), flush=True)
    while True:
        message = await reader.readline()
        print(message)


asyncio.run(main())
