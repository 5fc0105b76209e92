"""Chooses the layouts for a target among the tables on disk.

The best evidence comes first: the interpreter's debug offsets (CPython 3.13 and later), applied to the table of the
same version; the table of the same version; the nearest micro version of the same minor version. The decoder tries the
candidates in turn and keeps the first one that the target's memory confirms.
"""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Iterator
from dataclasses import replace

from gdbext.errors import UnknownLayout
from gdbext.layout.table import Field, Layouts, Struct, parse_table

# not with pathlib: this is loaded whenever GDB starts, and pathlib imports ten more modules
_HOME = os.path.dirname(os.path.realpath(__file__))
_TABLES = os.path.join(_HOME, "tables")
_NAME = re.compile(
    r"^(?P<runtime>[a-z]+)-(?P<version>\d+(?:\.\d+)*)(?:-(?P<build>[a-z-]+?))?-(?P<machine>x86_64|aarch64)\.json$"
)


@functools.cache
def debug_offsets() -> dict[str, tuple[str, dict[str, str]]]:
    """The groups of `_Py_DebugOffsets`: group -> (structure, {CPython's name of a member: the decoders' name})."""
    groups = json.loads(_read_text(os.path.join(_HOME, "debug_offsets.json")))
    return {group: (struct, members) for group, (struct, members) in groups.items()}


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def _read_text(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


@functools.lru_cache(maxsize=32)
def _load(name: str) -> Layouts:
    return parse_table(_read_text(os.path.join(_TABLES, name)))


@functools.cache
def _tables(runtime: str, build: str, machine: str) -> list[tuple[tuple[int, ...], str]]:
    """The tables of a runtime, oldest first: (version, file name)."""
    matches = filter(None, map(_NAME.match, os.listdir(_TABLES)))
    return sorted((_version(match["version"]), match[0]) for match in matches
                  if (match["runtime"], match["build"] or "default", match["machine"]) == (runtime, build, machine))


def cpython_candidates(version: str, build: str, machine: str) -> Iterator[Layouts]:
    """Tables that may fit a CPython, best first: its own version, then the nearest micro versions of its minor.

    :param version: full version, such as ``3.11.7``.
    :param build: ``default`` or ``free-threaded``.
    :raises UnknownLayout: (when iterated) there is no table for the minor version.
    """
    wanted = _version(version)
    every = _tables("cpython", build, machine)
    tables = [(known, name) for known, name in every if known[:2] == wanted[:2]]
    if not tables:
        known = ", ".join(dict.fromkeys(".".join(map(str, version[:2])) for version, _ in every)) or "none"
        raise UnknownLayout(f"no layout for CPython {version}, {build} build, {machine} (known: {known})")
    # at the same distance the newer micro comes first: distributions backport, never the reverse
    for _, name in sorted(tables, key=lambda item: (abs(item[0][2] - wanted[2]), -item[0][2])):
        yield _load(name)


def glibc_layouts(version: str, machine: str) -> Layouts:
    """The table of a glibc, or of the nearest older one: each release that changed a lock has a table.

    :param version: such as ``2.36``.
    :raises UnknownLayout: the version is older than all tables, or no table is for this machine.
    """
    wanted = _version(version)
    older = [name for known, name in _tables("glibc", "default", machine) if known <= wanted]
    if not older:
        raise UnknownLayout(f"no layout for glibc {version}, {machine}")
    return _load(older[-1])


def glibc_structs(name: str, machine: str) -> Iterator[Struct]:
    """The variants of a structure in the tables of glibc, newest first."""
    for _, table in reversed(_tables("glibc", "default", machine)):
        layouts = _load(table)
        if name in layouts:
            yield layouts[name]


def libgomp_layouts(machine: str) -> Layouts:
    """The structures of GNU OpenMP.

    :raises UnknownLayout: no table is for this machine.
    """
    return _only_table("libgomp", machine)


def numpy_layouts(machine: str) -> Layouts:
    """The structures of NumPy arrays, with both layouts of an element's description; see `libgomp_layouts`."""
    return _only_table("NumPy", machine)


def _only_table(name: str, machine: str) -> Layouts:
    found = _tables(name.lower(), "default", machine)
    if not found:
        raise UnknownLayout(f"no layout for {name}, {machine}")
    return _load(found[-1][1])


def with_debug_offsets(layouts: Layouts, offsets: dict[str, int]) -> Layouts:
    """Replace offsets of a table by those in a process's `_Py_DebugOffsets`.

    Source: CPython 3.13 Include/internal/pycore_runtime.h, struct _Py_DebugOffsets.

    :param offsets: ``group.member`` -> value, as read from the target.
    :raises UnknownLayout: an offset is impossible.
    """
    entries = [(f"{group}.{their_name}", 0, 1 << 20, struct, member)
               for group, (struct, members) in debug_offsets().items() for their_name, member in members.items()]
    # these offsets start at the interpreter state, which contains the GIL; decoders need them from the GIL's start
    gil = offsets.get("interpreter_state.gil_runtime_state")
    if gil is not None:
        entries += [(f"interpreter_state.gil_runtime_state_{their_name}", gil, 4096, "_gil_runtime_state", member)
                    for their_name, member in (("locked", "locked"), ("holder", "last_holder"))]
    changes: dict[str, dict[str, Field]] = {}
    for name, base, limit, struct, member in entries:
        value = offsets.get(name)
        if value is not None and layouts.has(struct, member):
            if not 0 <= value - base < limit:
                raise UnknownLayout(f"debug offset {name} is {value}")
            changes.setdefault(struct, {})[member] = replace(layouts[struct][member], offset=value - base)
    return layouts.replaced("debug-offsets", changes, {})
