"""A job of several ranks with a stand-in for libtorch_cpu.so, see ranks.cc: SCENE RANKS LIBRARY.

Prints one line of JSON once all ranks are in their final state: {"pid": the launcher's, "ranks": [PID, ...]}.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

ALL_REDUCE, BROADCAST = (b"all_reduce", 1), (b"broadcast", 0)
DEFAULT = (b"0", b"default_pg")
#: How many operations all ranks have finished: the recorder has room for eight.
FINISHED = 12


class Rank:
    """This process as a rank."""

    def __init__(self, library: str) -> None:
        self.library = ctypes.CDLL(library)
        self.rank, self.size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])

    def note(self, number: int, ended: bool, operation: tuple[bytes, int] = ALL_REDUCE, count: int = 1000,
             group: tuple[bytes, bytes] = DEFAULT) -> None:
        self.library.note(*group, operation[0], ctypes.c_size_t(number), ctypes.c_int64(count), int(ended))

    def call(self, number: int, operation: tuple[bytes, int] = ALL_REDUCE, count: int = 1000,
             group: tuple[bytes, bytes] = DEFAULT) -> None:
        """Call an operation that does not end."""
        self.note(number, False, operation, count, group)
        ready()
        self.library.wait_for(operation[1])


def ready() -> None:
    print("ready", flush=True)


def deadlock() -> None:
    """Two threads wait for each other, of which this is one."""
    first, second = threading.Lock(), threading.Lock()
    both = threading.Barrier(2)

    def flush_metrics() -> None:
        with second:
            both.wait()
            with first:
                pass

    threading.Thread(target=flush_metrics, name="metrics").start()
    with first:
        both.wait()
        ready()
        with second:
            pass


def lock(rank: Rank) -> None:
    """The last rank has two threads that wait for each other."""
    if rank.rank < rank.size - 1:
        rank.call(FINISHED + 1)
    deadlock()


def other_operation(rank: Rank) -> None:
    """Rank 1 calls another operation than the others."""
    rank.call(FINISHED + 1, BROADCAST if rank.rank == 1 else ALL_REDUCE)


def other_size(rank: Rank) -> None:
    """Rank 1 calls the operation with another size."""
    rank.call(FINISHED + 1, count=500 if rank.rank == 1 else 1000)


def circle(rank: Rank) -> None:
    """Two groups in opposite order."""
    pair = (b"1", b"undefined")
    members = (ctypes.c_uint64 * 2)(0, 1)
    rank.library.note_ranks(*pair, members, ctypes.c_size_t(2))
    if rank.rank == 0:
        rank.call(1, group=pair)
    rank.call(FINISHED + 1)


def asleep(rank: Rank) -> None:
    """Rank 1 sleeps; the others wait for it."""
    if rank.rank == 1:
        ready()
        time.sleep(10_000)
    rank.call(FINISHED + 1)


def ended(rank: Rank) -> None:
    """Rank 1 has ended."""
    if rank.rank == 1:
        ready()
        os._exit(3)
    rank.call(FINISHED + 1)


def killed(rank: Rank) -> None:
    """Rank 1 was killed, and nobody has waited for it."""
    if rank.rank == 1:
        ready()
        os.kill(os.getpid(), signal.SIGKILL)
    rank.call(FINISHED + 1)


def at_work(rank: Rank) -> None:
    """Healthy: rank 1 computes, and the others wait for it."""
    if rank.rank != 1:
        rank.call(FINISHED + 1)
    ready()
    while True:
        pass


def in_step(rank: Rank) -> None:
    """Healthy: each rank finishes one operation after the other."""
    ready()
    number = FINISHED
    while True:
        number += 1
        rank.note(number, True)
        time.sleep(0.01)


SCENES: dict[str, Callable[[Rank], None]] = {
    scene.__name__: scene for scene in (
        lock, other_operation, other_size, circle, asleep, ended, killed, at_work, in_step)}


def launch(scene: str, size: int, library: str) -> None:
    ranks = []
    for number in range(size):
        environment = {**os.environ, "RANK": str(number), "LOCAL_RANK": str(number), "WORLD_SIZE": str(size),
                       "LOCAL_WORLD_SIZE": os.environ.get("LOCAL_WORLD_SIZE", str(size)),
                       "MASTER_ADDR": "localhost", "TORCHELASTIC_RUN_ID": "nightly"}
        ranks.append(subprocess.Popen([sys.executable, __file__, scene, "rank", library], env=environment,
                                      stdout=subprocess.PIPE, text=True))
    for process in ranks:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    print(json.dumps({"pid": os.getpid(), "ranks": [process.pid for process in ranks]}), flush=True)
    if scene == "ended":
        ranks[1].wait()
    signal.pause()


def main() -> None:
    scene, size, library = sys.argv[1:]
    if size != "rank":
        launch(scene, int(size), library)
        return
    rank = Rank(library)
    for number in range(1, FINISHED + 1):
        rank.note(number, True)
    SCENES[scene](rank)


if __name__ == "__main__":
    main()
