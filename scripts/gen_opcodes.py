#!/usr/bin/env python3
"""Make the tables of bytecode instructions, `gdbext/layout/opcodes/cpython-MINOR.json`, by asking real interpreters.

Each argument is the command of an interpreter, such as `/usr/bin/python3.13` or `scripts/in-root sid python3.15`. The
number of an instruction is mapped to its base: an interpreter replaces instructions in memory by specialised and
instrumented ones, which behave like their base. An instruction that hides its base (``INSTRUMENTED_LINE``,
``ENTER_EXECUTOR``) is left out, and so is ``CACHE``, which never runs. Output is the same byte for byte each time.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
from pathlib import Path

TABLES = Path(__file__).resolve().parent.parent / "gdbext" / "layout" / "opcodes"

#: Runs in the interpreter; CPython 3.8 and later.
PROBE = """
import dis, json, opcode, platform, sys
known = {name: number for name, number in opcode.opmap.items() if number < 256}
caches = getattr(opcode, "_inline_cache_entries", {})  # since 3.15 a frozendict
if isinstance(caches, list):  # up to 3.12
    caches = dict((opcode.opname[number], count) for number, count in enumerate(caches))
base = dict((name, name) for name in known)
everything = dict(known)
everything.update((name, number) for name, number in getattr(dis, "_all_opmap", {}).items() if number < 256)
for name, family in getattr(opcode, "_specializations", {}).items():
    base.update((each, name) for each in family)
for name in everything:
    if name.startswith("INSTRUMENTED_"):
        base[name] = name[len("INSTRUMENTED_"):]
names = dict((number, base[name]) for name, number in everything.items() if base.get(name) in known)
for name in ("ENTER_EXECUTOR", "RESERVED", "CACHE"):
    names.pop(everything.get(name), None)
used = set(names.values())
jumps = {}
for number in opcode.hasjabs + opcode.hasjrel + getattr(opcode, "hasjump", []):
    name = opcode.opname[number]
    if name in used:
        jumps[name] = ("absolute" if number in opcode.hasjabs else "backward" if "BACKWARD" in name else "forward")
print(json.dumps({"version": platform.python_version(), "names": names, "jumps": jumps,
                  "caches": dict((name, count) for name, count in caches.items() if count and name in used)}))
"""


def probe(command: str) -> dict[str, object]:
    """Ask one interpreter for its instructions."""
    done = subprocess.run([*shlex.split(command), "-I", "-c", PROBE], capture_output=True, text=True, check=True)
    found: dict[str, object] = json.loads(done.stdout)
    return found


def main() -> None:
    """Write one table for each interpreter."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", nargs="+", help="of an interpreter")
    for command in parser.parse_args().command:
        found = probe(command)
        minor = ".".join(str(found["version"]).split(".")[:2])
        names = found["names"]
        assert isinstance(names, dict)
        found["names"] = dict(sorted(names.items(), key=lambda item: int(item[0])))
        path = TABLES / f"cpython-{minor}.json"
        path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        print(path.name, file=sys.stderr)


if __name__ == "__main__":
    main()
