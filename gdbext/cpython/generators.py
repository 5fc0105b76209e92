"""What a generator, coroutine or asynchronous generator does: runs, is suspended, delegates to another, has ended.

Structure: ``PyGenObject``; coroutines and asynchronous generators have the same beginning.

Sources: CPython 3.7, 3.11, 3.13 and 3.15 Objects/genobject.c (``_PyGen_yf``), Include/internal/pycore_frame.h
(``PyFrameState``).
"""

from __future__ import annotations

from functools import cached_property
from typing import Final

from gdbext.cpython.frames import FrameReader, RawFrame
from gdbext.cpython.objects import Objects
from gdbext.errors import GdbextError, UnknownLayout
from gdbext.inferior.protocol import Memory
from gdbext.layout.opcodes import Opcodes, opcodes_of
from gdbext.layout.table import Layouts
from gdbext.record import record
from gdbext.remembered import remembered

#: Longest chain of coroutines that await one another, in one task.
MAX_DEPTH = 1_000
#: Names of the types that have the beginning of a ``PyGenObject``.
GENERATORS: Final = ("coroutine", "generator", "async_generator")

_YIELD_FROM = 72  # CPython 3.7 to 3.10
_AFTER_YIELD_FROM = 2  # RESUME's argument: 1 after yield, 2 after yield from, 3 after await


#: Wrappers of another awaitable: type name -> structure and member that has it.
_STAND_INS = {
    "async_generator_asend": ("PyAsyncGenASend", "ags_gen"),
    "async_generator_athrow": ("PyAsyncGenAThrow", "agt_gen"),
    "coroutine_wrapper": ("PyCoroWrapper", "cw_coroutine"),
    "anext_awaitable": ("anextawaitableobject", "wrapped"),
}


@record
class AwaitChain:
    """The frames of a task that is not running, outermost first. `problem` says why frames may be missing.

    `generators` has the generator or coroutine (``PyGenObject *``) of each frame.
    """

    frames: tuple[RawFrame, ...]
    problem: str | None = None
    generators: tuple[int, ...] = ()


class Generators:
    """Reads the states of generators. All addresses are ``PyGenObject *``.

    Since CPython 3.11 the generator has its state, in 3.10 its frame. The numbers of the states are data, because they
    change between versions.
    """

    def __init__(self, memory: Memory, layouts: Layouts, objects: Objects, frames: FrameReader) -> None:
        self._memory = memory
        self._layouts = layouts
        self._objects = objects
        self._frames = frames
        self._in_generator = layouts.has("PyGenObject", "gi_frame_state")
        self._in_frame = layouts.has("PyFrameObject", "f_state")

    @cached_property
    def _known(self) -> Opcodes:
        version = self._layouts.version_tuple
        known = opcodes_of(*version[:2])
        if known is None or not known.frame_states:
            raise UnknownLayout(f"the states of generators are not known in CPython {self._layouts.version}")
        return known

    # ten thousand tasks ask for these
    @cached_property
    def _suspended(self) -> frozenset[int]:
        return self._known.states("FRAME_SUSPENDED")

    @cached_property
    def _delegating(self) -> frozenset[int]:
        return self._known.states("FRAME_SUSPENDED_YIELD_FROM")

    @cached_property
    def _executing(self) -> frozenset[int]:
        return self._known.states("FRAME_EXECUTING")

    @cached_property
    def _resumes(self) -> frozenset[int]:
        return self._known.numbers("RESUME")

    def is_suspended(self, generator: int) -> bool:
        """Whether a generator waits at a ``yield`` or ``await``.

        :raises UnknownLayout: the states of this CPython are not known; so do all methods.
        """
        if self._in_generator:
            return self._state(generator) in self._suspended
        frame = self._objects.read_member("PyGenObject", generator, "gi_frame")
        if not frame:
            return False
        if self._in_frame:
            return self._frame_state(frame) in self._suspended
        executing, top, instruction = self._objects.read_members(
            "PyFrameObject", frame, "f_executing", "f_stacktop", "f_lasti")
        return not executing and top != 0 and instruction >= 0

    def is_executing(self, generator: int) -> bool:
        """Whether a generator runs now in some thread; the running code may be that of another one it awaits."""
        if self._in_generator:
            return self._state(generator) in self._executing
        frame = self._objects.read_member("PyGenObject", generator, "gi_frame")
        if frame and self._in_frame:
            return self._frame_state(frame) in self._executing
        return bool(frame and self._objects.read_member("PyFrameObject", frame, "f_executing"))

    def has_ended(self, generator: int) -> bool:
        """Whether a generator has returned or raised."""
        if self._in_generator:
            ended = self._known.states("FRAME_COMPLETED") | self._known.states("FRAME_CLEARED")
            return self._state(generator) in ended
        return self._objects.read_member("PyGenObject", generator, "gi_frame") == 0

    def awaited(self, generator: int, frame: RawFrame) -> int:
        """The awaitable (``PyObject *``) that a suspended generator with this frame has delegated to, or 0."""
        if not self._has_delegated(generator, frame):
            return 0
        values = self._frames.stack_values(frame)
        # since 3.15 another value is on top of it
        depth = 2 if self._layouts.version_tuple >= (3, 15) else 1
        return values[-depth] if len(values) >= depth else 0

    @remembered
    def await_chain(self, coroutine: int) -> AwaitChain:
        """The frames of a suspended task, from its coroutine (``PyObject *``) to the innermost awaited one."""
        found: dict[int, RawFrame] = {}
        problem = None
        seen: set[int] = set()
        at = coroutine
        try:
            while at:
                if at in seen or len(seen) >= MAX_DEPTH:
                    problem = ("the coroutines await one another in a circle" if at in seen
                               else f"cut after {MAX_DEPTH} coroutines")
                    break
                seen.add(at)
                kind = self._objects.type_name(at)
                if kind in GENERATORS:
                    frame = self._frames.generator(at)
                    if frame is None:
                        if not self.has_ended(at):
                            problem = f"the frame of the {kind} at {at:#x} cannot be read"
                        break
                    found[at] = frame
                    at = self.awaited(at, frame)
                elif kind in _STAND_INS:
                    name, member = _STAND_INS[kind]
                    at, = self._layouts[name].reader(member)(self._memory, at)
                else:
                    break  # a future, or an awaitable written in C
        except GdbextError as error:
            problem = str(error)
        return AwaitChain(tuple(found.values()), problem, tuple(found))

    def _has_delegated(self, generator: int, frame: RawFrame) -> bool:
        # as _PyGen_yf: by the state since 3.13, before by the instruction that comes next
        if self._in_generator:
            if self._delegating:
                return self._state(generator) in self._delegating
            start = frame.code + self._layouts["PyCodeObject"].offset("co_code_adaptive")
            opcode, argument = self._memory.read(start + frame.offset + 2, 2)
            return (self.is_suspended(generator) and opcode in self._resumes
                    and argument >= _AFTER_YIELD_FROM)
        if frame.offset < 0:
            return False
        suspended = (self._frame_state(frame.address) in self._suspended if self._in_frame
                     else self._objects.read_member("PyFrameObject", frame.address, "f_stacktop") != 0)
        return suspended and self._yields_from(frame.code, frame.offset)

    @remembered
    def _yields_from(self, code_object: int, offset: int) -> bool:
        """Whether YIELD_FROM follows the instruction at an offset of a code object (CPython 3.10 and earlier)."""
        code = self._objects.read_member("PyCodeObject", code_object, "co_code")
        at = code + self._layouts["PyBytesObject"].offset("ob_sval") + offset + 2
        return self._memory.read(at, 1)[0] == _YIELD_FROM

    def _state(self, generator: int) -> int:
        return self._objects.read_member("PyGenObject", generator, "gi_frame_state")

    def _frame_state(self, frame: int) -> int:
        return self._objects.read_member("PyFrameObject", frame, "f_state")
