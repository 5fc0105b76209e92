"""Bytecode instructions as data: the name, size and kind of jump of each, per minor version of CPython.

The tables are generated from real interpreters by ``scripts/gen_opcodes.py``.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Mapping

from gdbext.record import record

_TABLES = os.path.join(os.path.dirname(os.path.realpath(__file__)), "opcodes")


@record
class Opcodes:
    """The instructions of one minor version of CPython.

    `names` has the name of the base instruction by number: specialised and instrumented instructions are those that
    they stand for. `caches` has the number of inline cache entries of two bytes. `jumps` says how the argument of a
    jump is counted: ``absolute``, ``forward`` or ``backward``; the address of a handler is counted like a jump.
    """

    version: tuple[int, ...]
    names: Mapping[int, str]
    caches: Mapping[str, int]
    jumps: Mapping[str, str]


@functools.cache
def opcodes_of(major: int, minor: int) -> Opcodes | None:
    """The instructions of a minor version of CPython; None if there is no table for it."""
    try:
        with open(os.path.join(_TABLES, f"cpython-{major}.{minor}.json"), encoding="utf-8") as file:
            table = json.load(file)
    except FileNotFoundError:
        return None
    return Opcodes((major, minor), {int(number): name for number, name in table["names"].items()},
                   table["caches"], table["jumps"])
