"""What the modules of a library in `gdbext.libraries` provide, and what they are given.

`waits_of` and `holders_of` load them when the process may have the library: they take as long to load as a small
snapshot.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from importlib import import_module
from typing import Protocol

from gdbext.cpython.frames import RawFrame
from gdbext.cpython.objects import Objects
from gdbext.glibc.futex import FutexWait
from gdbext.inferior.protocol import Memory
from gdbext.library import Library
from gdbext.locks.python_reader import Reader
from gdbext.locks.scene import Scene
from gdbext.locks.seen import SeenLock, SeenWait
from gdbext.model import MixedStack
from gdbext.model.ranks import Group, Operation
from gdbext.record import record
from gdbext.threads.threads import SeenThread


class LibraryWaits:
    """What threads wait for in one library, in one snapshot. A library replaces the methods that it needs."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._target = scene.target
        self._memory = scene.memory
        self._code = scene.code
        self._threads = scene.threads
        self._sites = scene.sites

    def find_lock(self, seen: SeenThread, futex: FutexWait) -> SeenLock | None:
        """What a thread waits for that sleeps on a futex word of the library; None for any other wait."""
        return None

    def describe_unknown(self, futex: FutexWait) -> str | None:
        """The term for a futex word that fits no kind, if the call has the form of the library's; else None."""
        return None

    def find_purpose(self, seen: SeenThread, event: SeenLock) -> SeenLock | None:
        """What a thread waits for in the library that sleeps on a condition variable; None for any other wait.

        :param event: the condition variable, at ``pthread_cond_t *``.
        """
        return None

    def find_wait(self, seen: SeenThread) -> SeenWait | None:
        """What a thread waits for outside of the process, or tries to take again and again; None for any other thread.

        It is asleep or runs in a loop.
        """
        return None


@record
class FunctionCall:
    """The address of a function, and the first argument with which it was called."""

    function: int
    argument: int


class Holding(Protocol):
    """What `LibraryHolders` are given."""

    @property
    def scene(self) -> Scene:
        """The threads."""

    def python_stacks(self, number: int) -> Iterable[tuple[Reader, Iterable[RawFrame]]]:
        """The Python frames of a thread in each of its interpreters."""

    def call_of(self, seen: SeenThread, index: int) -> FunctionCall | None:
        """The call of a caller's function; None if no register or stack slot still contains its argument."""


class LibraryHolders(ABC):
    """Finds the holders of a library's locks, in one snapshot."""

    def __init__(self, holding: Holding) -> None:
        self._holding = holding
        self._scene = holding.scene

    @abstractmethod
    def find(self, lock: SeenLock, waiters: Collection[int]) -> SeenLock | None:
        """The lock with its holders, or with the reason why none is known; None if another way may find them."""


class LibraryRanks(ABC):
    """Reads what a process has done as a member of a job.

    :param find_static: the addresses of a variable in the library's files, by its symbol.
    """

    def __init__(self, memory: Memory, find_static: Callable[[str], Collection[int]]) -> None:
        self._memory = memory
        self._find_variables = find_static

    @abstractmethod
    def groups(self) -> tuple[Group, ...]:
        """The process groups, each with its newest operations."""

    def members(self, objects: Objects, interpreter: int) -> Mapping[str, tuple[int, ...]]:
        """The ranks of each group that an interpreter (``PyInterpreterState *``) knows, by the group's name."""
        return {}

    def operation(self, stack: MixedStack) -> Operation | None:
        """What a thread waits for together with other ranks, if only its stack shows that; None if it does not wait."""
        return None

    def peer(self, stack: MixedStack) -> int | None:
        """The rank that a thread sends to, or receives from; None if it is not known, or if there is no such rank.

        :param stack: of the thread, with the variables of its Python frames.
        """
        return None


def waits_of(library: Library) -> type[LibraryWaits]:
    """What recognises the waits in a library."""
    found: type[LibraryWaits] = import_module(f"gdbext.libraries.{library.folder}.waits").WAITS
    return found


def holders_of(library: Library) -> type[LibraryHolders]:
    """What finds the holders of a library's locks."""
    found: type[LibraryHolders] = import_module(f"gdbext.libraries.{library.folder}.holders").HOLDERS
    return found


def ranks_of(library: Library) -> type[LibraryRanks]:
    """What reads the process groups of a library."""
    found: type[LibraryRanks] = import_module(f"gdbext.libraries.{library.folder}.ranks").RANKS
    return found
