"""Measures `gdbext ranks` on jobs of 4, 16 and 64 ranks of this machine, of which one hangs.

The ranks are those of tests/samples/ranks.py, with a stand-in for PyTorch's library. `within` is the time in which all
of them were read, `paused` the longest pause of a rank; processor time is that of gdbext and its own processes.
"""

from __future__ import annotations

import json
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CHECKOUT))

from tests.support import ranks  # noqa: E402  found by the line above

SIZES = (4, 16, 64)
_WITHIN = re.compile(r"ranks were read within ([\d.]+) s")


def measure(pid: int, size: int) -> tuple[float, float, float, float]:
    """Seconds of wall time, of processor time, within which all ranks were read, and of the longest pause."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    made = subprocess.run([sys.executable, "-m", "gdbext", "ranks", str(pid), "--json"], cwd=CHECKOUT,
                          capture_output=True, text=True, check=False)
    wall, after = time.monotonic() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    document, within = json.loads(made.stdout), _WITHIN.search(made.stderr)
    assert made.returncode == 1, made.stderr
    assert document["verdict"]["causes"] == [size - 1]
    assert within is not None
    paused = [report["target"]["paused"] or 0.0 for report in document["reports"].values()]
    return (wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, float(within[1]),
            max(paused))


def main(rounds: int) -> None:
    """Print the medians for each size."""
    print("| ranks | wall | processor | within | paused |\n| --- | --- | --- | --- | --- |")
    for size in SIZES:
        with tempfile.TemporaryDirectory() as folder, ranks.running("lock", Path(folder), size) as job:
            measured = [measure(job.pid, size) for _ in range(rounds + 1)][1:]
        medians = [statistics.median(column) for column in zip(*measured)]
        print(f"| {size} | " + " | ".join(f"{value:.2f} s" for value in medians) + " |")
