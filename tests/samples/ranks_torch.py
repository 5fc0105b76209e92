"""A job of torch.distributed with gloo: SCENE RANKS. Each rank prints "ready" shortly before its final state."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import time
from collections.abc import Callable

from ranks import deadlock, ready  # type: ignore[import-not-found]  # the sample beside it

#: Where the ranks meet: a file, so that no port is needed.
MEETING = os.path.abspath("meeting")


def lock(rank: int, size: int) -> None:
    """The last rank has two threads that wait for each other."""
    if rank < size - 1:
        ready()
        dist.all_reduce(torch.ones(1000))
    deadlock()


def other_operation(rank: int, size: int) -> None:
    """The last rank calls another operation than the others."""
    ready()
    if rank == size - 1:
        dist.broadcast(torch.ones(1000), 0)
    dist.all_reduce(torch.ones(1000))


def circle(rank: int, size: int) -> None:
    """Two groups of two ranks in opposite order."""
    both = dist.new_group([0, 1])
    ready()
    if rank == 0:
        dist.all_reduce(torch.ones(10), group=both)
    dist.all_reduce(torch.ones(10))
    dist.all_reduce(torch.ones(10), group=both)


def messages(rank: int, size: int) -> None:
    """The first two ranks wait for a message of each other."""
    ready()
    if rank < 2:
        dist.recv(torch.ones(10), 1 - rank)
    dist.all_reduce(torch.ones(10))


def asleep(rank: int, size: int) -> None:
    """Rank 1 sleeps; the others wait for it."""
    ready()
    if rank == 1:
        time.sleep(10_000)
    dist.barrier()


def in_step(rank: int, size: int) -> None:
    """Healthy: one operation after the other."""
    ready()
    while True:
        dist.all_reduce(torch.ones(1000))
        time.sleep(0.01)


SCENES: dict[str, Callable[[int, int], None]] = {
    scene.__name__: scene for scene in (lock, other_operation, circle, messages, asleep, in_step)}


def launch(scene: str, size: int) -> None:
    ranks = []
    for number in range(size):
        environment = {**os.environ, "RANK": str(number), "LOCAL_RANK": str(number), "WORLD_SIZE": str(size),
                       "LOCAL_WORLD_SIZE": str(size),
                       "MASTER_ADDR": "localhost", "OMP_NUM_THREADS": "1", "TORCH_FR_BUFFER_SIZE": "2000"}
        ranks.append(subprocess.Popen([sys.executable, __file__, scene, str(size)], env=environment,
                                      stdout=subprocess.PIPE, text=True))
    for process in ranks:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    ready()
    ranks[0].wait()


if __name__ == "__main__":
    name, count = sys.argv[1], int(sys.argv[2])
    if "RANK" not in os.environ:
        launch(name, count)
    else:
        torch = importlib.import_module("torch")
        dist = importlib.import_module("torch.distributed")
        own = int(os.environ["RANK"])
        dist.init_process_group("gloo", init_method=f"file://{MEETING}", rank=own, world_size=count)
        for _ in range(5):
            dist.all_reduce(torch.ones(1000))
        SCENES[name](own, count)
