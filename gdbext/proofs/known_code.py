"""What earlier snapshots of a process have found out about its machine code.

The analysis takes seconds in a large program, and a process that runs is read several times. The code of a file does
not change while it is loaded. The analysis also reads memory that the program may write, as the slots of the dynamic
linker, which are filled when a function is called for the first time. Such reads are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

from gdbext.elf.dynamic import first_page
from gdbext.errors import MemoryUnreadable
from gdbext.inferior.address_space import AddressSpace
from gdbext.inferior.budget import BudgetSpent
from gdbext.inferior.cache import read_available
from gdbext.inferior.protocol import Memory, Module, Target
from gdbext.threads.code import Code

_Analysis = TypeVar("_Analysis", bound="Analysis | None")

#: The bytes of a file's first page that are compared: the headers, and in most files the build ID.
_HEADERS = 1024


class CodeMemory:
    """The memory from which code is analysed. What it reads where the program may write can be compared later."""

    def __init__(self, memory: Memory, code: Code) -> None:
        self._memory = memory
        self._code = code
        # None where memory was not readable
        self._noted: dict[tuple[int, int], bytes | None] = {}
        self._is_complete = True

    def read(self, address: int, size: int) -> bytes:
        """Read exactly `size` bytes.

        :raises MemoryUnreadable: not all of them can be read.
        """
        try:
            data = self._memory.read(address, size)
        except MemoryUnreadable as error:
            self._is_complete &= not isinstance(error, BudgetSpent)
            self._noted[address, size] = None
            raise
        if _may_change(self._code.space, address):
            self._noted[address, size] = data
        return data

    def continue_with(self, memory: Memory, code: Code) -> bool:
        """Read another memory from now on; False if its contents differ from what was read so far."""
        if not self._is_complete or any(_read(memory, *where) != data for where, data in self._noted.items()):
            return False
        self._memory, self._code = memory, code
        return True


def _may_change(space: AddressSpace, address: int) -> bool:
    region = space.find(address)
    return region is None or region.path is None or region.allows("w") is not False


def _read(memory: Memory, address: int, size: int) -> bytes | None:
    try:
        return memory.read(address, size)
    except MemoryUnreadable:
        return None


class Analysis(Protocol):
    """What is known of code for one kind of lock."""

    def continue_with(self, target: Target, code: Code) -> bool:
        """Go on with another snapshot of the same files; False if that is not possible."""

    def postpone(self, postpones: bool) -> None:
        """Have functions that are not known yet analysed later, or at once."""

    def catch_up(self) -> None:
        """Analyse the functions that were postponed."""

    @property
    def is_behind(self) -> bool:
        """Whether functions were postponed."""


class KnownCode:
    """The analyses of one process's code, for all snapshots that follow each other.

    With `postpones`, a snapshot takes functions that are not known yet for unknown code: it is one of a process that is
    paused meanwhile. They are analysed by `catch_up`, for the next snapshot. `hidden` are functions that acquire locks
    of an Abseil that exports none of its functions, as waiting threads have shown.
    """

    def __init__(self) -> None:
        self.hidden: frozenset[int] = frozenset()
        self._files: object = None
        self._analyses: dict[object, Any] = {}
        self.postpones = False

    def continue_with(self, target: Target, code: Code) -> None:
        """Go on with another snapshot, and forget the analyses that may not be right for it."""
        files = tuple(_identity(target.memory, code.modules))
        if files != self._files:
            self._analyses, self.hidden = {}, frozenset()
        self._files = files
        self._analyses = {key: analysis for key, analysis in self._analyses.items()
                          if analysis is None or analysis.continue_with(target, code)}

    def get(self, key: object, make: Callable[[], _Analysis]) -> _Analysis:
        """The analysis for a kind of lock, which is made if it is not known."""
        if key not in self._analyses:
            self._analyses[key] = make()
        found: _Analysis = self._analyses[key]
        if found is not None:
            found.postpone(self.postpones)
        return found

    @property
    def is_behind(self) -> bool:
        """Whether the last snapshot has postponed functions."""
        return any(analysis.is_behind for analysis in self._analyses.values() if analysis is not None)

    def catch_up(self) -> None:
        """Analyse the functions that the last snapshot has postponed."""
        for analysis in self._analyses.values():
            if analysis is not None:
                analysis.catch_up()


def _identity(memory: Memory, modules: Iterable[Module]) -> Iterable[object]:
    for module in modules:
        headers = read_available(memory, first_page(module), _HEADERS) if module.sections else b""
        yield module.path, module.sections, hash(headers)
