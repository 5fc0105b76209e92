"""Finds threads that provably hold a lock without a recorded owner, by the machine code of their frames.

The rules are those of `proofs/`, and of the row of the lock; see `holders/pairs`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from gdbext.holders.frames import ThreadStack
from gdbext.holders.pairs import KINDS, pairs_of
from gdbext.inferior.protocol import Module, Target
from gdbext.locks.hiding import HidingPairs
from gdbext.locks.library_parts import FunctionCall
from gdbext.locks.seen import SeenLock
from gdbext.model.kinds import LockKind
from gdbext.proofs.analysis import LockAnalysis
from gdbext.proofs.flow.state import entry
from gdbext.proofs.functions import FunctionFinder, LockFunctions
from gdbext.proofs.known_code import KnownCode
from gdbext.proofs.linkage import Linkage
from gdbext.proofs.rules import FrameRules, Sought
from gdbext.proofs.stack import place_of, recompute
from gdbext.record import record
from gdbext.remembered import remembered
from gdbext.runtimes.names import without_hashes, without_parameters
from gdbext.threads.code import Code
from gdbext.threads.site import MAX_DEPTH
from gdbext.threads.threads import SeenThread, Threads


@record
class Proof:
    """A frame that proves it: its function if it has a name, its module, and the function that acquired the lock.

    `call` is None if an atomic instruction has acquired it. With `by_guard`, a guard object of the frame will release
    it.
    """

    function: str | None
    module: str
    call: str | None
    by_guard: bool = False


class ProvenHolders:
    """Finds the frame that proves that a thread holds a lock."""

    def __init__(self, target: Target, code: Code, library: Sequence[Module], known_code: KnownCode) -> None:
        self._target = target
        self.memory = target.memory
        self.code = code
        self.known_code = known_code
        self._finder = FunctionFinder(target, code, library)
        self._linkage = Linkage(target.memory, code, library)
        self._stacks: dict[int, ThreadStack] = {}
        self._hidden: dict[LockKind, frozenset[int]] = {}
        known_code.continue_with(target, code)

    def find(self, seen: SeenThread, kind: LockKind, lock: Sought, namespace: str | None = None,
             hidden: frozenset[int] = frozenset()) -> Proof | None:
        """The frame of a thread which proves that the thread holds a lock; None if there is none.

        :param namespace: the inline namespace of the library; see `namespace_of`.
        :param hidden: functions that acquire the lock, of a library that exports none; see `hidden_functions`.
        """
        rules = self._rules(kind, namespace, hidden) if kind in KINDS else None
        stack = self.stack(seen)
        found = rules.find(stack, lock) if rules is not None else None
        if rules is None or found is None:
            return None
        pc = stack.native[found.index][0]
        module, function = self.code.module(pc), self.code.frame(pc, found.index).function
        return Proof(without_hashes(function) if function else None, module.name if module is not None else "",
                     self._public(rules.functions, found.call), found.call is None)

    def _public(self, functions: LockFunctions, call: str | None) -> str | None:
        """The function that has acquired a lock; None without a name, or if an instruction may have acquired it."""
        inlined = functions.analysis.inlined
        if not call or inlined is not None and inlined.may_acquire and call not in {
                known.name for known in functions.acquiring.values() if not known.after_attempt}:
            return None
        return without_parameters(self._target.demangle(call))

    @remembered
    def _rules(self, kind: LockKind, namespace: str | None, hidden: frozenset[int]) -> FrameRules | None:
        functions = self.functions(kind, namespace, hidden)
        return (pairs_of(kind).rules(functions, self._target, self.code, self._linkage) if functions is not None
                else None)

    def functions(self, kind: LockKind, namespace: str | None = None,
                  hidden: frozenset[int] = frozenset()) -> LockFunctions | None:
        """The functions that acquire and release locks of a kind; None if no file has one that acquires."""
        return self.known_code.get((kind, namespace, hidden),
                                    lambda: pairs_of(kind).find(self._finder, namespace, hidden))

    def hidden_functions(self, kind: LockKind, namespace: str | None, threads: Threads,
                         waits: Mapping[int, SeenLock]) -> frozenset[int]:
        """The functions that acquire locks of a kind, if its library exports none, as the waiting threads show them.

        :param waits: the locks that threads wait for, by the thread's number.
        """
        pairs = pairs_of(kind)
        if not isinstance(pairs, HidingPairs) or self.functions(kind, namespace) is not None:
            return frozenset()
        if kind not in self._hidden:
            self._hidden[kind] = pairs.find_hidden(self, threads, waits)
        return self._hidden[kind]

    def stack(self, seen: SeenThread) -> ThreadStack:
        """The frames of a thread."""
        if seen.number not in self._stacks:
            self._stacks[seen.number] = ThreadStack(self._target, self.code, seen)
        return self._stacks[seen.number]

    def only_lock(self, kind: LockKind, return_address: int) -> str | None:
        """The library whose only lock the call before a return address acquires."""
        functions = self.functions(kind) if kind in KINDS else None
        called = self.code.cpu.called(self.memory, return_address)
        return functions.only.get(called) if functions is not None and called is not None else None

    def namespace_of(self, kind: LockKind, native: Sequence[tuple[int, int]]) -> str | None:
        """The inline namespace of the library in which a thread waits, by its frames; None if there is none.

        It is a part of the names of dynamic symbols, which are found by a hash of the whole name.
        """
        names = (self.code.symbol(pc, i).function for i, (pc, _) in enumerate(native[:MAX_DEPTH]))
        return pairs_of(kind).namespace(name for name in names if name is not None)

    # -- frames without a lock ---------------------------------------------------------------------------------------

    def call_of(self, seen: SeenThread, index: int) -> FunctionCall | None:
        """The call of a caller's function; None if no register or stack slot still contains its argument."""
        start, argument = self.start_of(seen.native(self.code)[index][0] - 1), self.first_argument(seen, index)
        return FunctionCall(start, argument) if start is not None and argument is not None else None

    def start_of(self, pc: int) -> int | None:
        """The start of the function of a program counter; None if it is unknown."""
        return self._values.start_of(pc)

    def first_argument(self, seen: SeenThread, index: int) -> int | None:
        """The first argument of the call of a caller's function; None if nothing still contains it."""
        stack, cpu = self.stack(seen), self.code.cpu
        state = self._values.state_at(place_of(stack, index))
        return recompute(self.memory, cpu, entry(cpu.ARGUMENTS[0]), state,
                         stack.registers(index)) if state is not None else None

    @cached_property
    def _values(self) -> LockAnalysis:
        """The analysis without any locks, which needs no other function than that of a frame."""
        return self.known_code.get("values", lambda: LockAnalysis(self._target, self.code, {}, self.code.modules))
