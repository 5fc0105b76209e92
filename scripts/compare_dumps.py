#!/usr/bin/env python3
"""Write the table of docs/py-spy.md: what py-spy, pystack and gdbext print about the same five processes, and how fast.

python scripts/compare_dumps.py --py-spy FILE --pystack FILE [--write]
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.support.hangs import running  # noqa: E402  found by the line above

PAGE, BEGIN, END = ROOT / "docs" / "py-spy.md", "<!-- compare_dumps.py -->\n", "<!-- end -->\n"
PROGRAMS = ("deadlock", "event_loop", "behind", "children", "idle")
_RUNS = 5


def measure(command: Sequence[str]) -> tuple[str, float]:
    """The output of a command, and the median of its times in seconds."""
    times, output = [], ""
    for _ in range(_RUNS):
        begin = time.monotonic()
        output = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT).stdout
        times.append(time.monotonic() - begin)
    return output, statistics.median(times)


def rows(py_spy: str, pystack: str) -> Iterator[str]:
    """The lines of the table."""
    gdbext = [sys.executable, "-m", "gdbext"]
    yield "| program | tool | lines | words | seconds | what it says of the hang |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for variant in PROGRAMS:
        with running(variant) as pid:
            for name, command in (
                    ("py-spy dump", [py_spy, "dump", "--pid", str(pid)]),
                    ("pystack remote", [pystack, "remote", "--no-color", str(pid)]),
                    ("gdbext --brief", [*gdbext, "report", "--brief", str(pid)]),
                    ("gdbext report", [*gdbext, "report", str(pid)])):
                text, seconds = measure(command)
                found = re.search(r"\b([A-Z][A-Z ]{4,}: .*)", text)
                said = re.sub(r" ?\b0x[0-9a-f]+", "", found[1]).replace("|", "\\|")[:110] if found else "stacks only"
                yield (f"| {variant.replace('_', ' ')} | `{name}` | {len(text.splitlines())} | {len(text.split())} | "
                       f"{seconds:.2f} | {said} |")


def main() -> None:
    """Print the table, or write it into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--py-spy", required=True)
    parser.add_argument("--pystack", required=True)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    table = "".join(f"{row}\n" for row in rows(options.py_spy, options.pystack))
    if not options.write:
        print(table, end="")
        return
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}{table}{END}{rest.partition(END)[2]}", encoding="utf-8")


if __name__ == "__main__":
    main()
