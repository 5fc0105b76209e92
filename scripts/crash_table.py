#!/usr/bin/env python3
"""Compare what gdbext, GDB's `bt` and pystack show first of the programs that crash in tests/crashes.

Usage: scripts/crash_table.py --pystack PATH [--write]

Each program runs once with its first interpreter, and all three read its core. The words are those that the program
demands of a report (`says`). Cause: the first 15 lines have all of them. Place: they have a function of the program
that is among these words. Of pystack all lines count, because it prints the innermost frame last. With --write the
table goes into docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import pytest  # noqa: E402

from tests.crashes import harness  # noqa: E402
from tests.crashes.harness import Program  # noqa: E402

PAGE = ROOT / "docs" / "benchmarks.md"
_BEGIN, _END = "<!-- made by scripts/crash_table.py -->", "<!-- end -->"
_CAUSE, _PLACE, _NOTHING = "cause", "place", "nothing"
#: What GDB prints before it runs its first command, except for the signal.
_NOISE = re.compile(r"^(\[|warning:|Using host|This GDB|Core was generated|\s*$)")


def main() -> int:
    """Run all programs and print the table, or write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pystack", required=True, help="the program pystack")
    parser.add_argument("--write", action="store_true", help="write the table into docs/benchmarks.md")
    options = parser.parse_args()
    counted: dict[tuple[str, str], Counter[str]] = {}
    for program in harness.programs():
        try:
            with tempfile.TemporaryDirectory() as folder, harness.core(
                    program, program.pythons[0], Path(folder)) as core:
                executable = harness.command(program, program.pythons[0])[0]
                shown = {
                    "`gdbext report CORE`": harness.report(core, "core").stdout,
                    "GDB, `bt`": _run("gdb", "-q", "-nx", "-batch", "-ex", "bt 20", executable, str(core)),
                    "`pystack core --native-all`": _run(options.pystack, "core", str(core), executable, "--native-all"),
                }
        except pytest.skip.Exception as skipped:
            print(f"{program.name}: {skipped}", file=sys.stderr)
            continue
        sort = "Python" if program.path.suffix == ".py" else "C, C++, Rust"
        for tool, text in shown.items():
            outcome = judge(program, text, None if "pystack" in tool else harness.FIRST_LINES)
            counted.setdefault((tool, sort), Counter())[outcome] += 1
            print(f"{program.name}: {tool}: {outcome}", file=sys.stderr)
    table = "\n".join(rows(counted))
    if options.write:
        text = PAGE.read_text(encoding="utf-8")
        before, _, rest = text.partition(_BEGIN)
        PAGE.write_text(f"{before}{_BEGIN}\n\n{table}\n\n{_END}{rest.partition(_END)[2]}", encoding="utf-8")
    else:
        print(table)
    return 0


def rows(counted: dict[tuple[str, str], Counter[str]]) -> Iterator[str]:
    """The lines of the table."""
    yield "| programs | | cause | place only | neither |"
    yield "| --- | --- | --- | --- | --- |"
    for (tool, sort), found in sorted(counted.items(), key=lambda item: item[0][1]):
        yield f"| {sum(found.values())} {sort} | {tool} | {found[_CAUSE]} | {found[_PLACE]} | {found[_NOTHING]} |"


def judge(program: Program, text: str, count: int | None) -> str:
    """Whether the first lines of a text, None: all, name the cause, the place, or neither."""
    lines = [line for line in text.splitlines() if not _NOISE.match(line)]
    said = " ".join(" ".join(lines[:count]).replace(program.name, "program").split())
    if all(re.search(words, said, re.IGNORECASE) for words in program.says):
        return _CAUSE
    return _PLACE if any(re.search(rf"\b{name}\b", said) for name in _functions(program)) else _NOTHING


def _functions(program: Program) -> set[str]:
    """The program's functions that are among the words."""
    sources = [path.read_text(encoding="utf-8") for path in program.path.parent.glob(f"{program.path.stem}.*")]
    defined = set(re.findall(r"\b([A-Za-z_]\w{3,})\s*\(", "\n".join(sources)))
    return {name for words in program.says for name in re.findall(r"[A-Za-z_]\w+", words) if name in defined}


def _run(*command: str) -> str:
    try:
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                              timeout=60, check=False).stdout
    except subprocess.TimeoutExpired:
        return ""


if __name__ == "__main__":
    sys.exit(main())
