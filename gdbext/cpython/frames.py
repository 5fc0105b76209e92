"""Python frames of a thread state: function, file and line, where each call of the eval loop began, and variables.

Structures: ``PyFrameObject`` (CPython 3.10 and earlier), ``_PyInterpreterFrame`` (3.11 and later), ``PyCodeObject``,
``PyGenObject``.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from gdbext.cpython.linetable import line_of, positions_of
from gdbext.cpython.objects import Objects
from gdbext.errors import CorruptStructure, GdbextError
from gdbext.inferior.cache import cached
from gdbext.inferior.protocol import Memory
from gdbext.layout.table import Layouts
from gdbext.model import Columns, PyFrame
from gdbext.record import record
from gdbext.remembered import remembered

#: Most frames of one thread; Python's own recursion limit is usually 1,000.
MAX_FRAMES = 20_000
#: Up to 3.13 frames of the interpreter itself are marked by an owner of at least this (FRAME_OWNED_BY_CSTACK,
#: FRAME_OWNED_BY_INTERPRETER; Include/internal/pycore_frame.h).
_OWNED_BY_NATIVE = 3
_OWNED_BY_THREAD = 0
_TAG_BITS = 3  # of a _PyStackRef, since 3.14
_CELLS = 0x40 | 0x80  # CO_FAST_CELL, CO_FAST_FREE (Include/internal/pycore_code.h)
#: Bits of ``co_flags`` (CO_GENERATOR, CO_COROUTINE, CO_ASYNC_GENERATOR; Include/cpython/code.h).
_KINDS = ((0x20, "generator"), (0x80, "coroutine"), (0x200, "async generator"))
#: Most variables, and most values on the value stack, of one frame.
_MAX_SLOTS = 1 << 14
#: Most threads of one interpreter that are believed to have copies of a function's bytecode.
_MAX_COPIES = 1 << 16


@record
class PyStack:
    """Python frames, innermost first, and what links them to the native stack.

    `calls` has for each native call of the eval loop, innermost first: how many of the frames it runs, and the address
    of an object inside its native frame (a ``_PyCFrame`` or an entry frame; None where the version has no such object).
    `problem` says why the walk ended early.
    """

    frames: tuple[PyFrame, ...]
    calls: tuple[tuple[int, int | None], ...]
    problem: str | None = None


class RawFrame(NamedTuple):
    """A Python frame in memory.

    `address` is a ``PyFrameObject *``, since CPython 3.11 a ``_PyInterpreterFrame *``; `code` a ``PyCodeObject *``;
    `offset` that of the current instruction in bytes, negative before the first one.
    """

    address: int
    code: int
    offset: int
    frame: PyFrame


@record
class _Shape:
    """The room that a frame has: variables, their names, the places that may hold cells, and stack values."""

    variables: int
    stack: int
    names: tuple[str, ...]
    cells: tuple[int, ...]


@record
class _Code:
    """A decoded code object; `instructions` is the address of its first instruction."""

    name: str
    qualified_name: str
    file: str
    first_line: int
    line_table: bytes
    instructions: int
    size: int
    first_traceable: int
    kind: str | None


class FrameReader:
    """Reads the stacks of one runtime; code objects and lines are decoded once."""

    def __init__(self, memory: Memory, layouts: Layouts, objects: Objects) -> None:
        self._memory = cached(memory)
        self._layouts = layouts
        self._objects = objects
        # by code object, instruction and owner, all as the target has them
        self._frames: dict[tuple[int, int, int], PyFrame] = {}
        self._raw: dict[tuple[int, int, int], tuple[int, int, PyFrame] | None] = {}
        self._version = layouts.version_tuple
        self._tagged = self._version >= (3, 14)
        self._has_copies = layouts.has("PyCodeObject", "co_tlbc") and layouts.has("_PyCodeArray", "entries")
        self._frame_format = None
        if "_PyInterpreterFrame" in layouts:
            frame = layouts["_PyInterpreterFrame"]
            self._frame_format = frame.packed(
                "f_executable" if "f_executable" in frame else "f_code", "previous",
                "instr_ptr" if "instr_ptr" in frame else "prev_instr",
                *(() if self._version >= (3, 12) else ("is_entry",)), "owner")

    def stack(self, tstate: int) -> PyStack:
        """The Python stack of a thread (``PyThreadState *``)."""
        if self._frame_format is not None:
            return self._interpreter_frames(tstate)
        return self._frame_objects(tstate)

    def _interpreter_frames(self, tstate: int) -> PyStack:
        # CPython 3.13 Include/internal/pycore_frame.h; 3.11 and 3.12 reach the frame through a _PyCFrame
        known = self._layouts["PyThreadState"]
        cframes: list[int] = []
        calls: list[tuple[int, int | None]] = []
        problem = None
        at, cframe = self._newest(tstate)
        if cframe and self._version < (3, 12):
            cframes, problem = self._cframes(tstate, cframe)
        assert self._frame_format is not None
        start, form, places = self._frame_format
        has_shim = self._version >= (3, 12)
        unpack, made = self._memory.unpack, self._frames
        frames: list[PyFrame] = []
        seen: set[int] = set()
        begun = 0  # how many frames belong to calls of the eval loop that are complete
        mask = ~_TAG_BITS if self._tagged else -1
        entry = 0
        # the hot path of a report: a thousand threads have tens of thousands of frames
        in_order = places == tuple(range(len(places)))  # in every version so far
        while at and problem is None:
            if at in seen or len(frames) >= MAX_FRAMES:
                problem = self._endless(at in seen)
                break
            seen.add(at)
            try:
                values = unpack(form, at + start)
                if not in_order:
                    values = tuple([values[place] for place in places])
                if has_shim:
                    code, previous, instruction, owner = values
                else:
                    code, previous, instruction, entry, owner = values
                if has_shim and owner >= _OWNED_BY_NATIVE:
                    # since 3.15 the chain ends in a sentinel of the thread state that is no call of the eval loop
                    if previous or "base_frame" not in known:
                        calls.append((len(frames) - begun, at))
                        begun = len(frames)
                else:
                    found = made.get((code, instruction, owner))
                    if found is None:
                        found = self._frame(code, code & mask, instruction, owner)
                    if found is not None:
                        frames.append(found)
                    if entry:
                        calls.append((len(frames) - begun, cframes[len(calls)] if len(calls) < len(cframes) else None))
                        begun = len(frames)
            except GdbextError as error:
                problem = str(error)
                break
            at = previous
        if len(frames) > begun:
            calls.append((len(frames) - begun, None))
        return PyStack(tuple(frames), tuple(calls), problem)

    def _newest(self, tstate: int) -> tuple[int, int]:
        """The newest ``_PyInterpreterFrame *`` of a thread, and the ``_PyCFrame *`` that has it, in 3.11 and 3.12."""
        known = self._layouts["PyThreadState"]
        if "current_frame" in known:
            return known.reader("current_frame")(self._memory, tstate)[0], 0
        cframe, = known.reader("cframe")(self._memory, tstate)
        if cframe == 0:
            return 0, 0  # not bound to its thread yet
        return self._layouts["_PyCFrame"].reader("current_frame")(self._memory, cframe)[0], cframe

    def _cframes(self, tstate: int, cframe: int) -> tuple[list[int], str | None]:
        # the chain of _PyCFrame ends in the one that is embedded in the thread state
        root = tstate + self._layouts["PyThreadState"].offset("root_cframe")
        read = self._layouts["_PyCFrame"].reader("previous")
        found: list[int] = []
        while cframe and cframe != root:
            if len(found) >= MAX_FRAMES or (found and cframe in (found[-1], found[0])):
                return found, "the chain of C frames has a loop"
            found.append(cframe)
            try:
                cframe, = read(self._memory, cframe)
            except GdbextError as error:
                return found, str(error)
        return found, None

    def _frame(self, key: int, address: int, instruction: int, owner: int) -> PyFrame | None:
        """A frame of the code object at `address`; `key` is the pointer to it with its tag bits."""
        code = self._code(address)
        offset = self._offset(address, instruction)
        if not -2 <= offset <= code.size:
            raise CorruptStructure(address, f"an instruction of {code.name} lies outside its code")
        if owner == _OWNED_BY_THREAD and offset < 2 * code.first_traceable:
            return None  # has not begun to run: CPython does not show it either (_PyFrame_IsIncomplete)
        line, columns = None, None
        positions = positions_of(code.line_table, code.first_line, offset, self._version)
        if positions is not None:
            line, end_line, start, end = positions
            if start is not None and end is not None and end_line is not None:
                columns = Columns(start, end, end_line)
        made = self._frames[(key, instruction, owner)] = PyFrame(
            code.name, code.qualified_name, code.file, line, columns, code.kind)
        return made

    def _offset(self, address: int, instruction: int) -> int:
        """Byte offset of an instruction in the code object at `address`.

        In free-threaded builds each thread may have its own copy of the bytecode (CPython 3.14 Include/cpython/code.h,
        ``co_tlbc``).
        """
        code = self._code(address)
        offset = instruction - code.instructions
        if not self._has_copies or -2 <= offset <= code.size:
            return offset
        offsets = (instruction - copy for copy in self._copies(address))
        return next((found for found in offsets if -2 <= found <= code.size), offset)

    @remembered
    def _copies(self, address: int) -> tuple[int, ...]:
        """The addresses of the threads' own copies of a code object's instructions."""
        array, = self._layouts["PyCodeObject"].reader("co_tlbc")(self._memory, address)
        if not array:
            return ()
        known = self._layouts["_PyCodeArray"]
        size, = known.reader("size")(self._memory, array)
        if not 0 <= size <= _MAX_COPIES:
            raise CorruptStructure(array, f"{size} copies of the bytecode of one function")
        entries = self._memory.read(array + known.offset("entries"), 8 * size)
        return tuple([entry for entry in struct.unpack(f"<{size}Q", entries) if entry])

    def _object_frame(self, address: int, last: int) -> PyFrame:
        made = self._frames.get((address, last, _OWNED_BY_THREAD))
        if made is None:
            code = self._code(address)
            line = line_of(code.line_table, code.first_line, self._in_bytes(last), self._version)
            made = PyFrame(code.name, code.qualified_name, code.file, line, None, code.kind)
            self._frames[(address, last, _OWNED_BY_THREAD)] = made
        return made

    def _in_bytes(self, last: int) -> int:
        return last * 2 if self._version >= (3, 10) else last  # counted in units of two bytes since 3.10

    def _frame_objects(self, tstate: int) -> PyStack:
        # one frame object, one call of the eval loop
        at, = self._layouts["PyThreadState"].reader("frame")(self._memory, tstate)
        frames: list[PyFrame] = []
        problem = None
        try:
            for raw in self._iter_objects(at):
                frames.append(raw.frame)
        except GdbextError as error:
            problem = str(error)
        return PyStack(tuple(frames), ((1, None),) * len(frames), problem)

    def _iter_objects(self, at: int) -> Iterator[RawFrame]:
        """The frames of CPython 3.10 and earlier from a ``PyFrameObject *`` outwards.

        Source: CPython 3.10 Include/cpython/frameobject.h.

        :raises GdbextError: the next one cannot be read.
        """
        read = self._layouts["PyFrameObject"].reader("f_back", "f_code", "f_lasti")
        seen: set[int] = set()
        while at:
            if at in seen or len(seen) >= MAX_FRAMES:
                raise CorruptStructure(0, self._endless(at in seen))
            seen.add(at)
            back, code, last = read(self._memory, at)
            yield RawFrame(at, code, self._in_bytes(last), self._object_frame(code, last))
            at = back

    @staticmethod
    def _endless(has_loop: bool) -> str:
        return "the Python stack has a loop" if has_loop else f"cut after {MAX_FRAMES} Python frames"

    # -- frames with their variables -------------------------------------------------------------------------

    def raw(self, tstate: int, limit: int = MAX_FRAMES) -> list[RawFrame]:
        """The Python frames of a thread, innermost first, as far as they can be read.

        :param tstate: ``PyThreadState *``.
        :raises MemoryUnreadable: the thread state is not mapped, or not in the core.
        """
        if self._frame_format is not None:
            return self._raw_frames(self._newest(tstate)[0], limit)
        at, = self._layouts["PyThreadState"].reader("frame")(self._memory, tstate)
        return self._raw_objects(at, limit)

    def generator(self, address: int) -> list[RawFrame]:
        """The frame of a generator, coroutine or asynchronous generator that is not finished, if it can be read.

        Source: CPython 3.13 Include/internal/pycore_genobject.h; the three begin alike. Since 3.11 the frame is a
        part of the object.

        :param address: ``PyGenObject *``.
        """
        known = self._layouts["PyGenObject"]
        try:
            if "gi_iframe" in known:
                return self._raw_frames(address + known.offset("gi_iframe"), 1)
            at, = known.reader("gi_frame")(self._memory, address)
            return self._raw_objects(at, 1)
        except GdbextError:
            return []

    def _raw_frames(self, at: int, limit: int) -> list[RawFrame]:
        assert self._frame_format is not None
        start, form, places = self._frame_format
        known = self._raw
        unpack = self._memory.unpack
        code_place, previous_place, instruction_place, owner_place = places[0], places[1], places[2], places[-1]
        found: list[RawFrame] = []
        seen: set[int] = set()
        while at and len(found) < limit and at not in seen and len(seen) < MAX_FRAMES:
            seen.add(at)
            try:
                values = unpack(form, at + start)
                key = values[code_place], values[instruction_place], values[owner_place]
                place = known.get(key)
                if place is None and key not in known:
                    place = known[key] = self._place(*key)
            except GdbextError:
                break
            if place is not None:
                found.append(RawFrame(at, *place))
            at = values[previous_place]
        return found

    def _place(self, key: int, instruction: int, owner: int) -> tuple[int, int, PyFrame] | None:
        if owner >= _OWNED_BY_NATIVE:
            return None
        address = key & ~_TAG_BITS if self._tagged else key
        frame = self._frame(key, address, instruction, owner)
        return (address, self._offset(address, instruction), frame) if frame is not None else None

    def _raw_objects(self, at: int, limit: int) -> list[RawFrame]:
        found: list[RawFrame] = []
        try:
            for raw in itertools.islice(self._iter_objects(at), limit):
                found.append(raw)
        except GdbextError:
            pass
        return found

    def variables(self, raw: RawFrame) -> list[tuple[str, int]]:
        """(name, value) of a frame's local and free variables that have a value (``PyObject *``), cells unwrapped."""
        return [(name, value) for name, value in zip(self._shape(raw.code).names, self.variable_values(raw)) if value]

    def variable_values(self, raw: RawFrame) -> Sequence[int]:
        """The values (``PyObject *``, 0 for none) of a frame's local and free variables; see `variables`."""
        shape = self._shape(raw.code)
        values = self._slots(self._variables_at(raw), shape.variables)
        if not shape.cells:
            return values
        # since 3.11 such a variable is put into its cell only when the function has begun to run
        return [self._contents(value) if i in shape.cells else value for i, value in enumerate(values)]

    def variable(self, raw: RawFrame, name: str) -> int:
        """The value (``PyObject *``) of a frame's variable of that name, or 0."""
        shape = self._shape(raw.code)
        if name not in shape.names:
            return 0
        return next((value for known, value in self.variables(raw) if known == name), 0)

    def _contents(self, value: int) -> int:
        if value and self._objects.type_name(value) == "cell":
            return self._layouts["PyCellObject"].reader("ob_ref")(self._memory, value)[0]
        return value

    def stack_values(self, raw: RawFrame) -> tuple[int, ...]:
        """The values (``PyObject *``, 0 for NULL) on a frame's value stack, the oldest first.

        Where the frame has called, and since CPython 3.14 always, the number of live values is recorded. Elsewhere the
        result includes values that earlier calls left behind, which may be freed already.
        """
        return self._slots(self._stack_at(raw), self._live(raw))

    def lowest_values(self, raw: RawFrame, count: int) -> tuple[int, ...]:
        """The `count` oldest values (``PyObject *``, 0 for NULL) on a frame's value stack."""
        return self._slots(self._stack_at(raw), min(count, self._shape(raw.code).stack))

    def globals(self, raw: RawFrame) -> int:
        """The ``dict`` (``PyDictObject *``) of a frame's global variables."""
        known = self._layouts["PyFrameObject" if self._frame_format is None else "_PyInterpreterFrame"]
        return known.reader("f_globals")(self._memory, raw.address)[0]

    @remembered
    def names_of(self, code: int) -> Mapping[str, int]:
        """``co_names`` of a code object: the names of globals and attributes that it uses, in the order of the source.

        :param code: ``PyCodeObject *``.
        """
        names, = self._layouts["PyCodeObject"].reader("co_names")(self._memory, code)
        return {self._objects.string(name): i for i, name in enumerate(self._objects.tuple_items(names))}

    def code_of(self, function: int) -> int:
        """The code object (``PyCodeObject *``) of a function written in Python (``PyFunctionObject *``)."""
        return self._layouts["PyFunctionObject"].reader("func_code")(self._memory, function)[0]

    def _variables_at(self, raw: RawFrame) -> int:
        known = self._layouts
        if self._frame_format is None:
            return raw.address + known["PyFrameObject"].offset("f_localsplus")
        return raw.address + known["_PyInterpreterFrame"].offset("localsplus")

    def _stack_at(self, raw: RawFrame) -> int:
        if self._frame_format is None:
            return self._layouts["PyFrameObject"].reader("f_valuestack")(self._memory, raw.address)[0]
        return self._variables_at(raw) + 8 * self._shape(raw.code).variables

    def _slots(self, at: int, count: int) -> tuple[int, ...]:
        values = struct.unpack(f"<{count}Q", self._memory.read(at, 8 * count))
        if self._tagged:  # 1 is NULL, 3 marks a small number (Include/internal/pycore_stackref.h)
            values = tuple([value & ~_TAG_BITS if value & _TAG_BITS < 2 else 0 for value in values])
        return values

    def _live(self, raw: RawFrame) -> int:
        """The number of values on a frame's value stack; its capacity where no number is recorded."""
        shape = self._shape(raw.code)
        if "_PyInterpreterFrame" in self._layouts:
            known = self._layouts["_PyInterpreterFrame"]
            if "stackpointer" in known:
                top, = known.reader("stackpointer")(self._memory, raw.address)
                count = (top - self._stack_at(raw)) // 8
            else:
                count = known.reader("stacktop")(self._memory, raw.address)[0] - shape.variables
        elif "f_stackdepth" in self._layouts["PyFrameObject"]:
            count, = self._layouts["PyFrameObject"].reader("f_stackdepth")(self._memory, raw.address)
        else:
            top, base = self._layouts["PyFrameObject"].reader("f_stacktop", "f_valuestack")(self._memory, raw.address)
            count = (top - base) // 8 if top else -1
        return count if 0 <= count <= shape.stack else shape.stack

    @remembered
    def _shape(self, code: int) -> _Shape:
        known = self._layouts["PyCodeObject"]
        stack, = known.reader("co_stacksize")(self._memory, code)
        tuples: Sequence[int]
        if "co_nlocalsplus" in known:
            variables, *tuples = known.reader("co_nlocalsplus", "co_localsplusnames")(self._memory, code)
        else:  # local variables, then cells, then free variables
            variables, *tuples = known.reader("co_nlocals", "co_varnames", "co_cellvars", "co_freevars")(
                self._memory, code)
        parts = [self._objects.tuple_items(part) for part in tuples]
        if "co_localspluskinds" in known:
            kinds = self._objects.bytes(known.reader("co_localspluskinds")(self._memory, code)[0])
            cells = tuple([i for i, kind in enumerate(kinds[:_MAX_SLOTS]) if kind & _CELLS])
        else:
            cells = tuple(range(variables, variables + sum(map(len, parts[1:]))))
            variables += len(cells)
        if not (0 <= variables <= _MAX_SLOTS and 0 <= stack <= _MAX_SLOTS):
            raise CorruptStructure(code, f"a code object of {variables} variables and {stack} values")
        names = tuple([self._objects.key_name(name) or "?" for part in parts for name in part])
        return _Shape(variables, stack, names, cells)

    @remembered
    def _code(self, address: int) -> _Code:
        if self._objects.type_name(address) != "code":
            raise CorruptStructure(address, "a frame's code object is no code object")
        known = self._layouts["PyCodeObject"]
        file, name, table, first_line, flags = known.reader(
            "co_filename", "co_name", "co_linetable", "co_firstlineno", "co_flags")(self._memory, address)
        qualified = name
        if "co_qualname" in known:
            qualified, = known.reader("co_qualname")(self._memory, address)
        instructions, size, first_traceable = 0, 0, 0
        if "co_code_adaptive" in known:
            units, = self._layouts["PyVarObject"].reader("ob_size")(self._memory, address)
            instructions, size = address + known.offset("co_code_adaptive"), 2 * units
            if not 0 <= units <= 1 << 28:
                raise CorruptStructure(address, f"a code object of {units} instructions")
            first_traceable, = known.reader("_co_firsttraceable")(self._memory, address)
        text = self._objects.string(name)
        return _Code(
            text, self._objects.string(qualified) if qualified != name else text, self._objects.string(file),
            first_line, self._objects.bytes(table), instructions, size, first_traceable,
            next((kind for flag, kind in _KINDS if flags & flag), None))
