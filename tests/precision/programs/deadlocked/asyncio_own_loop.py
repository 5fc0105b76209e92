"""empicano/aiomqtt#174: `run_coroutine_threadsafe(...).result()` in the thread of the loop itself.

The coroutine can only run when the loop continues, and the loop waits for its result.

Truth: {"expect": "deadlock", "standstill": true,
        "edges": [["main", "py-condition|py-lock|semaphore", null]]}
"""

import asyncio

from tests.precision.programs import scene


async def register() -> None:
    pass


async def main() -> None:
    loop = asyncio.get_running_loop()
    scene.ready()
    asyncio.run_coroutine_threadsafe(register(), loop).result()


if __name__ == "__main__":
    asyncio.run(main())
