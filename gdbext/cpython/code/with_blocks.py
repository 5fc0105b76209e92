"""Finds the `with` blocks that a Python frame is inside of: their context managers and lines.

A `with` statement keeps the ``__exit__`` of its context manager on the frame's value stack: bound to the manager, since
CPython 3.14 followed by it. This alone proves nothing, because it is there while ``__enter__`` still waits. The block
is entered when it would handle an exception: up to 3.10 it is on the frame's block stack then, since 3.11 the code's
exception table covers the instruction.

Sources: CPython 3.9 Python/ceval.c (SETUP_WITH), Include/cpython/frameobject.h (PyTryBlock); CPython 3.13
InternalDocs/exception_handling.md, Python/bytecodes.c (BEFORE_WITH; since 3.14 LOAD_SPECIAL).
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from typing import NamedTuple

from gdbext.cpython.frames import FrameReader, RawFrame
from gdbext.cpython.objects import Objects
from gdbext.errors import CorruptStructure, if_unreadable
from gdbext.inferior.protocol import Memory
from gdbext.layout.table import Layouts
from gdbext.remembered import remembered

_EXITS = ("__exit__", "__aexit__")
# opcodes, and the type of the block of a `with`, CPython 3.6 - 3.10 (Include/opcode.h)
_SETUP_WITH, _SETUP_ASYNC_WITH, _EXTENDED_ARG = 143, 154, 144
_SETUP_FINALLY = 122
# sizes of the instructions that call ``__enter__``, in bytes: BEFORE_WITH, 3.11 - 3.13; CALL with its caches, 3.14
_BEFORE_WITH_SIZE, _CALL_SIZE = 2, 8
_MAX_BLOCKS = 20  # CO_MAXBLOCKS
#: Deepest nesting of exception handlers.
_MAX_NESTING = 200


class WithBlock(NamedTuple):
    """An entered `with` block: its context manager (``PyObject *``), and the line of the `with` or None."""

    manager: int
    line: int | None


class _Protected(NamedTuple):
    """A range of instructions and its exception handler, which leaves `depth` values on the stack."""

    start: int
    end: int
    handler: int
    depth: int


class WithBlocks:
    """Finds the entered `with` blocks in frames of one runtime."""

    def __init__(self, memory: Memory, layouts: Layouts, objects: Objects, frames: FrameReader) -> None:
        self._memory = memory
        self._layouts = layouts
        self._objects = objects
        self._frames = frames
        self._object_follows = layouts.version_tuple >= (3, 14)
        self._enter_size = _CALL_SIZE if layouts.version_tuple >= (3, 14) else _BEFORE_WITH_SIZE

    def of(self, raw: RawFrame) -> list[WithBlock]:
        """The `with` blocks that a frame is inside of, innermost first.

        :raises GdbextError: the frame cannot be read.
        """
        if "_PyInterpreterFrame" in self._layouts:
            return self._by_exception_table(raw)
        return self._by_block_stack(raw)

    def is_entering(self, raw: RawFrame) -> bool:
        """Whether a frame is at a `with` statement and calls ``__enter__``.

        :raises GdbextError: the frame cannot be read.
        """
        if "_PyInterpreterFrame" not in self._layouts:
            return raw.offset in self._with_statements(raw.code).values()
        # the block protects the code from the next instruction on; between a call and a `try` statement is one that
        # drops or stores the result
        return any(entry.start == raw.offset + self._enter_size and entry.depth for entry in self._table(raw.code))

    # -- CPython 3.11 and later ------------------------------------------------------------------------------

    def _by_exception_table(self, raw: RawFrame) -> list[WithBlock]:
        known = self._lines_by_depth(raw.code, raw.offset)
        if not known:
            return []
        slots = self._frames.lowest_values(raw, max(known))
        found = []
        size = 2 if self._object_follows else 1  # stack values of one `with` block
        for i, value in enumerate(slots[:len(slots) - size + 1]):
            manager = self._manager(value, slots[i + 1] if self._object_follows else 0) if value else 0
            if manager:
                found.append(WithBlock(manager, known.get(i + size)))
        return found[::-1]

    @remembered
    def _lines_by_depth(self, code: int, offset: int) -> dict[int, int | None]:
        """Depth of each handler around an instruction -> line of the statement that protects the values up to it.

        The values up to the highest depth are certain to be on the stack. Empty if no handler leaves values.
        """
        table = self._table(code)
        # the handlers around the instruction, innermost first: each is followed by the one that protects its own code
        chain: list[_Protected] = []
        at = _covering(table, offset)
        while at is not None and len(chain) < _MAX_NESTING and at not in chain:
            chain.append(at)
            at = _covering(table, at.handler)
        lines: dict[int, int | None] = {}
        if not chain or not chain[0].depth:
            return lines
        # An entry counts only if no inner one leaves fewer values. Among entries of equal depth the outermost counts: a
        # `try` inside the block leaves as many values.
        outermost: dict[int, _Protected] = {}
        lowest = chain[0].depth
        for entry in chain:
            if 0 < entry.depth <= lowest:
                outermost[entry.depth] = entry
            lowest = min(lowest, entry.depth)
        begins: dict[tuple[int, int], int] = {}
        for other in table:
            begins.setdefault((other.handler, other.depth), other.start)
        for depth, entry in outermost.items():
            # the instruction before the first protected one has entered the block
            lines[depth] = self._frames.line(code, begins[entry.handler, entry.depth] - 2)
        return lines

    @remembered
    def _table(self, code: int) -> list[_Protected]:
        address = self._objects.read_member("PyCodeObject", code, "co_exceptiontable")
        return sorted(iter_protected(self._objects.bytes(address)))

    # -- CPython 3.10 and earlier ----------------------------------------------------------------------------

    def _by_block_stack(self, raw: RawFrame) -> list[WithBlock]:
        count = self._objects.read_member("PyFrameObject", raw.address, "f_iblock")
        if not 0 <= count <= _MAX_BLOCKS:
            raise CorruptStructure(raw.address, f"a frame with {count} blocks")
        block = self._layouts["PyTryBlock"]
        read = block.reader("b_type", "b_handler", "b_level")
        at = raw.address + self._layouts["PyFrameObject"].offset("f_blockstack")
        found = []
        for i in range(count):
            kind, handler, level = read(self._memory, at + i * block.size)
            if kind != _SETUP_FINALLY or level <= 0:
                continue
            entered = self._with_statements(raw.code).get(handler)
            if entered is None:
                continue  # try ... finally
            slots = self._frames.lowest_values(raw, level)
            manager = self._manager(slots[-1], 0) if len(slots) == level else 0
            if manager:
                found.append(WithBlock(manager, self._frames.line(raw.code, entered)))
        return found[::-1]

    @remembered
    def _with_statements(self, code: int) -> dict[int, int]:
        """``b_handler`` of each `with` statement -> byte offset of the instruction that enters it."""
        address = self._objects.read_member("PyCodeObject", code, "co_code")
        return dict(iter_with_statements(self._objects.bytes(address), self._layouts.version_tuple))

    # -- both ------------------------------------------------------------------------------------------------

    @if_unreadable(0)
    def _manager(self, method: int, following: int) -> int:
        """The object (``PyObject *``) to which an ``__exit__`` method belongs, or 0.

        :param following: the next value on the stack; it is the object if the method is not bound.
        """
        owner, name = self._objects.bound_method(method)
        if not owner and following:
            owner = following
            if self._objects.type_name(method) == "method_descriptor":
                name = self._objects.key_name(self._objects.read_member("PyMethodDescrObject", method, "d_name"))
            else:
                name = self._objects.function_name(method)
        return owner if name in _EXITS else 0


def _covering(table: list[_Protected], offset: int) -> _Protected | None:
    index = bisect.bisect_right(table, (offset, 1 << 62, 0, 0)) - 1
    return table[index] if index >= 0 and offset < table[index].end else None


def iter_protected(table: bytes) -> Iterator[_Protected]:
    """Decode an exception table; offsets are in bytes. Ends at the first damaged entry.

    Source: CPython 3.13 InternalDocs/exception_handling.md.
    """
    at = 0
    while at < len(table) and table[at] & 0x80:
        numbers = []
        for _ in range(4):
            number = 0
            while True:
                if at >= len(table) or number > 1 << 32:
                    return
                byte = table[at]
                at += 1
                number = number << 6 | byte & 0x3F
                if not byte & 0x40:
                    break
            numbers.append(number)
        start, length, handler, depth = numbers
        yield _Protected(2 * start, 2 * (start + length), 2 * handler, depth >> 1)


def iter_with_statements(code: bytes, version: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """(``b_handler``, byte offset) of each instruction that enters a `with` block, CPython 3.6 to 3.10.

    :param code: the contents of ``co_code``.
    """
    argument = 0
    for at in range(0, len(code) - 1, 2):
        opcode = code[at]
        argument = (argument << 8 | code[at + 1]) & 0xFFFFFFFF
        if opcode in (_SETUP_WITH, _SETUP_ASYNC_WITH):
            # counted in units of two bytes since 3.10
            yield (at // 2 + 1 + argument if version >= (3, 10) else at + 2 + argument), at
        if opcode != _EXTENDED_ARG:
            argument = 0
