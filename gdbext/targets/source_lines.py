"""Source lines and inlined calls of the frames of one report, from debug information, within a time limit."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Optional, TypeVar

from gdbext.dwarf.places import DebugInformation
from gdbext.dwarf.sections import Budget
from gdbext.inferior.protocol import Symbol
from gdbext.model import InlinedCall, NativeFrame
from gdbext.model.reasons import Reason
from gdbext.runtimes.names import public_name, without_hashes
from gdbext.targets.demangle import function_name, plain_name
from gdbext.targets.symbols import LoadedFile

#: The processor time that one report may take to read debug information, in seconds.
SECONDS = 2.0


_Value = TypeVar("_Value")
_Record = TypeVar("_Record")
#: The path and build id of a file, a link-time address, and the members of a `Symbol`; as in JSON.
Row = Sequence[Any]
_Key = tuple[tuple[Optional[str], Optional[str]], int]


def replaced(value: _Value, kind: type[_Record], change: Callable[[_Record], _Record]) -> _Value:
    """A report, or a part of one, with all records of one class replaced.

    :param change: gives the new record of an old one, whose own parts are already replaced.
    """
    # the parts of a report are shared by its threads; `value` keeps them alive
    known: dict[int, Any] = {}
    # the names of the fields of each class; a class that is not a record has none
    names: dict[type, tuple[str, ...]] = {tuple: ()}

    def make(old: Any) -> Any:
        if isinstance(old, tuple):
            made = [remade(each) for each in old]
            return old if all(one is other for one, other in zip(made, old)) else tuple(made)
        changed = {}
        for name in names[type(old)]:
            before = getattr(old, name)
            after = remade(before)
            if after is not before:
                changed[name] = after
        new = dataclasses.replace(old, **changed) if changed else old
        return change(new) if isinstance(new, kind) else new

    def remade(old: Any) -> Any:
        own = type(old)
        if own not in names:
            names[own] = (tuple([field.name for field in dataclasses.fields(old)]) if dataclasses.is_dataclass(old)
                          else ())
        if not names[own] and own is not tuple:
            return old
        if id(old) not in known:
            known[id(old)] = make(old)
        return known[id(old)]

    made: _Value = remade(value)
    return made


def with_frames(report: _Value, change: Callable[[NativeFrame], NativeFrame]) -> _Value:
    """A report with all native frames replaced; what it says of a function has the new name, too.

    :param change: gives the new frame of an old one.
    """
    names: dict[str, str] = {}

    def make(old: NativeFrame) -> NativeFrame:
        new = change(old)
        if old.function and new.function and new.function != old.function:
            names[without_hashes(old.function)] = without_hashes(new.function)
        return new

    def renamed(reason: Reason) -> Reason:
        function = dict(reason.arguments).get("function")
        if not isinstance(function, str) or function not in names:
            return reason
        return dataclasses.replace(reason, arguments=tuple([
            (name, names[function] if name == "function" else value) for name, value in reason.arguments]))

    made = replaced(report, NativeFrame, make)
    return replaced(made, Reason, renamed) if names else made


class SourceLines:
    """Reads source lines.

    A process may be read several times for one report, and many cores have the same files; what was found is kept.

    :param known: what others have found, as of `found`.
    """

    def __init__(self, known: Iterable[Row] = ()) -> None:
        self._budget = Budget(SECONDS)
        self._known: dict[object, DebugInformation | None] = {}
        self._found: dict[_Key, Symbol | None] = {
            ((place, build_id), address): None if symbol is None else
            Symbol(symbol[0], symbol[1], symbol[2], tuple([InlinedCall(*call) for call in symbol[3]]))
            for place, build_id, address, symbol in known}
        self._old = frozenset(self._found)

    def found(self) -> list[Row]:
        """What was found and was not known before, of files with a build id."""
        return [(key[0][0], key[0][1], key[1], None if symbol is None else
                 (symbol.function, symbol.file, symbol.line,
                  [(call.function, call.file, call.line) for call in symbol.inlined]))
                for key, symbol in self._found.items() if key not in self._old and None not in key[0]]

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
