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


def data_loader(rank: int, size: int) -> None:
    """Healthy: each batch comes from a process of its own, and rank 1 waits for its next one for two seconds."""
    data = importlib.import_module("torch.utils.data")
    loader = data.DataLoader(range(10_000), num_workers=1, batch_size=1, prefetch_factor=1,
                             collate_fn=slow if rank == 1 else list)
    ready()
    for _ in loader:
        dist.all_reduce(torch.ones(1000))


def slow(batch: list[int]) -> list[int]:
    time.sleep(2)
    return batch


def compiles(rank: int, size: int) -> None:
    """Healthy: rank 0 computes for a few seconds before each operation, as one that compiles; the others wait."""
    ready()
    while True:
        until = time.monotonic() + 4
        while rank == 0 and time.monotonic() < until:
            torch.randn(50, 50).inverse()
        dist.all_reduce(torch.ones(1000))


def evaluation(rank: int, size: int) -> None:
    """Healthy: rank 0 evaluates in a subprocess and with threads, the others wait in a barrier for some seconds."""
    futures = importlib.import_module("concurrent.futures")
    ready()
    with futures.ThreadPoolExecutor(2) as pool:
        while True:
            if rank == 0:
                list(pool.map(lambda _: torch.randn(400, 400).svd(), range(16)))
            dist.barrier()


def fsdp(rank: int, size: int) -> None:
    """Healthy: training with parameters that are spread over the ranks, on the processor."""
    fully_shard = importlib.import_module("torch.distributed.fsdp").fully_shard
    mesh = importlib.import_module("torch.distributed.device_mesh").init_device_mesh("cpu", (size,))
    model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(4)])
    for layer in (*model, model):
        fully_shard(layer, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    ready()
    while True:
        model(torch.randn(8, 64)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


SCENES: dict[str, Callable[[int, int], None]] = {
    scene.__name__: scene for scene in (
        lock, other_operation, circle, messages, asleep, in_step, data_loader, compiles, evaluation, fsdp)}


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
