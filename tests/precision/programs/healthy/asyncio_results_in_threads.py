"""python/cpython#121075, as the documentation means it: threads wait for coroutines that run in the loop of another.

Truth: {"expect": "healthy"}
"""

import asyncio
import threading

from tests.precision.programs import scene

loop = asyncio.new_event_loop()


async def compute(number: int) -> int:
    await asyncio.sleep(0.001)
    return number + 1


def ask() -> None:
    number = 0
    while not scene.stopping.is_set():
        number = asyncio.run_coroutine_threadsafe(compute(number), loop).result()


if __name__ == "__main__":
    serving = scene.thread("loop", loop.run_forever)
    threads = [scene.thread(f"asking-{number}", ask) for number in range(5)]
    with scene.until_told():
        scene.ready()
        threading.Event().wait()
    for thread in threads:
        thread.join()
    loop.call_soon_threadsafe(loop.stop)
    serving.join()
