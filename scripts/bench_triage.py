"""Measures what `gdbext triage` adds to the GDBs that it runs: beside GDB by hand, as many at a time, same cores.

The cores are copies of a few that the kernel makes of programs of tests/samples: a deadlock of the GIL and a lock, a
crash in a library that Python calls, two mutexes without Python. By hand means one `gdb -batch` for each core with its
executable named, which prints the same answers as JSON, two at a time; there is nothing that groups them. The
two ways take turns, so that whatever else the machine does meets both. Everything is in a temporary folder.
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


def make(home: Path, python: Path) -> list[tuple[Path, Path]]:
    """A core of each kind, with its executable."""
    made = []
    for name, sample in (("rapids", samples.rapids(python, "rwlock", home / "rapids")),
                         ("abba", samples.abba("mutex", home / "abba"))):
        with sample as running:
            made.append((cores.kernel_core(running).rename(home / f"{name}.core"), running.executable))
    with crashes.crash("null-read", "3.11", "kernel-core", home / "crash") as crash:
        made.append((Path(shutil.copy(crash.gdb_args[-1], home / "crash.core")), crash.executable))
    return made


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


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cores", type=int, default=60, help="how many (default: 60)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each way is taken (default: 3)")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="GDBs at a time")
    parser.add_argument("--gdb", default=os.environ.get("GDBEXT_GDB", "gdb"))
    parser.add_argument("--python", type=Path, default=Path(sys.executable), help="of the deadlocked program")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gdbext-bench-") as folder:
        home = Path(folder)
        kinds = make(home, options.python)
        many = home / "cores"
        many.mkdir()
        targets = []
        for number in range(options.cores):
            core, executable = kinds[number % len(kinds)]
            os.link(core, many / f"core.{number}")
            targets.append((many / f"core.{number}", executable))
        size = sum(core.stat().st_size for core, _ in targets) / len(targets) / (1 << 20)
        print(f"{options.cores} cores of {len(kinds)} kinds, {size:.1f} MiB on average, {options.jobs} GDBs at a time")
        argv = [sys.executable, "-m", "gdbext", "triage", str(many), "--json", "--jobs", str(options.jobs),
                "--gdb", options.gdb, "--state", str(home / "state")]
        hand, ours, hand_spent, spent, peak = [], [], [], [], 0
        for _ in range(options.rounds):
            begin, before = time.monotonic(), children()
            by_hand(options.gdb, targets, options.jobs)
            hand.append(time.monotonic() - begin)
            hand_spent.append(children() - before)
            begin = time.monotonic()
            with subprocess.Popen(argv, cwd=CHECKOUT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
                _, status, usage = os.wait4(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(status)
            ours.append(time.monotonic() - begin)
            assert process.returncode == 1, process.returncode
            spent.append(usage.ru_utime + usage.ru_stime)
            peak = max(peak, usage.ru_maxrss)
    ratios = [mine / theirs for mine, theirs in zip(ours, hand)]
    print(f"by hand        {statistics.median(hand):7.1f} s  {options.cores / statistics.median(hand):6.2f} cores/s")
    print(f"gdbext triage  {statistics.median(ours):7.1f} s  {options.cores / statistics.median(ours):6.2f} cores/s")
    print(f"ratio          {statistics.median(ratios):7.2f}    ({', '.join(f'{ratio:.2f}' for ratio in ratios)})")
    cpu = [mine / theirs for mine, theirs in zip(spent, hand_spent)]
    print(f"CPU time, with the GDBs: {statistics.median(spent):.1f} s, by hand {statistics.median(hand_spent):.1f} s, "
          f"ratio {statistics.median(cpu):.2f} ({', '.join(f'{ratio:.2f}' for ratio in cpu)})")
    print(f"largest process {peak / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
