"""Code that only one thread may be in, told by the calls that begin and end it, and whose stacks are inside."""

from __future__ import annotations

from collections.abc import Sequence

from gdbext.errors import GdbextError
from gdbext.inferior.protocol import Memory
from gdbext.record import record
from gdbext.threads.code import Code


@record
class Section:
    """Code that only one thread may be in: from a call of `start` to the next call of `end`, addresses of functions.

    Only calls with `argument` count, if there is one, and those at `calls`, which are return addresses.
    """

    start: int
    end: int
    argument: int | None
    calls: frozenset[int]


class Sections:
    """Tells whether a stack is inside a section of code; the code of each function is searched once."""

    def __init__(self, memory: Memory, code: Code) -> None:
        self._memory = memory
        self._code = code
        # many threads stand at the same places
        self._calls: dict[int, list[tuple[int, int]]] = {}
        self._behind: dict[int, int] = {}
        self._known: dict[tuple[Section, int], bool] = {}

    def contains(self, section: Section, native: Sequence[tuple[int, int]], first: int) -> bool:
        """Whether any frame of a stack is inside a section.

        :param first: index of the innermost frame that counts.
        """
        return any(self._is_in(section, native[i][0] if i == 0 else native[i][0] - 1)
                   for i in range(first, len(native)))

    def _is_in(self, section: Section, pc: int) -> bool:
        key = (section, pc)
        if key not in self._known:
            self._known[key] = self._covers(section, pc)
        return self._known[key]

    def _covers(self, section: Section, pc: int) -> bool:
        function = self._code.function_range(pc)
        if function is None:
            return False
        opened = None
        for after, target in self._calls_of(*function):
            if target == section.start and opened is None and self._is_of(section, function[0], after):
                opened = after
            elif target == section.end and opened is not None and self._is_of(section, function[0], after):
                if opened <= pc < after:
                    return True
                opened = None
        return opened is not None and opened <= pc

    def _is_of(self, section: Section, function: int, call: int) -> bool:
        """Whether a call that starts or ends a section is about this one."""
        if section.argument is None or call in section.calls:
            return True
        try:
            return section.argument in self._code.cpu.constant_arguments(self._memory, function, call)
        except GdbextError:
            return False

    def _calls_of(self, start: int, end: int) -> list[tuple[int, int]]:
        """(return address, function called) of each call in a function, by address."""
        known = self._calls.get(start)
        if known is None:
            known = self._calls[start] = []
            try:
                for after, target in self._code.cpu.iter_calls(self._memory, start, end):
                    if self._code.module(target) is not None:
                        if target not in self._behind:
                            self._behind[target] = self._code.cpu.behind_stub(self._memory, target)
                        known.append((after, self._behind[target]))
            except GdbextError:
                pass  # what could be read will do
        return known
