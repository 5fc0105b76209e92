"""What earlier snapshots of a process have found out about its machine code.

The analysis takes seconds in a large program, and a process that runs is read several times. The code of a file does
not change while it is loaded. The analysis also reads memory that the program may write, as the slots of the dynamic
linker, which are filled when a function is called for the first time. `program.CodeMemory` compares such reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

from gdbext.elf.dynamic import first_page
from gdbext.inferior.cache import read_available
from gdbext.inferior.protocol import Memory, Module, Target
from gdbext.proofs.program import Program

_Analysis = TypeVar("_Analysis", bound="Analysis | None")

#: The bytes of a file's first page that are compared: the headers, and in most files the build ID.
_HEADERS = 1024


class Analysis(Protocol):
    """What is known of code for one kind of lock."""

    def continue_with(self, target: Target, program: Program) -> bool:
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
    of a library that exports none of its functions, as waiting threads have shown.
    """

    def __init__(self) -> None:
        self.hidden: frozenset[int] = frozenset()
        self._files: object = None
        self._analyses: dict[object, Any] = {}
        self.postpones = False

    def continue_with(self, target: Target, program: Program) -> None:
        """Go on with another snapshot, and forget the analyses that may not be right for it."""
        files = tuple(_identity(target.memory, program.modules))
        if files != self._files:
            self._analyses, self.hidden = {}, frozenset()
        self._files = files
        self._analyses = {key: analysis for key, analysis in self._analyses.items()
                          if analysis is None or analysis.continue_with(target, program)}

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
