"""Measures what `gdbext triage` adds to the GDBs that it runs: beside GDB by hand, as many at a time, same cores.

The cores are copies of a few that the kernel makes of programs of tests/samples: a deadlock of the GIL and a lock, a
crash in a library that Python calls, two mutexes without Python. By hand means one `gdb -batch` for each core with its
executable named, which prints the same answers as JSON, two at a time; there is nothing that groups them. `triage` runs
with GDB (--gdb) and without it. The ways take turns, so that whatever else the machine does meets all. With --hangs
there are no crashes. Everything is in a temporary folder.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CHECKOUT))

from tests.support import cores, crashes, samples  # noqa: E402  found by the line above


def make(home: Path, python: Path, crashed: bool) -> list[tuple[Path, Path]]:
    """A core of each kind, with its executable.

    :param crashed: whether one is that of a crash.
    """
    made = []
    for name, sample in (("rapids", samples.rapids(python, "rwlock", home / "rapids")),
                         ("abba", samples.abba("mutex", home / "abba", stripped=True))):
        with sample as running:
            made.append((cores.kernel_core(running).rename(home / f"{name}.core"), running.executable))
    if not crashed:
        return made
    with crashes.crash("null-read", "3.11", "kernel-core", home / "crash") as crash:
        made.append((Path(shutil.copy(crash.gdb_args[-1], home / "crash.core")), crash.executable))
    return made


def link(kinds: Sequence[tuple[Path, Path]], folder: Path, number: int) -> list[tuple[Path, Path]]:
    """Fill a new folder with cores of all kinds in turn, and return them with their executables."""
    folder.mkdir()
    targets = []
    for index in range(number):
        core, executable = kinds[index % len(kinds)]
        os.link(core, folder / f"core.{index}")
        targets.append((folder / f"core.{index}", executable))
    return targets


def by_hand(gdb: str, targets: Sequence[tuple[Path, Path]], jobs: int) -> None:
    """One GDB for each core."""
    def one(target: tuple[Path, Path]) -> None:
        core, executable = target
        load = f"source {CHECKOUT / 'gdbext' / 'gdbext'}"
        done = subprocess.run([gdb, "-nx", "-batch", "-iex", "set debuginfod enabled off", "-ex", load, "-ex",
                               "py-threads-locks --json", "-ex", "py-crash --json", str(executable), str(core)],
                              stdin=subprocess.DEVNULL, capture_output=True, check=False)
        assert b'"gdbext/1"' in done.stdout, done.stderr

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(one, targets))


def children() -> float:
    """CPU time of the processes that have ended, in seconds."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def triage(argv: Sequence[str]) -> tuple[float, float, float]:
    """Run triage; return its time and its CPU time in seconds, and the size of the largest process in MiB."""
    begin = time.monotonic()
    with subprocess.Popen(argv, cwd=CHECKOUT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 1, process.returncode
    return time.monotonic() - begin, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cores", type=int, default=60, help="how many (default: 60)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each way is taken (default: 3)")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="snapshots at a time")
    parser.add_argument("--gdb", default=os.environ.get("GDBEXT_GDB", "gdb"))
    parser.add_argument("--python", type=Path, default=Path(sys.executable), help="of the deadlocked program")
    parser.add_argument("--hangs", action="store_true", help="no crashes among the cores")
    parser.add_argument("--sample", type=int, help="how many cores a GDB for each core reads (default: all)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gdbext-bench-") as folder:
        home = Path(folder)
        kinds = make(home, options.python, not options.hangs)
        targets = link(kinds, home / "cores", options.cores)
        sample = link(kinds, home / "sample", options.sample or options.cores)
        size = sum(core.stat().st_size for core, _ in targets) / len(targets) / (1 << 20)
        print(f"{options.cores} cores of {len(kinds)} kinds, {size:.1f} MiB on average, {options.jobs} at a time; "
              f"a GDB each reads {len(sample)} of them")
        begins = [sys.executable, "-m", "gdbext", "triage"]
        more = ["--json", "--jobs", str(options.jobs)]
        argv = [*begins, str(home / "cores"), *more]
        ways = {"triage --gdb": [*begins, str(home / "sample"), *more, "--gdb", options.gdb],
                "triage": argv}
        times = options.cores / len(sample)
        hand: list[tuple[float, float, float]] = []
        found: dict[str, list[tuple[float, float, float]]] = {"by hand": hand, **{way: [] for way in ways}}
        for _ in range(options.rounds):
            begin, before = time.monotonic(), children()
            by_hand(options.gdb, sample, options.jobs)
            hand.append(((time.monotonic() - begin) * times, (children() - before) * times, 0.0))
            for way, command in ways.items():
                seconds, cpu, peak = triage(command)
                of_all = times if way == "triage --gdb" else 1
                found[way].append((seconds * of_all, cpu * of_all, peak))
    print(f"{'':<16} {'time':>9} {'CPU time':>10} {'cores/s':>8} {'to by hand':>11} {'largest process':>16}")
    for way, rounds in found.items():
        seconds, cpu, peak = (statistics.median(values) for values in zip(*rounds))
        ratio = statistics.median(each[0] / by[0] for each, by in zip(rounds, hand))
        largest = f"{peak:.0f} MiB" if peak else "-"
        print(f"{way:<16} {seconds:7.1f} s {cpu:8.1f} s {options.cores / seconds:8.1f} {ratio:11.2f} {largest:>16}")


if __name__ == "__main__":
    main()
