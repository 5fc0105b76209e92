"""Measures what `gdbext run` and `gdbext watch` cost while nothing hangs; `scripts/bench --run` calls it.

For `run`, a program that computes is started by itself and by the launcher, in turn. It measures its own time, so the
launcher's start does not count as a cost for it; that and the processor time of the launcher are measured apart.

For `watch`, and for `run --idle` with a program that starts them, 100 processes of several threads sleep. The kernel's
count of the time that the launcher was on a processor is read over some periods of its sampling.
"""

from __future__ import annotations

import contextlib
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
PROCESSES, THREADS = 100, 10
#: How often the launcher samples in the measurement, in seconds; its cost at the default is computed from that.
EVERY, DEFAULT_WATCH, DEFAULT_IDLE = 1.0, 60.0, 10.0
PERIODS = 20

COMPUTES = """
import sys, time
wall, cpu = time.perf_counter(), time.process_time()
total = 0
for number in range(int(sys.argv[1])):
    total += number * number % 7
print(time.perf_counter() - wall, time.process_time() - cpu, flush=True)
"""
SLEEP = """
import os, sys, threading, time
for _ in range(int(sys.argv[1])):
    if os.fork() == 0:
        for _ in range(int(sys.argv[2]) - 1):
            threading.Thread(target=time.sleep, args=(3600,)).start()
        os.write(1, f"{os.getpid()}\\n".encode())
        time.sleep(3600)
time.sleep(3600)
"""


def launcher(*arguments: str) -> list[str]:
    """The command line of gdbext."""
    return [sys.executable, "-m", "gdbext", *arguments]


def compute(prefix: Sequence[str], steps: int) -> tuple[float, float, float]:
    """Run the program that computes: its own wall time and processor time, and the wall time of everything."""
    begin = time.perf_counter()
    done = subprocess.run([*prefix, sys.executable, "-c", COMPUTES, str(steps)], cwd=CHECKOUT, text=True, check=True,
                          stdout=subprocess.PIPE)
    wall, cpu = map(float, done.stdout.split())
    return wall, cpu, time.perf_counter() - begin


@contextlib.contextmanager
def started(argv: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    """Start a program, and end it with all processes of its group afterwards."""
    process = subprocess.Popen(argv, cwd=CHECKOUT, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                               start_new_session=True)
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def processor_time(pid: int) -> float:
    """The seconds that a process of one thread was on a processor."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def share(pid: int) -> float:
    """The share of a processor that the launcher uses, once it has started."""
    time.sleep(5 * EVERY)
    before, begin = processor_time(pid), time.monotonic()
    time.sleep(PERIODS * EVERY)
    return (processor_time(pid) - before) / (time.monotonic() - begin)


def sleepers(process: subprocess.Popen[str]) -> list[str]:
    """Wait until all processes have their threads; return their numbers."""
    assert process.stdout is not None
    return [process.stdout.readline().strip() for _ in range(PROCESSES)]


def main(rounds: int) -> None:
    """Measure and print."""
    ways = {"by itself": [], "gdbext run (on a signal)": launcher("run", "--"),
            "gdbext run --after 1h": launcher("run", "--after", "1h", "--"),
            "gdbext run --idle 5m": launcher("run", "--idle", "5m", "--"),
            "gdbext run --idle 10s (samples each second)": launcher("run", "--idle", "10s", "--")}
    found: dict[str, list[tuple[float, float, float]]] = {way: [] for way in ways}
    steps = 20_000_000
    for number in range(rounds + 1):
        for way, prefix in ways.items():
            seen = compute(prefix, steps)
            if number:
                found[way].append(seen)
    print(f"a program that computes; medians of {rounds} rounds\n")
    for way, all_seen in found.items():
        wall, cpu, total = (statistics.median(column) for column in zip(*all_seen))
        print(f"{way:45}  {wall:.3f} s, {cpu:.3f} s on a processor; {total - wall:.3f} s to start and to end")

    print(f"\n{PROCESSES} processes of {THREADS} threads that sleep; the launcher's share of a processor\n")
    program = [sys.executable, "-c", SLEEP, str(PROCESSES), str(THREADS)]
    with started(program) as process:
        pids = sleepers(process)
        watch = ["--every", f"{EVERY:g}", "--for", "1h"]
        ways_to_watch = {"gdbext watch PID...": pids, "gdbext watch --name": ["--name", "time.sleep.3600"]}
        for way, arguments in ways_to_watch.items():
            with started(launcher("watch", *watch, *arguments)) as watching:
                tell(way, share(watching.pid), DEFAULT_WATCH)
    with started(launcher("run", "--idle", f"{10 * EVERY:g}", "--", *program)) as process:
        sleepers(process)
        # before it has been idle for long enough, and so before the report
        time.sleep(2)
        before = processor_time(process.pid)
        time.sleep(5)
        tell("gdbext run --idle", (processor_time(process.pid) - before) / 5, DEFAULT_IDLE)


def tell(way: str, used: float, default: float) -> None:
    """Print a share, and what it is at the default."""
    print(f"{way:45}  {used:.2%} with a sample each {EVERY:g} s; by that {used * EVERY / default:.3%} with one each "
          f"{default:g} s, the default")
