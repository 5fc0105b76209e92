"""Python frames of a thread state, with function, file and line, and where each call of the eval loop began.

Structures: ``PyFrameObject`` (CPython 3.10 and earlier), ``_PyInterpreterFrame`` (3.11 and later), ``PyCodeObject``.
Merging with native frames is for `analysis.stacks`.
"""

from __future__ import annotations

from dataclasses import dataclass

from gdbext.cpython.linetable import line_of
from gdbext.cpython.objects import Objects
from gdbext.errors import CorruptStructure, GdbextError
from gdbext.layout.table import Layouts
from gdbext.model import PyFrame
from gdbext.target.cache import cached
from gdbext.target.protocol import Memory

#: Most frames of one thread; Python's own recursion limit is usually 1,000.
MAX_FRAMES = 20_000
#: Up to 3.13 frames of the interpreter itself are marked by an owner of at least this (FRAME_OWNED_BY_CSTACK,
#: FRAME_OWNED_BY_INTERPRETER; Include/internal/pycore_frame.h).
_OWNED_BY_NATIVE = 3
_OWNED_BY_THREAD = 0
_TAG_BITS = 3  # of a _PyStackRef, since 3.14


@dataclass(frozen=True)
class PyStack:
    """Python frames, innermost first, and what links them to the native stack.

    `calls` holds, for each native call of the eval loop, innermost first, how many of the frames it runs and the
    address of an object that lies in its native frame (a ``_PyCFrame`` or an entry frame; None where the version
    has no such thing). `problem` tells why the walk ended early.
    """

    frames: tuple[PyFrame, ...]
    calls: tuple[tuple[int, int | None], ...]
    problem: str | None = None


@dataclass(frozen=True)
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


class FrameReader:
    """Reads the stacks of one runtime; code objects and lines are decoded once."""

    def __init__(self, memory: Memory, layouts: Layouts, objects: Objects) -> None:
        self._memory = cached(memory)
        self._layouts = layouts
        self._objects = objects
        self._codes: dict[int, _Code] = {}
        # by code object, instruction and owner, all as the target has them
        self._frames: dict[tuple[int, int, int], PyFrame] = {}
        self._version = layouts.version_tuple
        self._tagged = self._version >= (3, 14)
        self._frame_format = None
        if "_PyInterpreterFrame" in layouts:
            frame = layouts["_PyInterpreterFrame"]
            self._frame_format = frame.packed(
                "f_executable" if "f_executable" in frame else "f_code", "previous",
                "instr_ptr" if "instr_ptr" in frame else "prev_instr",
                *(() if self._version >= (3, 12) else ("is_entry",)), "owner")

    def stack(self, tstate: int) -> PyStack:
        """The Python stack of a thread.

        :param tstate: ``PyThreadState *``.
        """
        if self._frame_format is not None:
            return self._interpreter_frames(tstate)
        return self._frame_objects(tstate)

    def _interpreter_frames(self, tstate: int) -> PyStack:
        # CPython 3.13 Include/internal/pycore_frame.h; 3.11 and 3.12 reach the frame through a _PyCFrame
        known = self._layouts["PyThreadState"]
        cframes: list[int] = []
        calls: list[tuple[int, int | None]] = []
        problem = None
        if "current_frame" in known:
            at, = known.reader("current_frame")(self._memory, tstate)
        else:
            cframe, = known.reader("cframe")(self._memory, tstate)
            if cframe == 0:
                return PyStack((), ())  # not bound to its thread yet
            at, = self._layouts["_PyCFrame"].reader("current_frame")(self._memory, cframe)
            if self._version < (3, 12):
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
                problem = "the Python stack has a loop" if at in seen else f"cut after {MAX_FRAMES} Python frames"
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
        offset = instruction - code.instructions
        if not -2 <= offset <= code.size:
            raise CorruptStructure(address, f"an instruction of {code.name} lies outside its code")
        if owner == _OWNED_BY_THREAD and offset < 2 * code.first_traceable:
            return None  # has not begun to run: CPython does not show it either (_PyFrame_IsIncomplete)
        line = line_of(code.line_table, code.first_line, offset, self._version)
        made = self._frames[(key, instruction, owner)] = PyFrame(code.name, code.qualified_name, code.file, line)
        return made

    def _frame_objects(self, tstate: int) -> PyStack:
        # CPython 3.10 Include/cpython/frameobject.h: one frame object, one call of the eval loop
        at, = self._layouts["PyThreadState"].reader("frame")(self._memory, tstate)
        read = self._layouts["PyFrameObject"].reader("f_back", "f_code", "f_lasti")
        unit = 2 if self._version >= (3, 10) else 1
        frames: list[PyFrame] = []
        seen: set[int] = set()
        problem = None
        while at:
            if at in seen or len(frames) >= MAX_FRAMES:
                problem = "the Python stack has a loop" if at in seen else f"cut after {MAX_FRAMES} Python frames"
                break
            seen.add(at)
            try:
                back, address, last = read(self._memory, at)
                made = self._frames.get((address, last, _OWNED_BY_THREAD))
                if made is None:
                    code = self._code(address)
                    line = line_of(code.line_table, code.first_line, last * unit, self._version)
                    made = PyFrame(code.name, code.qualified_name, code.file, line)
                    self._frames[(address, last, _OWNED_BY_THREAD)] = made
                frames.append(made)
            except GdbextError as error:
                problem = str(error)
                break
            at = back
        return PyStack(tuple(frames), ((1, None),) * len(frames), problem)

    def _code(self, address: int) -> _Code:
        """Decode a code object (``PyCodeObject *``)."""
        known_code = self._codes.get(address)
        if known_code is not None:
            return known_code
        if self._objects.type_name(address) != "code":
            raise CorruptStructure(address, "a frame's code object is no code object")
        known = self._layouts["PyCodeObject"]
        file, name, table, first_line = known.reader("co_filename", "co_name", "co_linetable", "co_firstlineno")(
            self._memory, address)
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
        made = self._codes[address] = _Code(
            text, self._objects.string(qualified) if qualified != name else text, self._objects.string(file),
            first_line, self._objects.bytes(table), instructions, size, first_traceable)
        return made
