"""bpo-34037: an asyncio service with its default executor, whose threads wait for work between two calls.

Truth: {"expect": "healthy"}
"""

import asyncio
import signal
import time

from tests.precision.programs import scene


async def ask(port: int) -> None:
    while not scene.stopping.is_set():
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"ping\n")
        assert await reader.readline() == b"pong\n"
        writer.close()
        await writer.wait_closed()


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readline()
    await asyncio.to_thread(time.sleep, 0.001)
    writer.write(b"pong\n")
    await writer.drain()
    writer.close()


async def main() -> None:
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, scene.stopping.set)
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    scene.ready()
    await asyncio.gather(*(ask(server.sockets[0].getsockname()[1]) for _ in range(6)))
    server.close()


if __name__ == "__main__":
    asyncio.run(main())
