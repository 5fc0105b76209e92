"""`HidingPairs`: locks of a library that may export none of its functions, so that waiting threads must show them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Protocol

from gdbext.inferior.protocol import Memory
from gdbext.locks.seen import SeenLock
from gdbext.model.kinds import LockKind
from gdbext.proofs.functions import LockFunctions
from gdbext.proofs.known_code import KnownCode
from gdbext.proofs.pairs import Pairs
from gdbext.record import record
from gdbext.threads.code import Code
from gdbext.threads.threads import SeenThread, Threads


class Proving(Protocol):
    """What is known of the functions of frames. `known_code` keeps the functions that were found."""

    @property
    def memory(self) -> Memory:
        """The target's memory."""

    @property
    def code(self) -> Code:
        """The target's code."""

    @property
    def known_code(self) -> KnownCode:
        """What earlier snapshots have found out about it."""

    def functions(self, kind: LockKind, namespace: str | None = None,
                  hidden: frozenset[int] = frozenset()) -> LockFunctions | None:
        """The functions that acquire and release locks of a kind; None if no file has one that acquires."""

    def start_of(self, pc: int) -> int | None:
        """The start of the function of a program counter; None if it is unknown."""

    def first_argument(self, seen: SeenThread, index: int) -> int | None:
        """The first argument of the call of a caller's function; None if nothing still contains it."""


@record
class HidingPairs(Pairs, ABC):
    """A row of such a library."""

    @abstractmethod
    def find_hidden(self, proving: Proving, threads: Threads, waits: Mapping[int, SeenLock]) -> frozenset[int]:
        """The functions that acquire locks, as waiting threads show them.

        :param waits: the locks that threads wait for, by the thread's number.
        """
