"""The functions that acquire and release one kind of lock, as the files of a target have them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from gdbext.elf.dynamic import find_dynamic_symbol
from gdbext.errors import GdbextError
from gdbext.inferior.protocol import Module, Target
from gdbext.proofs.analysis import LockAnalysis
from gdbext.proofs.flow.state import ONLY, Value, entry
from gdbext.proofs.flow.summaries import Summary
from gdbext.proofs.machine_code import iter_branches
from gdbext.proofs.program import Program
from gdbext.record import record
from gdbext.runtimes.names import in_inline_namespace, public_name, without_hashes

#: The result that shows that a function has acquired the lock.
Success = Literal["always", "zero", "not zero"]


@record
class Call:
    """A function of a pair.

    `argument` is the index of the argument that points to the lock, None if there is only one such lock in the library.
    It points to a place in the lock, `offset` bytes after its start. With `after_attempt`, code calls it only if an
    atomic instruction has not acquired the lock. `wait_flag` is the index of an argument; if that is a constant other
    than 0, the function does not fail.
    """

    name: str
    argument: int | None = 0
    succeeds: Success = "always"
    after_attempt: bool = False
    offset: int = 0
    wait_flag: int | None = None


def calls(names: str, succeeds: Success = "always", argument: int | None = 0) -> tuple[Call, ...]:
    """Functions that differ only in their names, which are separated by spaces."""
    return tuple([Call(name, argument, succeeds) for name in names.split()])


@dataclass(eq=False)
class LockFunctions:
    """The functions for one kind of lock, by address, and the analysis of the code that calls them.

    `ending` are those after which, or during which, the lock may be released, and `own` those for no other kind of
    lock. `only` has the path of the file of each acquiring function without an argument. While a function of `running`
    calls another one back, the thread holds the lock. Those of `waiting` only use the address of a lock, although their
    file calls code of the program.
    """

    analysis: LockAnalysis
    own: frozenset[int]
    acquiring: Mapping[int, Call]
    ending: frozenset[int]
    only: Mapping[int, str]
    running: Mapping[int, Call] = field(default_factory=dict)
    waiting: frozenset[int] = frozenset()

    @property
    def are_inlined(self) -> bool:
        """Whether code of any file that is not outside of the analysis may acquire and release the locks itself."""
        return self.analysis.inlined is not None

    def continue_with(self, target: Target, program: Program) -> bool:
        """Go on with another snapshot of the same files; False if what is known may not be right for it."""
        return self.analysis.continue_with(target, program)

    def postpone(self, postpones: bool) -> None:
        """See `LockAnalysis.postpone`."""
        self.analysis.postpone(postpones)

    def catch_up(self) -> None:
        """See `LockAnalysis.catch_up`."""
        self.analysis.catch_up()

    @property
    def is_behind(self) -> bool:
        """See `LockAnalysis.is_behind`."""
        return self.analysis.is_behind


def known_name(program: Program, function: int) -> str | None:
    """The name of the function at an address; None if it has none."""
    symbol = program.symbol(function).function
    return without_hashes(public_name(symbol)) if symbol else None


#: Functions that were found, each with its file.
Found = Mapping[int, tuple[Call, Module]]


class FunctionFinder:
    """Finds functions in the files of a target by their exported names.

    :param library: the files of the C library.
    """

    def __init__(self, target: Target, program: Program, library: Sequence[Module]) -> None:
        self.target = target
        self.program = program
        self.library = library

    def find(self, wanted: Sequence[Call], namespace: str | None = None) -> dict[int, tuple[Call, Module]]:
        """The addresses of functions.

        :param namespace: an inline namespace, which their names lack.
        """
        found: dict[int, tuple[Call, Module]] = {}
        for module in self.program.modules:
            for call in wanted:
                name = in_inline_namespace(call.name, namespace) if namespace is not None else call.name
                symbol = find_dynamic_symbol(self.target.memory, module, name)
                if symbol is not None:
                    found.setdefault(symbol.address, (call, module))
        return found

    def at(self, addresses: Iterable[int]) -> dict[int, tuple[Call, Module]]:
        """Functions that acquire the lock of their first argument, by their addresses."""
        return {address: (Call(known_name(self.program, address) or ""), module) for address in addresses
                for module in [self.program.module(address)] if module is not None}

    def interpreters(self) -> list[Module]:
        """The files with an interpreter, whose compiled code has no locks of other languages."""
        return [module for module in self.program.modules
                if find_dynamic_symbol(self.target.memory, module, "Py_Initialize") is not None]

    def parts(self, function: int) -> Iterable[int]:
        """A function, and those that it calls or jumps to: the one that does the work has the same argument."""
        yield function
        found = self.program.function_range(function)
        if found is None:
            return
        try:
            for _, at, target, _ in iter_branches(self.target.memory, self.program, *found):
                inner = self.program.function_range(target)
                if at == target and inner is not None and inner[0] == target != function:
                    yield target
        except GdbextError:
            return

    def summaries(self, acquiring: Found, releasing: Found, suspending: Found) -> dict[int, Summary]:
        """What functions do that acquire, release, or wait without the lock."""
        found = dict.fromkeys(suspending, Summary(suspends=True))
        arguments = self.program.cpu.ARGUMENTS
        for address, (call, module) in acquiring.items():
            lock = self._lock(call, module)
            flag = arguments[call.wait_flag] if call.wait_flag is not None else None
            found[address] = (Summary(acquires={lock: frozenset()}) if call.succeeds == "always"
                              else Summary(attempt=(lock, call.succeeds == "zero"), wait_flag=flag))
        found.update((address, Summary(releases=(self._lock(*each),))) for address, each in releasing.items())
        return found

    def _lock(self, call: Call, module: Module) -> Value:
        if call.argument is None:
            return Value((ONLY, module.path), 0)
        return entry(self.program.cpu.ARGUMENTS[call.argument]).plus(-call.offset)
