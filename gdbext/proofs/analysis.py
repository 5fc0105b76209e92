"""Data-flow analysis of machine code: the locks that a function holds at a place in its code, without symbols.

The analysis follows every path from the function's entry. It knows the functions that acquire and release locks, and
tracks their arguments through registers and memory. A lock is held at a place if every path to that place acquires it,
and none releases it afterwards. The release of an unknown lock ends the proof for all locks that it may be.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from gdbext.inferior.protocol import Module, Target
from gdbext.proofs.call_graph import MAX_SEARCH, CallGraph
from gdbext.proofs.callees import CalleeSummaries
from gdbext.proofs.flow.atomics import Inlined
from gdbext.proofs.flow.function import Function
from gdbext.proofs.flow.state import State, Value
from gdbext.proofs.flow.summaries import ANY_LOCK, Escapes, Summary
from gdbext.proofs.machine_code import MachineCode
from gdbext.proofs.program import Program


class LockAnalysis:
    """Finds the locks that functions hold, for the frames of stacks.

    :param primitives: the summaries of the functions that acquire and release locks, by address.
    :param outside: the files of the C library, whose other functions never release a lock of the program. Their
        messages are translated, for which they take locks of their own.
    :param inlined: the instructions that acquire and release locks in code outside of these files.
    :param calling_back: files whose functions call code of the program, which may release any lock.
    :param waiting: functions of these files that only use the address of a lock, as to wait for it.
    :param notes_taken: whether the locks that each path may have acquired are of interest.
    """

    def __init__(self, target: Target, program: Program, primitives: Mapping[int, Summary],
                 outside: Sequence[Module] = (), inlined: Inlined | None = None,
                 calling_back: Sequence[Module] = (), waiting: Collection[int] = (),
                 notes_taken: bool = False) -> None:
        self.code = MachineCode(target, program)
        self.inlined = inlined
        self.graph = CallGraph(self.code, inlined, outside, calling_back)
        self.callees = CalleeSummaries(self.code, self.graph, {**primitives, **{at: Summary() for at in waiting}},
                                        inlined, notes_taken)
        self._postpones = False
        self._postponed: dict[object, Callable[[], object]] = {}
        self._asked: set[object] = set()

    # -- one snapshot after another --------------------------------------------------------------------------------

    def continue_with(self, target: Target, program: Program) -> bool:
        """Go on with another snapshot of the same files; False if what is known may not be right for it."""
        if (self.callees.is_exhausted or self.graph.is_exhausted
                or not self.code.continue_with(target, program)):
            return False
        self.callees.renew_all()
        return True

    def postpone(self, postpones: bool) -> None:
        """Take functions that are not known yet for unknown code until `catch_up`, or analyse them at once."""
        self._postpones = postpones

    @property
    def is_behind(self) -> bool:
        """Whether functions were postponed."""
        return bool(self._postponed)

    def catch_up(self) -> None:
        """Analyse the functions that were postponed."""
        postponed, self._postponed, self._postpones = self._postponed, {}, False
        for analyse_now in postponed.values():
            analyse_now()

    def _is_postponed(self, what: str, address: int | None, analyse_now: Callable[[], object]) -> bool:
        """Whether what is asked for is analysed later; if it is analysed now, it will be known later."""
        key = what, address
        if not self._postpones or key in self._asked:
            self._asked.add(key)
            return False
        self._postponed[key] = analyse_now
        return True

    # -- the function of a frame -----------------------------------------------------------------------------------

    def start_of(self, pc: int, entered: int | None = None) -> int | None:
        """The start of the function of a program counter; None if it is unknown.

        :param pc: for a caller, the address of any byte of its call.
        :param entered: the function whose call the frame is in, if it is known. The code may be a part of it that the
            compiler has placed apart.
        """
        program = self.code.program
        found = program.function_range(pc)
        if found is None:
            return None
        for start in {entered, *self._jumps_into(found)} - {None, found[0]}:
            whole = self._function(start) if start is not None and self.is_relevant(start) else None
            if whole is not None and whole.contains(pc):
                return start
        return found[0] if program.starts_function(found[0]) else None

    def _jumps_into(self, found: tuple[int, int]) -> Iterable[int]:
        """The functions into which code jumps behind their start, as code that is placed apart does to come back."""
        targets = self.code.calls(*found)[1] if found[1] - found[0] <= MAX_SEARCH else ()
        ranges = ((at, self.code.program.function_range(at)) for at in targets)
        return [other[0] for at, other in ranges if other is not None and other[0] != at]

    def is_relevant(self, start: int) -> bool:
        """Whether a function, or one that it calls, may acquire or release a lock."""
        return self.graph.may_call(self.callees.primitives, start)

    def _function(self, start: int) -> Function | None:
        if not self.callees.is_analysed(start):
            if self._is_postponed("function", start, lambda: self._function(start)):
                return None
            self.callees.begin()
        return self.callees.function(start, 0)

    def _function_at(self, pc: int, entered: int | None) -> Function | None:
        start = self.start_of(pc, entered)
        return self._function(start) if start is not None and self.is_relevant(start) else None

    # -- a place in it ---------------------------------------------------------------------------------------------

    def held_at(self, pc: int, entered: int | None = None) -> State | None:
        """The state before the instruction at a program counter; None if its function cannot be analysed.

        The parameters are those of `start_of`.
        """
        function = self._function_at(pc, entered)
        return function.before(pc) if function is not None else None

    def state_at(self, pc: int) -> State | None:
        """As `held_at`, also for a function that acquires and releases nothing."""
        start = self.start_of(pc)
        function = self._function(start) if start is not None else None
        return function.before(pc) if function is not None else None

    def called_at(self, pc: int, entered: int | None = None) -> int | None:
        """The function that the call at a program counter calls."""
        function = self._function_at(pc, entered)
        called = function.called_at(pc) if function is not None else None
        return self.code.behind_stub(called) if called is not None else None

    def acquired_by(self, pc: int, lock: Value, entered: int | None = None) -> int | None:
        """The function whose call has acquired a lock that is held at a program counter."""
        function = self._function_at(pc, entered)
        return function.acquired_by.get(lock) if function is not None else None

    def gives_back(self, pc: int, lock: Value, entered: int | None = None) -> bool:
        """Whether the function of a program counter releases a lock that it has acquired."""
        function = self._function_at(pc, entered)
        return function is not None and lock in function.given_back

    def passes(self, pc: int, lock: Value, entered: int | None = None) -> bool:
        """Whether the call at a program counter gets the address of a lock that is held there."""
        function = self._function_at(pc, entered)
        return function is None or function.passes(pc, lock)

    def has_called_unknown(self, pc: int) -> bool:
        """Whether the function of a program counter may have called code that is not known and that has returned."""
        state = self.state_at(pc)
        return state is None or any(self.escapes_of_call(called).unknown for called in state.called)

    # -- whole functions -------------------------------------------------------------------------------------------

    def summary_of_call(self, address: int) -> Summary:
        """The effect of a call of a function by a frame of a stack."""
        if self._is_postponed("effect", address, lambda: self.summary_of_call(address)):
            return ANY_LOCK
        self.callees.begin()
        return self.callees.summary(address, 1)

    def escapes_of_call(self, address: int | None) -> Escapes:
        """What may happen to addresses that a function gets which a frame of a stack has called."""
        if self._is_postponed("reach", address, lambda: self.escapes_of_call(address)):
            return self.callees.any_escapes
        self.callees.begin()
        return self.callees.escapes(address, 1)

    def keeps(self, start: int, pc: int, lock: Value) -> bool:
        """Whether a call in a function acquires a lock that the function returns with, if it makes that call.

        It needs `notes_taken`, as the next one does.
        """
        function = self.callees.function(start, 1)
        return function is not None and function.keeps(pc, lock)

    def acquires_by_instruction(self, start: int, lock: Value) -> bool:
        """Whether an instruction of a function itself acquires a lock, on some path at least."""
        function = self.callees.function(start, 1)
        return function is not None and function.acquires_by_instruction(lock)
