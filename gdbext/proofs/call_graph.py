"""Which functions a function may call, deeply: most call none that acquires or releases, and are not analysed."""

from __future__ import annotations

from collections.abc import Sequence

from gdbext.errors import GdbextError
from gdbext.inferior.protocol import Module
from gdbext.proofs.flow.atomics import Inlined
from gdbext.proofs.machine_code import MachineCode
from gdbext.remembered import remembered

#: Most depth of calls.
MAX_DEPTH = 6
#: Most bytes of one function, and most functions, that are searched for calls.
MAX_SEARCH, _MAX_SEARCHED = 1 << 20, 5000
#: Most functions that are searched for exchanges.
_MAX_EXCHANGING = 1000


class CallGraph:
    """Searches the calls of functions, without decoding their instructions.

    :param inlined: the instructions that acquire and release locks.
    :param outside: files whose functions never release a lock of the program.
    :param calling_back: files whose functions call code of the program, which may release any lock.
    """

    def __init__(self, code: MachineCode, inlined: Inlined | None, outside: Sequence[Module],
                 calling_back: Sequence[Module]) -> None:
        self._code = code
        self._inlined = inlined
        # by their paths, as the next snapshot has other objects for the same files
        self._outside = frozenset(module.path for module in outside)
        self._calling_back = frozenset(module.path for module in calling_back)
        self._reaching: dict[tuple[frozenset[int], int, int], bool] = {}
        self._exchanging = 0

    @property
    def is_exhausted(self) -> bool:
        """Whether a bound was reached."""
        return self._exchanging > _MAX_EXCHANGING or len(self._reaching) > _MAX_SEARCHED

    def is_outside(self, address: int) -> bool:
        """Whether code is in a file whose functions never release a lock of the program."""
        return self.has_outside(self._code.program.module(address))

    def has_outside(self, module: Module | None) -> bool:
        """As `is_outside`, of a file."""
        return module is not None and module.path in self._outside

    def calls_back(self, address: int) -> bool:
        """Whether code is in a file whose functions call code of the program."""
        module = self._code.program.module(address)
        return module is not None and module.path in self._calling_back

    def may_call(self, functions: frozenset[int], start: int, depth: int = 0) -> bool:
        """Whether the function at an address, or one that it calls, may call one of some functions.

        An instruction that acquires or releases counts like them. The bytes are searched without decoding them, so the
        answer may be true for a function that makes no such call.
        """
        key = functions, start, depth
        known = self._reaching.get(key)
        if known is None:
            self._reaching[key] = False  # for a recursive call; the outer call decides
            known = self._reaching[key] = self._search(functions, start, depth)
        return known

    def _search(self, functions: frozenset[int], start: int, depth: int) -> bool:
        if self.calls_back(start):
            return True
        found = self._code.program.function_range(start)
        if found is None or self.is_outside(start):
            return False
        if found[1] - found[0] > MAX_SEARCH or len(self._reaching) > _MAX_SEARCHED:
            return True  # unknown, so it counts as a release of any lock
        return (self._exchanges(*found) or not functions.isdisjoint(self._code.calls(*found)[0])
                or depth < MAX_DEPTH and any(self.may_call(functions, callee, depth + 1)
                                             for callee in self._code.callees(*found)))

    @remembered
    def _exchanges(self, start: int, end: int) -> bool:
        """Whether code may acquire or release a lock by an instruction."""
        if self._inlined is None:
            return False
        try:
            computes = not self._inlined.releases.isdisjoint(("adds", "computes"))
            if not self._code.cpu.may_exchange(self._code.memory.read(start, end - start), computes):
                return False
            self._exchanging += 1
            if self._exchanging > _MAX_EXCHANGING:
                return True  # unknown
            found = [each.exchange for each in self._code.instructions(start, end)]
        except GdbextError:
            return True
        return any(each is not None and self._inlined.may_be(each) for each in found)
