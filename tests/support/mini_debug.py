"""Programs with a compressed symbol table (``.gnu_debugdata``), made as Fedora's find-debuginfo makes them."""

from __future__ import annotations

import lzma
import subprocess
from pathlib import Path

SOURCE = """
static int __attribute__((noinline)) hidden(int value) { return value * 3 + 1; }
int exported(int value) { return hidden(value) + hidden(value + 1); }
"""


def addresses(made: Path) -> dict[str, int]:
    """The addresses of the functions of a file that has symbols."""
    lines = subprocess.run(["nm", made], capture_output=True, text=True, check=True).stdout.splitlines()
    return {line.split()[2]: int(line.split()[0], 16) for line in lines if " t " in line.lower()}


def with_mini_debug(made: Path, contents: bytes | None = None) -> Path:
    """A stripped copy of a file with symbols, with its symbol table compressed inside.

    :param contents: of the section; by default the symbol table.
    """
    mini, names, data, stripped = (made.with_name(f"{made.name}.{suffix}")
                                   for suffix in ("mini", "names", "xz", "stripped"))
    subprocess.run(["objcopy", "--only-keep-debug", made, mini], check=True)
    names.write_text("".join(f"{name}\n" for name in addresses(made)))
    subprocess.run(["objcopy", "-S", "--remove-section", ".comment", f"--keep-symbols={names}", mini], check=True)
    data.write_bytes(lzma.compress(mini.read_bytes()) if contents is None else contents)
    subprocess.run(["strip", "-o", stripped, made], check=True)
    subprocess.run(["objcopy", f"--add-section=.gnu_debugdata={data}", stripped], check=True)
    return stripped
