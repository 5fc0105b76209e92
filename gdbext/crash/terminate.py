"""Why std::terminate was called: an exception, a joinable std::thread, a pure virtual function, or by the program.

The functions between `abort` and the program distinguish these. The exception tables of the program's functions show
which of them is ``noexcept``; the virtual table of an object shows that it is being constructed or destroyed.

Sources: GCC 12 libstdc++-v3/libsupc++/eh_personality.cc, eh_throw.cc, pure.cc, libstdc++-v3/include/bits/std_thread.h.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from gdbext.crash.pointers import Pointers
from gdbext.elf.dynamic import find_dynamic_symbol
from gdbext.elf.except_table import may_leave
from gdbext.errors import GdbextError
from gdbext.inferior.cache import read_u64
from gdbext.inferior.protocol import Memory
from gdbext.model import DERIVED, RECORDED, Evidence
from gdbext.model.reasons import Reason, because
from gdbext.record import record
from gdbext.runtimes.names import short_name
from gdbext.threads.code import Code
from gdbext.threads.site import Sites

#: How many frames are searched, and how many entries of a virtual table.
_MAX_FRAMES, _MAX_ENTRIES = 32, 64
_THROWS = frozenset(("__cxa_throw", "__cxa_rethrow", "std::rethrow_exception"))
#: Functions through which an exception passes on its way out of a function.
_UNWINDS = frozenset(("__gxx_personality_v0", "__gcc_personality_v0", "_Unwind_Resume", "__cxa_call_terminate"))
#: What clang makes of the end of a ``noexcept`` function.
_CLANG_END = "__clang_call_terminate"
_PURE_VIRTUAL = "__cxa_pure_virtual"
_OF_THREAD = re.compile(r"^std::(?:__1::)?j?thread::(~j?thread|operator=)")


@record
class Terminated:
    """Why std::terminate was called.

    `kind` is ``exception`` (`left`: the ``noexcept`` function that it was to leave), ``thread``, ``pure-virtual``
    (`object`: the address of the object, if known) or ``program``.
    """

    kind: str
    text: Reason | None = None
    left: Reason | None = None
    object: int | None = None
    evidence: Evidence = RECORDED


class TerminateReader:
    """Explains calls of std::terminate."""

    def __init__(self, memory: Memory, code: Code, sites: Sites, pointers: Pointers) -> None:
        self._memory = memory
        self._code = code
        self._sites = sites
        self._pointers = pointers

    def explain(self, native: Sequence[tuple[int, int]], words: Iterable[int]) -> Terminated | None:
        """Why a thread has called std::terminate; None if it has not, or if its functions have no names.

        :param native: (program counter, stack pointer) of its frames, innermost first.
        :param words: of its stack and registers.
        """
        top = native[:_MAX_FRAMES]
        caller = next((i for i, (pc, _) in enumerate(top) if not self._sites.in_runtime(pc)), len(top))
        names = {*self._sites.site(native).functions, *self._names(top[:caller])}
        own = self._names(top[caller:caller + 1])
        if not names & {"std::terminate", _PURE_VIRTUAL, *_THROWS, *_UNWINDS}:
            return None
        if _PURE_VIRTUAL in names:
            return self._pure_virtual(words)
        if _CLANG_END in own or names & _UNWINDS:
            left = self._noexcept(top, caller)
            return Terminated("exception", left=left, evidence=DERIVED if left is not None else RECORDED)
        if names & _THROWS:
            return Terminated("exception")
        return self._of_thread(top, caller) or Terminated("program", because("terminate-by-program"))

    def _names(self, frames: Sequence[tuple[int, int]]) -> list[str]:
        found = (self._code.symbol(pc, i + 1).function or "" for i, (pc, _) in enumerate(frames))
        return [name.partition("(")[0] for name in found]

    def _noexcept(self, top: Sequence[tuple[int, int]], caller: int) -> Reason | None:
        """The ``noexcept`` function that an exception was to leave: the first whose table does not have its call."""
        for index, (pc, _) in enumerate(top[caller:], caller):
            name = self._names([(pc, 0)])[0]
            if name == _CLANG_END:
                return self._function(top, index + 1) if index + 1 < len(top) else None
            table = self._code.exception_table(pc)
            if table is None:
                continue  # any exception may leave it
            try:
                if not may_leave(self._memory, table.address, table.function, pc - 1):
                    return self._function(top, index)
            except GdbextError:
                return None
        return None

    def _function(self, top: Sequence[tuple[int, int]], index: int) -> Reason:
        frame = self._code.frame(top[index][0], 1)
        name = short_name(frame.function) if frame.function else None
        return because("function", name=name) if name else because("unnamed-function", module=frame.module)

    def _of_thread(self, top: Sequence[tuple[int, int]], caller: int) -> Terminated | None:
        """Whether std::thread called it, whose functions are compiled into the program."""
        for index in range(caller, min(caller + 2, len(top))):
            frame = self._code.frame(top[index][0], 1)
            functions = [*(call.function for call in frame.inlined), frame.function or ""]
            found = next(filter(None, map(_OF_THREAD.match, functions)), None)
            if found is not None:
                return Terminated("thread", because("joinable-thread", assigned=int(found[1] == "operator=")))
        return None

    def _pure_virtual(self, words: Iterable[int]) -> Terminated:
        """The call of a pure virtual function, with its object: its virtual table has that function."""
        entries = {symbol.address for module in self._code.modules if "stdc++" in module.name or "c++abi" in module.name
                   for symbol in [find_dynamic_symbol(self._memory, module, _PURE_VIRTUAL)] if symbol is not None}
        for word in dict.fromkeys(words):
            if word & 7 == 0 and self._is_abstract(word, entries):
                name = self._pointers.class_of(word)
                return Terminated("pure-virtual", because("pure-virtual-of", type=name, object=word), object=word,
                                  evidence=DERIVED)
        return Terminated("pure-virtual", because("pure-virtual"))

    def _is_abstract(self, address: int, entries: set[int]) -> bool:
        try:
            table = read_u64(self._memory, address)
            if not self._pointers.in_image(table) or self._pointers.class_of(address) is None:
                return False
            data = self._memory.read(table, 8 * _MAX_ENTRIES)
        except GdbextError:
            return False
        for at in range(0, len(data), 8):
            entry = int.from_bytes(data[at:at + 8], "little")
            if entry in entries:
                return True
            if entry and not self._pointers.in_image(entry):
                return False  # the end of the table; the destructors of an abstract class are null
        return False

