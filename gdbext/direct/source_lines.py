"""Source lines and inlined calls of the frames of one report, from debug information, within a time limit."""

from __future__ import annotations

from gdbext.direct.demangle import function_name, plain_name
from gdbext.direct.symbols import LoadedFile
from gdbext.dwarf.places import DebugInformation
from gdbext.dwarf.sections import Budget
from gdbext.inferior.protocol import Symbol
from gdbext.model import InlinedCall
from gdbext.runtimes.names import public_name

#: The time that one report may take to read debug information, in seconds.
SECONDS = 2.0


class SourceLines:
    """Reads source lines.

    A process may be read several times for one report, at last while its threads are stopped. What was found the first
    time is kept, so that reading debug information does not make the stop longer.
    """

    def __init__(self) -> None:
        self._budget = Budget(SECONDS)
        self._known: dict[object, DebugInformation | None] = {}
        self._found: dict[object, Symbol | None] = {}

    def find(self, file: LoadedFile, address: int) -> Symbol | None:
        """The function, line and inlined calls at a run-time address; None without debug information of it.

        The function is None if the symbol table decides.

        :raises CorruptStructure: the debug information contradicts itself, or cannot be read.
        :raises OutOfTime: the time is over.
        """
        key = file.identity, address - file.bias
        if key not in self._found:
            self._found[key] = self._find(file, address)
        return self._found[key]

    def _find(self, file: LoadedFile, address: int) -> Symbol | None:
        if file.identity not in self._known:
            self._known[file.identity] = file.debug_information(self._budget)
        information = self._known[file.identity]
        place = information.find(address - file.bias, file.symbol_start(address)) if information is not None else None
        if place is None:
            return None
        inlined = [InlinedCall(public_name(plain_name(call.function)), call.file, call.line) for call in place.inlined]
        return Symbol(function_name(place.function), place.file, place.line, tuple(inlined))
