#!/usr/bin/env python3
"""Make the tables of bytecode instructions, `gdbext/layout/opcodes/cpython-MINOR.json`, by asking real interpreters.

Each argument is the command of an interpreter, such as `/usr/bin/python3.13` or `scripts/in-root sid python3.15`. The
number of an instruction is mapped to its base: an interpreter replaces instructions in memory by specialised and
instrumented ones, which behave like their base. An instruction that hides its base (``INSTRUMENTED_LINE``,
``ENTER_EXECUTOR``) is left out, and so is ``CACHE``, which never runs. The states of generators and coroutines
(``PyFrameState``, from CPython 3.10 on) are an enumeration in the interpreter's headers, which must be installed.
Output is the same byte for byte each time.
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
import dis, glob, json, opcode, platform, re, sys, sysconfig
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
states = {}
for header in glob.glob(sysconfig.get_paths()["include"] + "/*/*.h"):
    with open(header, encoding="utf-8") as file:
        declared = re.search(r"enum _framestate \\{(.*?)\\}", file.read(), re.DOTALL)
    if declared:
        states = {name: int(value) for name, value in re.findall(r"(FRAME_\\w+)\\s*=\\s*(-?\\d+)", declared[1])}
if not states and sys.version_info >= (3, 10):
    sys.exit("no header with enum _framestate in " + sysconfig.get_paths()["include"])
print(json.dumps({"frame_states": states, "version": platform.python_version(), "names": names, "jumps": jumps,
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
        states = found["frame_states"]
        assert isinstance(states, dict)
        found["frame_states"] = dict(sorted(states.items(), key=lambda item: int(item[1])))
        path = TABLES / f"cpython-{minor}.json"
        path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        print(path.name, file=sys.stderr)


if __name__ == "__main__":
    main()
