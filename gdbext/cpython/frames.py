"""Python frames of a thread: function, file, line, variables, and the native calls of the eval loop that run them.

Structures: ``PyFrameObject`` (CPython 3.10 and earlier), ``_PyInterpreterFrame`` (3.11 and later), ``PyCodeObject``,
``PyGenObject``.
"""

from __future__ import annotations

import operator
import struct
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from gdbext.cpython.code.linetable import line_of, positions_of
from gdbext.cpython.objects import MAX_BYTES, Objects
from gdbext.errors import CorruptStructure, GdbextError, if_unreadable
from gdbext.inferior.cache import cached
from gdbext.inferior.protocol import Memory
from gdbext.layout.table import Layouts
from gdbext.model import Columns, PyFrame
from gdbext.record import record
from gdbext.remembered import remembered

#: How deep a stack is followed to find its outermost frames.
_MAX_DEPTH = 1 << 19
#: Largest number of frames of one thread; Python's own recursion limit is usually 1,000.
MAX_FRAMES = 20_000
#: The smallest owner of frames of the interpreter itself (FRAME_OWNED_BY_CSTACK, FRAME_OWNED_BY_INTERPRETER;
#: Include/internal/pycore_frame.h).
_OWNED_BY_NATIVE = 3
_OWNED_BY_THREAD = 0
_TAG_BITS = 3  # of a _PyStackRef, since 3.14
_CELLS = 0x40 | 0x80  # CO_FAST_CELL, CO_FAST_FREE (Include/internal/pycore_code.h)
#: Bits of ``co_flags`` (CO_GENERATOR, CO_COROUTINE, CO_ASYNC_GENERATOR; Include/cpython/code.h).
_KINDS = ((0x20, "generator"), (0x80, "coroutine"), (0x200, "async generator"))
#: Largest number of variables, and of values on the value stack, of one frame.
_MAX_SLOTS = 1 << 14
#: Largest plausible number of per-thread copies of a function's bytecode.
_MAX_COPIES = 1 << 16


@record
class PyStack:
    """Python frames, innermost first, and their links to the native stack.

    `calls` has an item for each native call of the eval loop, innermost first: the number of frames that the call runs,
    and the address of an object inside its native frame (a ``_PyCFrame`` or an entry frame; None where the version has
    no such object). `problem` says why the walk ended early.
    """

    frames: tuple[PyFrame, ...]
    calls: tuple[tuple[int, int | None], ...]
    problem: str | None = None


class RawFrame(NamedTuple):
    """A Python frame in memory.

    `address` is a ``PyFrameObject *``, since CPython 3.11 a ``_PyInterpreterFrame *``. `code` is a ``PyCodeObject *``.
    `offset` is that of the current instruction in bytes, negative before the first one.
    """

    address: int
    code: int
    offset: int
    frame: PyFrame


#: The last three fields of a `RawFrame`.
_Place = tuple[int, int, PyFrame]


@record
class _Shape:
    """The number of a frame's variables, the capacity of its value stack, and the indices of possible cells."""

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
        # by code object, instruction and owner as stored in the frame; None for a frame that is not shown
        self._places: dict[tuple[int, int, int], _Place | None] = {}
        self._version = layouts.version_tuple
        self._tagged = self._version >= (3, 14)
        self._has_copies = layouts.has("PyCodeObject", "co_tlbc") and layouts.has("_PyCodeArray", "entries")
        self._has_frame_objects = "_PyInterpreterFrame" not in layouts  # 3.10 and earlier
        if self._has_frame_objects:
            self._start, self._format, places = layouts["PyFrameObject"].packed("f_code", "f_back", "f_lasti")
        else:
            frame = layouts["_PyInterpreterFrame"]
            self._start, self._format, places = frame.packed(
                "f_executable" if "f_executable" in frame else "f_code", "previous",
                "instr_ptr" if "instr_ptr" in frame else "prev_instr",
                *(() if self._version >= (3, 12) else ("is_entry",)), "owner")
        self._pick = None if places == tuple(range(len(places))) else operator.itemgetter(*places)

    def stack(self, tstate: int) -> PyStack:
        """The Python stack of a thread (``PyThreadState *``).

        :raises MemoryUnreadable: the thread state is not mapped, or not in the core.
        """
        return self._thread(tstate)[0]

    def raw(self, tstate: int, limit: int | None = None) -> list[RawFrame]:
        """The readable Python frames of a thread (``PyThreadState *``), innermost first, at most `limit`.

        :raises MemoryUnreadable: the thread state is not mapped, or not in the core.
        """
        places = self._thread(tstate)[1] if limit is None else self._walk(self._newest(tstate), limit=limit)[0]
        return [RawFrame(at, *place) for at, place in places.items() if place is not None]

    @remembered
    def _thread(self, tstate: int) -> tuple[PyStack, dict[int, _Place | None]]:
        """The Python stack of a thread, and its frames by address: a report needs both of thousands of threads."""
        cframes: list[int] = []
        unordered = None
        if not self._has_frame_objects and self._version < (3, 12):
            cframes, unordered = self._cframes(tstate)
        places, frames, calls, problem = self._walk(self._newest(tstate), cframes)
        stack = PyStack(tuple(frames), tuple(calls), problem)
        return stack if unordered is None else PyStack((), (), unordered), places

    def outermost(self, tstate: int, count: int) -> list[PyFrame]:
        """The outermost Python frames of a thread (``PyThreadState *``), innermost of them first, however deep it is.

        :raises MemoryUnreadable: the thread state, or a frame, is not mapped, or not in the core.
        """
        last: deque[int] = deque(maxlen=2 * count)  # some frames are those of native calls
        at, unpack, pick = self._newest(tstate), self._memory.unpack, self._pick
        for _ in range(_MAX_DEPTH):
            if not at:
                return self._walk(last[0])[1][-count:] if last else []
            last.append(at)
            values = unpack(self._format, at + self._start)
            at = (values if pick is None else pick(values))[1]
        return []

    @if_unreadable(None)
    def generator(self, address: int) -> RawFrame | None:
        """The frame of a generator, coroutine or asynchronous generator; None if it has ended or is unreadable.

        Source: CPython 3.13 Include/internal/pycore_genobject.h; the three structures have the same beginning. Since
        3.11 the frame is a part of the object.

        :param address: ``PyGenObject *``.
        """
        known = self._layouts["PyGenObject"]
        at = address + known.offset("gi_iframe") if "gi_iframe" in known else (
            self._objects.read_member("PyGenObject", address, "gi_frame"))
        places = self._walk(at, limit=1)[0]
        return next((RawFrame(found, *place) for found, place in places.items() if place is not None), None)

    def of_frame_object(self, address: int) -> list[RawFrame]:
        """The frame of a frame object (``PyFrameObject *``) and its callers, innermost first, of code that waits.

        :raises GdbextError: a frame cannot be read.
        """
        at = address if self._has_frame_objects else self._objects.read_member("PyFrameObject", address, "f_frame")
        places, _, _, problem = self._walk(at)
        if problem is not None:
            raise CorruptStructure(address, problem)
        return [RawFrame(found, *place) for found, place in places.items() if place is not None]

    def resumed(self, raw: RawFrame) -> RawFrame:
        """The frame of a suspended generator, at the instruction where it will be resumed if a handler covers that."""
        # 3.12 notes the instruction that yields, which has a handler of its own; later ones the one after it
        return raw._replace(offset=raw.offset + 2) if self._version[:2] == (3, 12) else raw

    def owned_values(self, raw: RawFrame) -> list[int]:
        """The objects (``PyObject *``) that a frame certainly has references to, one item for each reference.

        These are its variables, and since CPython 3.14 the values on its stack. Earlier versions do not record the
        height of the stack of a running frame. Cells are not unwrapped: another function may share them.
        """
        shape = self._shape(raw.code)
        count = shape.variables + (self._live(raw) if self._layouts.has("_PyInterpreterFrame", "stackpointer") else 0)
        values = struct.unpack(f"<{count}Q", self._memory.read(self._variables_at(raw), 8 * count))
        # since 3.14 a tagged value does not count in the object's reference count (Py_TAG_REFCNT)
        return [value for value in values if value and not (self._tagged and value & _TAG_BITS)]

    def _newest(self, tstate: int) -> int:
        """The innermost frame of a thread. CPython 3.11 and 3.12 reach it through a ``_PyCFrame``."""
        known = self._layouts["PyThreadState"]
        if self._has_frame_objects:
            return self._objects.read_member("PyThreadState", tstate, "frame")
        if "current_frame" in known:
            return self._objects.read_member("PyThreadState", tstate, "current_frame")
        cframe = self._objects.read_member("PyThreadState", tstate, "cframe")
        # null: not bound to its thread yet
        return self._objects.read_member("_PyCFrame", cframe, "current_frame") if cframe else 0

    def _cframes(self, tstate: int) -> tuple[list[int], str | None]:
        """The chain of ``_PyCFrame``, up to the one inside the thread state, and why it ended early."""
        root = tstate + self._layouts["PyThreadState"].offset("root_cframe")
        cframe = self._objects.read_member("PyThreadState", tstate, "cframe")
        found: list[int] = []
        while cframe and cframe != root:
            if len(found) >= MAX_FRAMES or (found and cframe in (found[-1], found[0])):
                return found, "the chain of C frames has a loop"
            found.append(cframe)
            try:
                cframe = self._objects.read_member("_PyCFrame", cframe, "previous")
            except GdbextError as error:
                return found, str(error)
        return found, None

    def _walk(self, at: int, cframes: Sequence[int] = (), limit: int | None = None) -> tuple[
            dict[int, _Place | None], list[PyFrame], list[tuple[int, int | None]], str | None]:
        """Walk the frames from one outwards: places by address, and the three parts of a `PyStack`.

        Sources: CPython 3.13 Include/internal/pycore_frame.h; CPython 3.10 Include/cpython/frameobject.h.
        """
        start, form, pick = self._start, self._format, self._pick
        has_shim, has_frame_objects = self._version >= (3, 12), self._has_frame_objects
        # since 3.15 the chain ends in a sentinel of the thread state, which is not a call of the eval loop
        has_sentinel = "base_frame" in self._layouts["PyThreadState"]
        unpack, known = self._memory.unpack, self._places
        found: list[PyFrame] = []
        calls: list[tuple[int, int | None]] = []
        problem = None
        seen: dict[int, _Place | None] = {}
        begun = 0  # number of frames that belong to complete calls of the eval loop
        entry, owner = int(has_frame_objects), _OWNED_BY_THREAD  # each frame object is a call of its own
        # the hot path of a report: a thousand threads have tens of thousands of frames
        while at and len(found) != limit:
            if at in seen or len(seen) >= MAX_FRAMES:
                problem = "the Python stack has a loop" if at in seen else f"cut after {MAX_FRAMES} Python frames"
                break
            try:
                values = unpack(form, at + start)
                if pick is not None:
                    values = pick(values)
                if has_shim:
                    code, previous, instruction, owner = values
                elif has_frame_objects:
                    code, previous, instruction = values
                else:
                    code, previous, instruction, entry, owner = values
                if has_shim and owner >= _OWNED_BY_NATIVE:
                    seen[at] = None
                    if previous or not has_sentinel:
                        calls.append((len(found) - begun, at))
                        begun = len(found)
                else:
                    key = code, instruction, owner
                    place = known.get(key)
                    if place is None and key not in known:
                        place = known[key] = self._place(*key)
                    seen[at] = place
                    if place is not None:
                        found.append(place[2])
                    if entry:
                        calls.append((len(found) - begun, cframes[len(calls)] if len(calls) < len(cframes) else None))
                        begun = len(found)
            except GdbextError as error:
                problem = str(error)
                break
            at = previous
        if len(found) > begun:
            calls.append((len(found) - begun, None))
        return seen, found, calls, problem

    def _place(self, executable: int, instruction: int, owner: int) -> _Place | None:
        """Code object, offset and frame; None for a frame that is not shown.

        :param executable: the frame's pointer to its code object, with tag bits since 3.14.
        """
        address = executable & ~_TAG_BITS if self._tagged else executable
        code = self._code(address)
        if self._has_frame_objects:
            offset = instruction * 2 if self._version >= (3, 10) else instruction  # in units of two bytes since 3.10
        else:
            offset = self._offset(address, instruction)
            if not -2 <= offset <= code.size:
                raise CorruptStructure(address, f"an instruction of {code.name} is outside its code")
            if owner == _OWNED_BY_THREAD and offset < 2 * code.first_traceable:
                return None  # has not begun to run: CPython does not show it either (_PyFrame_IsIncomplete)
        line, columns = None, None
        positions = positions_of(code.line_table, code.first_line, offset, self._version)
        if positions is None:
            line = line_of(code.line_table, code.first_line, offset, self._version)
        else:
            line, end_line, start, end = positions
            if start is not None and end is not None and end_line is not None:
                columns = Columns(start, end, end_line)
        return address, offset, PyFrame(code.name, code.qualified_name, code.file, line, columns, code.kind)

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
        array = self._objects.read_member("PyCodeObject", address, "co_tlbc")
        if not array:
            return ()
        size = self._objects.read_member("_PyCodeArray", array, "size")
        if not 0 <= size <= _MAX_COPIES:
            raise CorruptStructure(array, f"{size} copies of the bytecode of one function")
        entries = self._memory.read(array + self._layouts["_PyCodeArray"].offset("entries"), 8 * size)
        return tuple([entry for entry in struct.unpack(f"<{size}Q", entries) if entry])

    # -- variables -------------------------------------------------------------------------------------------

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
        return [self._cell_contents(value) if i in shape.cells else value for i, value in enumerate(values)]

    def variable(self, raw: RawFrame, name: str) -> int:
        """The value (``PyObject *``) of a frame's variable of that name, or 0."""
        if name not in self._shape(raw.code).names:
            return 0
        return next((value for known, value in self.variables(raw) if known == name), 0)

    def _cell_contents(self, value: int) -> int:
        if value and self._objects.type_name(value) == "cell":
            return self._objects.read_member("PyCellObject", value, "ob_ref")
        return value

    def stack_values(self, raw: RawFrame) -> tuple[int, ...]:
        """The values (``PyObject *``, 0 for NULL) on a frame's value stack, the oldest first.

        The number of live values is recorded where the frame has called, and since CPython 3.14 always. Elsewhere the
        result includes values that earlier calls left behind, which may be freed already.
        """
        return self._slots(self._stack_at(raw), self._live(raw))

    def lowest_values(self, raw: RawFrame, count: int) -> tuple[int, ...]:
        """The `count` oldest values (``PyObject *``, 0 for NULL) on a frame's value stack."""
        return self._slots(self._stack_at(raw), min(count, self._shape(raw.code).stack))

    def globals(self, raw: RawFrame) -> int:
        """The ``dict`` (``PyDictObject *``) of a frame's global variables."""
        kind = "PyFrameObject" if self._has_frame_objects else "_PyInterpreterFrame"
        return self._objects.read_member(kind, raw.address, "f_globals")

    @remembered
    def names_of(self, code: int) -> Mapping[str, int]:
        """``co_names`` of a code object: the names of globals and attributes that it uses, in the order of the source.

        :param code: ``PyCodeObject *``.
        """
        names = self._objects.tuple_items(self._objects.read_member("PyCodeObject", code, "co_names"))
        return {self._objects.string(name): i for i, name in enumerate(names)}

    def variable_names(self, code: int) -> tuple[Sequence[str], Collection[int]]:
        """The names of a code object's local and free variables, and the indices of those that may be in cells."""
        shape = self._shape(code)
        return shape.names, shape.cells

    def instructions(self, code: int) -> bytes:
        """The bytecode of a code object, since CPython 3.11 as the interpreter has specialised it.

        :raises CorruptStructure: there are more than `MAX_BYTES` of `gdbext.cpython.objects`.
        """
        if self._has_frame_objects:
            return self._objects.bytes(self._objects.read_member("PyCodeObject", code, "co_code"))
        known = self._code(code)
        if known.size > MAX_BYTES:
            raise CorruptStructure(code, f"bytecode of {known.size} bytes")
        return self._memory.read(known.instructions, known.size)

    def line(self, code: int, offset: int) -> int | None:
        """The line of the instruction at an offset in bytes of a code object (``PyCodeObject *``)."""
        known = self._code(code)
        return line_of(known.line_table, known.first_line, offset, self._version)

    def code_of(self, function: int) -> int:
        """The code object (``PyCodeObject *``) of a function written in Python (``PyFunctionObject *``)."""
        return self._objects.read_member("PyFunctionObject", function, "func_code")

    def _variables_at(self, raw: RawFrame) -> int:
        if self._has_frame_objects:
            return raw.address + self._layouts["PyFrameObject"].offset("f_localsplus")
        return raw.address + self._layouts["_PyInterpreterFrame"].offset("localsplus")

    def _stack_at(self, raw: RawFrame) -> int:
        if self._has_frame_objects:
            return self._objects.read_member("PyFrameObject", raw.address, "f_valuestack")
        return self._variables_at(raw) + 8 * self._shape(raw.code).variables

    def _slots(self, at: int, count: int) -> tuple[int, ...]:
        values = struct.unpack(f"<{count}Q", self._memory.read(at, 8 * count))
        if self._tagged:  # 1 is NULL, 3 marks a small number (Include/internal/pycore_stackref.h)
            values = tuple([value & ~_TAG_BITS if value & _TAG_BITS < 2 else 0 for value in values])
        return values

    def _live(self, raw: RawFrame) -> int:
        """The number of values on a frame's value stack; its capacity where no number is recorded."""
        shape = self._shape(raw.code)
        if self._layouts.has("_PyInterpreterFrame", "stackpointer"):
            top = self._objects.read_member("_PyInterpreterFrame", raw.address, "stackpointer")
            count = (top - self._stack_at(raw)) // 8
        elif not self._has_frame_objects:
            count = self._objects.read_member("_PyInterpreterFrame", raw.address, "stacktop") - shape.variables
        elif self._layouts.has("PyFrameObject", "f_stackdepth"):
            count = self._objects.read_member("PyFrameObject", raw.address, "f_stackdepth")
        else:
            top = self._objects.read_member("PyFrameObject", raw.address, "f_stacktop")
            count = (top - self._stack_at(raw)) // 8 if top else -1
        return count if 0 <= count <= shape.stack else shape.stack

    @remembered
    def _shape(self, code: int) -> _Shape:
        known = self._layouts["PyCodeObject"]
        tuples: Sequence[int]
        if "co_nlocalsplus" in known:
            stack, variables, *tuples = self._objects.read_members(
                "PyCodeObject", code, "co_stacksize", "co_nlocalsplus", "co_localsplusnames")
        else:  # local variables, then cells, then free variables
            stack, variables, *tuples = self._objects.read_members(
                "PyCodeObject", code, "co_stacksize", "co_nlocals", "co_varnames", "co_cellvars", "co_freevars")
        parts = [self._objects.tuple_items(part) for part in tuples]
        if "co_localspluskinds" in known:
            kinds = self._objects.bytes(self._objects.read_member("PyCodeObject", code, "co_localspluskinds"))
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
            raise CorruptStructure(address, "a frame's code object is not a code object")
        known = self._layouts["PyCodeObject"]
        file, name, table, first_line, flags = self._objects.read_members(
            "PyCodeObject", address, "co_filename", "co_name", "co_linetable", "co_firstlineno", "co_flags")
        qualified = name
        if "co_qualname" in known:
            qualified = self._objects.read_member("PyCodeObject", address, "co_qualname")
        instructions, size, first_traceable = 0, 0, 0
        if "co_code_adaptive" in known:
            units = self._objects.read_member("PyVarObject", address, "ob_size")
            instructions, size = address + known.offset("co_code_adaptive"), 2 * units
            if not 0 <= units <= 1 << 28:
                raise CorruptStructure(address, f"a code object of {units} instructions")
            first_traceable = self._objects.read_member("PyCodeObject", address, "_co_firsttraceable")
        text = self._objects.string(name)
        return _Code(
            text, self._objects.string(qualified) if qualified != name else text, self._objects.string(file),
            first_line, self._objects.bytes(table), instructions, size, first_traceable,
            next((kind for flag, kind in _KINDS if flags & flag), None))
