"""Sections of code that only one thread may be in, between the calls that begin and end them."""

from __future__ import annotations

from collections.abc import Sequence

from gdbext.errors import if_unreadable
from gdbext.inferior.protocol import Memory
from gdbext.proofs.machine_code import iter_branches
from gdbext.record import record
from gdbext.remembered import remembered
from gdbext.threads.code import Code

#: Most bytes of one function that are searched for calls.
_MAX_FUNCTION = 1 << 16


@record
class Section:
    """Code that only one thread may be in: from a call of `start` to the next call of `end`, addresses of functions.

    With an `argument` only calls with that argument count, and those whose return addresses are among `calls`.
    """

    start: int
    end: int
    argument: int | None
    calls: frozenset[int]


class Sections:
    """Determines whether a stack is inside a section. Many threads have the same frames, each of which is read once."""

    def __init__(self, memory: Memory, code: Code) -> None:
        self._memory = memory
        self._code = code

    def contains(self, section: Section, native: Sequence[tuple[int, int]], first: int) -> bool:
        """Whether any frame of a stack is inside a section.

        :param first: index of the innermost frame that counts.
        """
        return any(self._is_inside(section, native[i][0] if i == 0 else native[i][0] - 1)
                   for i in range(first, len(native)))

    @remembered
    def _is_inside(self, section: Section, pc: int) -> bool:
        function = self._code.function_range(pc)
        if function is None:
            return False
        opened = None
        for after, called in self._calls_in(*function):
            if called == section.start and opened is None and self._concerns(section, function[0], after):
                opened = after
            elif called == section.end and opened is not None and self._concerns(section, function[0], after):
                if opened <= pc < after:
                    return True
                opened = None
        return opened is not None and opened <= pc

    @if_unreadable(False)
    def _concerns(self, section: Section, function: int, call: int) -> bool:
        """Whether a call that starts or ends a section is for this one."""
        return (section.argument is None or call in section.calls
                or section.argument in self._code.cpu.constant_arguments(self._memory, function, call))

    @remembered
    @if_unreadable(())
    def _calls_in(self, start: int, end: int) -> Sequence[tuple[int, int]]:
        """(return address, function called) of each call in a function, by address."""
        branches = iter_branches(self._memory, self._code, start, min(end, start + _MAX_FUNCTION))
        return [(after, function) for after, _, function, is_call in branches if is_call]
