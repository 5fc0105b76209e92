"""Greenlets of the package `greenlet`, on which gevent and eventlet are built: their states, threads and frames.

Structures: ``PyGreenlet`` and the C++ class ``greenlet::Greenlet`` behind its ``pimpl``.

Sources: greenlet 2.0.2 src/greenlet/greenlet.h, greenlet_greenlet.hpp; greenlet 3.0.3, 3.1.1 and 3.5.3
src/greenlet/TGreenlet.hpp, TPythonState.cpp (``operator<<``), TExceptionState.cpp, TStackState.cpp,
TThreadStateCreator.hpp.

The members have the same order in all of these releases, and nothing is compiled in or out before the frame except by
the version of CPython. Each greenlet is checked before it is believed: a member points back to the object, the stack
does not contradict itself, and the frame is a frame.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from functools import cached_property
from typing import Final

from gdbext.cpython.collected import find_tracked
from gdbext.cpython.frames import FrameReader, RawFrame
from gdbext.cpython.greenlets.libraries import GreenObjects
from gdbext.cpython.greenlets.waits import GreenWaits
from gdbext.cpython.objects import Objects
from gdbext.errors import CorruptStructure, UnknownLayout, if_unreadable
from gdbext.glibc.thread_local import first_words
from gdbext.inferior.cache import read_available
from gdbext.inferior.protocol import Memory
from gdbext.layout.table import Layouts
from gdbext.model import GreenletStatus
from gdbext.record import record
from gdbext.remembered import remembered

#: Most greenlets of one interpreter.
MAX_GREENLETS = 100_000

CURRENT: Final = "current"
SUSPENDED: Final = "suspended"
DEAD: Final = "dead"
NOT_STARTED: Final = "not started"

_MODULE, _TYPE = "greenlet._greenlet", "greenlet"
_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")
#: ``weakreflist``, ``dict`` and ``pimpl`` follow the object's header.
_PIMPL = 2 * 8
#: Words of a ``Greenlet`` that are read: the largest has less.
_WORDS = 40
_MAIN_STOP = (1 << 64) - 1


@record
class Greenlet:
    """A greenlet (``PyGreenlet *``).

    `tstate` (``PyThreadState *``) is the thread state that runs it, or alone can resume it; None if that has ended, or
    is not certain. `frame` (``PyFrameObject *``) is its innermost frame while it is suspended, or 0. `is_main`: it is
    the thread's own greenlet, which exists from the start.
    """

    address: int
    state: GreenletStatus
    tstate: int | None
    frame: int
    is_main: bool


@record
class _Members:
    """The members of a ``greenlet::Greenlet``; `rest` has the words behind those."""

    exc_info: int
    start: int
    stop: int
    copy: int
    saved: int
    frame: int
    rest: tuple[int, ...]


class GreenletReader:
    """Reads the greenlets of one interpreter.

    :param interpreter: ``PyInterpreterState *``.
    :param runtime: ``_PyRuntimeState *``.
    :param tstates: ``PyThreadState *`` of the interpreter -> the thread pointer of its thread.
    """

    def __init__(self, memory: Memory, layouts: Layouts, objects: Objects, frames: FrameReader, interpreter: int,
                 runtime: int, tstates: Mapping[int, int]) -> None:
        self._memory = memory
        self._layouts = layouts
        self._objects = objects
        self._frames = frames
        self._interpreter = interpreter
        self._runtime = runtime
        self._tstates = tstates
        self._version = layouts.version_tuple[:2]
        #: The other objects of gevent and eventlet, once the greenlets have been read.
        self.green = GreenWaits(memory, objects, {}, ())

    @cached_property
    @if_unreadable(0)
    def _modules(self) -> int:
        return self._objects.read_member("PyInterpreterState", self._interpreter, "modules")

    @cached_property
    @if_unreadable(None)
    def _module(self) -> int | None:
        found = self._objects.dict_get(self._modules, _MODULE) if self._modules else None
        # None in `sys.modules` blocks the import of a module
        return found if found and "module" in self._objects.type_names(found) else None

    @property
    def is_used(self) -> bool:
        """Whether the interpreter has imported greenlet."""
        return self._module is not None

    @cached_property
    def greenlets(self) -> tuple[Greenlet, ...]:
        """All greenlets that are not freed, also those of ended threads.

        :raises UnknownLayout: this release of greenlet, or this build of CPython, is not decoded.
        :raises GdbextError: the list of objects, or a greenlet, cannot be read.
        """
        if self._module is None:
            return ()
        self._check_versions()
        kind = self._objects.dict_get(self._objects.read_member("PyModuleObject", self._module, "md_dict"), _TYPE)
        if not kind or not self._objects.makes_types(self._objects.type_address(kind)):
            raise CorruptStructure(self._module, "greenlet's module has no type of greenlets")
        green = GreenObjects(self._memory, self._objects)
        tracked = find_tracked(self._memory, self._module, self._heads(),
                               lambda each: self._derives(each, kind) or green.role(each) is not None)
        found, roles = [], {}
        for address in tracked:
            each = self._objects.type_address(address)
            role = green.role(each)
            if role is not None:
                roles[address] = role
            if self._derives(each, kind):
                found.append(address)
        if len(found) > MAX_GREENLETS:
            raise CorruptStructure(self._module, f"more than {MAX_GREENLETS:,} greenlets")
        self.green = GreenWaits(self._memory, self._objects, roles, found)
        members = {address: self._members(address) for address in found}
        return self._together({address: each for address, each in members.items() if each is not None})

    @remembered
    def stack(self, greenlet: Greenlet) -> list[RawFrame]:
        """The frames of a suspended greenlet, innermost first.

        :raises GdbextError: a frame cannot be read.
        """
        return self._frames.of_frame_object(greenlet.frame) if greenlet.frame else []

    # -- where they are --------------------------------------------------------------------------------------

    def _check_versions(self) -> None:
        if self._layouts.build.startswith("free-threaded") or self._version < (3, 8):
            # free-threaded builds have no lists of objects
            raise UnknownLayout(f"greenlets are not decoded in this CPython {self._layouts.version}, "
                                f"{self._layouts.build} build")
        package = self._objects.dict_get(self._modules, "greenlet")
        namespace = self._objects.read_member("PyModuleObject", package, "md_dict") if package else 0
        text = self._objects.dict_get(namespace, "__version__") if namespace else None
        version = _VERSION.match(self._objects.string(text)) if text else None
        if version is None:
            raise UnknownLayout("the release of greenlet is not known")
        number = tuple(int(part or 0) for part in version.groups())
        # before 3.0.3 the frames of suspended greenlets are linked through the stack that others use meanwhile
        if not (2, 0, 0) <= number < (4, 0, 0) or (self._version >= (3, 12) and number < (3, 0, 3)):
            raise UnknownLayout(f"greenlet {version[0]} is not decoded in CPython {self._layouts.version}")

    def _heads(self) -> tuple[int, int]:
        if self._version < (3, 9):
            return self._runtime, self._runtime + self._layouts["_PyRuntimeState"].size
        return self._interpreter, self._interpreter + self._layouts["PyInterpreterState"].size

    @remembered
    @if_unreadable(False)
    def _derives(self, kind: int, base: int) -> bool:
        return base in self._objects.base_types(kind)

    # -- one of them -----------------------------------------------------------------------------------------

    def _members(self, address: int) -> _Members | None:
        """The members of a greenlet; None while it is made or freed.

        :raises CorruptStructure: they contradict each other.
        """
        pimpl, = struct.unpack("<Q", self._memory.read(address + self._layouts["PyObject"].size + _PIMPL, 8))
        if not pimpl:
            return None
        data = read_available(self._memory, pimpl, 8 * _WORDS)
        words = struct.unpack(f"<{len(data) // 8}Q", data[:len(data) & ~7])
        # the table of virtual functions; since 3.1 the object; exc_info; an item of the chain of exceptions, of which
        # CPython 3.11 dropped two members; the arguments of a switch; the stack; the context; the frame
        first = 2 if words[1:2] == (address,) else 1
        stack = first + 1 + (2 if self._version >= (3, 11) else 4) + 2
        if len(words) <= stack + 6 or (first == 1 and address not in words[stack + 7:]):
            raise CorruptStructure(address, "a greenlet that does not point back to its object")
        start, stop, copy, saved = words[stack:stack + 4]
        made = _Members(words[first], start, stop, copy, saved, words[stack + 6], words[stack + 7:])
        main = stop == _MAIN_STOP
        if (start and not stop) or bool(copy) != bool(saved) or (saved and not start) or (
                not main and (start > stop or saved > stop - start)):
            raise CorruptStructure(address, "a greenlet that contradicts itself")
        if made.frame and self._objects.type_name(made.frame) != "frame":
            raise CorruptStructure(address, "a greenlet whose frame is not a frame")
        return made

    def _together(self, members: dict[int, _Members]) -> tuple[Greenlet, ...]:
        # a main greenlet has its address, and after that the state of its thread, which is null when that has ended
        states = {address: next((each.rest[i + 1] for i in range(len(each.rest) - 1) if each.rest[i] == address), 0)
                  for address, each in members.items() if each.stop == _MAIN_STOP}
        tstates = self._tstates_of({state for state in states.values() if state})
        made = []
        for address, each in members.items():
            # a greenlet that has started has a reference to the main greenlet of its thread
            main = address if address in states else next((word for word in each.rest if word in states), 0)
            state = self._state(each, address in states and not states[address])
            tstate = tstates.get(states.get(main, 0)) if state in (CURRENT, SUSPENDED) else None
            made.append(Greenlet(address, state, tstate, each.frame if state == SUSPENDED else 0, address in states))
        return tuple(made)

    def _tstates_of(self, states: set[int]) -> dict[int, int]:
        """The thread state (``PyThreadState *``) of the thread that each ``greenlet::ThreadState *`` belongs to.

        A thread has the pointer in thread-local memory of greenlet's module. That alone is certain: after a thread has
        ended, or fork has left it behind, another one may have its thread state and its stack.
        """
        found: dict[int, int] = {}
        for tstate, pointer in self._tstates.items() if states else ():
            for state in states.intersection(first_words(self._memory, self._layouts.machine, pointer)):
                found[state] = tstate
        return found

    @staticmethod
    def _state(members: _Members, has_ended: bool) -> GreenletStatus:
        if not members.stop:
            return NOT_STARTED
        if not members.start or has_ended:
            return DEAD
        # a switch to a greenlet clears it
        return SUSPENDED if members.exc_info else CURRENT

    @if_unreadable("greenlet")
    def type_name(self, greenlet: Greenlet) -> str:
        """The name of a greenlet's class; of the greenlet that a hub of eventlet runs in, that of the hub's class."""
        return self.green.hubs.get(greenlet.address) or self._objects.type_name(greenlet.address)

