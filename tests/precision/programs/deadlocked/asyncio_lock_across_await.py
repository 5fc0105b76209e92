"""A coroutine awaits inside `with` of a `threading.Lock`; another coroutine of the same loop then waits for the lock.

The thread waits for a lock that only it can release: it would have to resume the first coroutine.

Truth: {"expect": "deadlock", "edges": [["main", "py-lock", "main"]], "behind": ["other"]}
"""

import asyncio
import threading

from tests.precision.programs import scene


async def keep(lock: threading.Lock, event: asyncio.Event) -> None:
    with lock:
        await event.wait()


async def take(lock: threading.Lock) -> None:
    await asyncio.sleep(0)
    scene.thread("other", use, lock)
    scene.ready()
    with lock:
        pass


def use(lock: threading.Lock) -> None:
    with lock:
        pass


async def main() -> None:
    lock = threading.Lock()
    await asyncio.gather(keep(lock, asyncio.Event()), take(lock))


if __name__ == "__main__":
    asyncio.run(main())
