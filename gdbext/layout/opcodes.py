"""Bytecode and generators as data, per minor version of CPython: instructions, and the states of a generator.

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
    `frame_states` has the members of ``PyFrameState`` with their C names; it is empty before 3.10.
    """

    version: tuple[int, ...]
    names: Mapping[int, str]
    caches: Mapping[str, int]
    jumps: Mapping[str, str]
    frame_states: Mapping[str, int]

    def numbers(self, name: str) -> frozenset[int]:
        """The numbers of an instruction: its own, and those of its specialised and instrumented forms."""
        return frozenset(number for number, base in self.names.items() if base == name)

    def states(self, beginning: str) -> frozenset[int]:
        """The states of a generator whose C names begin with a text, such as ``FRAME_SUSPENDED``."""
        return frozenset(value for name, value in self.frame_states.items() if name.startswith(beginning))


@functools.cache
def opcodes_of(major: int, minor: int) -> Opcodes | None:
    """The instructions of a minor version of CPython; None if there is no table for it."""
    try:
        with open(os.path.join(_TABLES, f"cpython-{major}.{minor}.json"), encoding="utf-8") as file:
            table = json.load(file)
    except FileNotFoundError:
        return None
    return Opcodes((major, minor), {int(number): name for number, name in table["names"].items()},
                   table["caches"], table["jumps"], table["frame_states"])
