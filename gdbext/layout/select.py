"""Which layouts fit a target: the choice by evidence, and the tables on disk.

Best evidence first: the interpreter's own debug offsets (CPython 3.13 and later), applied to the table of the same
version; the table of the same version; the nearest micro version of the same minor. The decoder tries the candidates
in turn and keeps the first one that the target's memory confirms.
"""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Iterator

from gdbext.errors import UnknownLayout
from gdbext.layout.table import Field, Layouts, Struct, parse_table

# without pathlib: this is loaded whenever GDB starts, and with it come ten more modules
_HOME = os.path.dirname(os.path.realpath(__file__))
_TABLES = os.path.join(_HOME, "tables")
_NAME = re.compile(
    r"^(?P<runtime>[a-z]+)-(?P<version>\d+(?:\.\d+)*)(?:-(?P<build>[a-z-]+?))?-(?P<machine>x86_64|aarch64)\.json$"
)


@functools.cache
def debug_offsets() -> dict[str, tuple[str, dict[str, str]]]:
    """The groups of `_Py_DebugOffsets`: the structure that each is about, and their name -> our name of its members."""
    groups = json.loads(_text(os.path.join(_HOME, "debug_offsets.json")))
    return {group: (struct, members) for group, (struct, members) in groups.items()}


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


@functools.cache
def _index() -> tuple[tuple[str, str, str, str, str], ...]:
    found = []
    for name in sorted(os.listdir(_TABLES)):
        match = _NAME.match(name)
        if match:
            found.append((match["runtime"], match["version"], match["build"] or "default", match["machine"],
                          os.path.join(_TABLES, name)))
    return tuple(found)


@functools.lru_cache(maxsize=32)
def _load(path: str) -> Layouts:
    return parse_table(_text(path))


def _text(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def _tables(runtime: str, build: str, machine: str) -> list[tuple[tuple[int, ...], str]]:
    return sorted((_version(version), path) for kind, version, flavour, arch, path in _index()
                  if (kind, flavour, arch) == (runtime, build, machine))


def cpython_candidates(version: str, build: str, machine: str) -> Iterator[Layouts]:
    """Tables that may fit a CPython, best first: its own version, then other micros of its minor by distance.

    :param version: full version, such as ``3.11.7``.
    :param build: ``default`` or ``free-threaded``.
    :raises UnknownLayout: (when iterated) there is no table of the minor version.
    """
    wanted = _version(version)
    tables = [(known, path) for known, path in _tables("cpython", build, machine) if known[:2] == wanted[:2]]
    if not tables:
        known = ", ".join(sorted({".".join(map(str, v[:2])) for v, _ in _tables("cpython", build, machine)},
                                 key=_version)) or "none"
        raise UnknownLayout(f"no layout for CPython {version}, {build} build, {machine} (known: {known})")
    # a newer micro is tried before an older one of the same distance: distributions backport, never the reverse
    for _, path in sorted(tables, key=lambda item: (abs(item[0][2] - wanted[2]), -item[0][2])):
        yield _load(path)


def glibc_layouts(version: str, machine: str) -> Layouts:
    """The table of a glibc, or of the nearest older one: there is a table of each release that changed a lock.

    :param version: such as ``2.36``.
    :raises UnknownLayout: it is older than any table, or no table is for this machine.
    """
    wanted = _version(version)
    older = [path for known, path in _tables("glibc", "default", machine) if known <= wanted]
    if not older:
        raise UnknownLayout(f"no layout for glibc {version}, {machine}")
    return _load(older[-1])


def glibc_structs(name: str, machine: str) -> Iterator[Struct]:
    """A structure as each table of glibc has it, the newest first."""
    for _, path in reversed(_tables("glibc", "default", machine)):
        layouts = _load(path)
        if name in layouts:
            yield layouts[name]


def libgomp_layouts(machine: str) -> Layouts:
    """The structures of GNU OpenMP.

    :raises UnknownLayout: there is no table for this machine.
    """
    return _only_table("libgomp", machine)


def numpy_layouts(machine: str) -> Layouts:
    """The structures of NumPy arrays, with both layouts of what describes their elements; see `libgomp_layouts`."""
    return _only_table("NumPy", machine)


def _only_table(name: str, machine: str) -> Layouts:
    found = _tables(name.lower(), "default", machine)
    if not found:
        raise UnknownLayout(f"no layout for {name}, {machine}")
    return _load(found[-1][1])


def with_debug_offsets(layouts: Layouts, offsets: dict[str, int]) -> Layouts:
    """Lay the numbers of a process's own `_Py_DebugOffsets` over a table.

    Source: CPython 3.13 Include/internal/pycore_runtime.h, struct _Py_DebugOffsets.

    :param offsets: ``group.member`` -> value, as read from the target.
    :raises UnknownLayout: the numbers are impossible.
    """
    changes: dict[str, dict[str, Field]] = {}
    for group, (struct, members) in debug_offsets().items():
        for theirs, ours in members.items():
            value = offsets.get(f"{group}.{theirs}")
            if value is None or not layouts.has(struct, ours):
                continue
            old = layouts[struct][ours]
            if not 0 <= value < 1 << 20:
                raise UnknownLayout(f"debug offset {group}.{theirs} is {value}")
            changes.setdefault(struct, {})[ours] = Field(value, old.size, old.signed, old.bits)
    # these three count from the interpreter state to its embedded GIL; what is wanted is where they lie in a GIL
    base = offsets.get("interpreter_state.gil_runtime_state")
    for theirs, ours in (("gil_runtime_state_locked", "locked"), ("gil_runtime_state_holder", "last_holder")):
        value = offsets.get(f"interpreter_state.{theirs}")
        if base is not None and value is not None and layouts.has("_gil_runtime_state", ours):
            if not 0 <= value - base < 4096:
                raise UnknownLayout(f"debug offset interpreter_state.{theirs} is {value}")
            old = layouts["_gil_runtime_state"][ours]
            changes.setdefault("_gil_runtime_state", {})[ours] = Field(value - base, old.size, old.signed)
    return layouts.replaced("debug-offsets", changes, {})
