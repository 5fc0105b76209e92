"""The summaries of all functions that calls lead to: each is analysed once, within bounds of depth, number and time."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping

from gdbext.proofs.call_graph import MAX_DEPTH, CallGraph
from gdbext.proofs.flow.atomics import Inlined
from gdbext.proofs.flow.function import Function, analyse
from gdbext.proofs.flow.summaries import ANY_LOCK, NO_EFFECT, Escapes, Summary
from gdbext.proofs.machine_code import MachineCode

#: Most callees that are analysed for one question.
_MAX_CALLEES = 200
#: Most bytes of a function that does nothing but return a constant, as __gthread_active_p without optimisation.
_MAX_CONSTANT = 32
#: Most processor time since the first function was analysed, in seconds. What is analysed later proves nothing.
_MAX_SECONDS = 10.0


class CalleeSummaries:
    """Implements `Callees` for the functions of a program.

    :param primitives: the summaries of the functions that acquire and release locks, by address. They change no memory
        but the lock, unless other threads do meanwhile.
    :param notes_taken: whether the locks that each path may have acquired are of interest.
    """

    def __init__(self, code: MachineCode, graph: CallGraph, primitives: Mapping[int, Summary],
                 inlined: Inlined | None, notes_taken: bool) -> None:
        self._code = code
        self._graph = graph
        self._inlined = inlined
        self.notes_taken = notes_taken
        self.primitives = frozenset(primitives)
        self._primitive_summaries = [*primitives.values()]
        self._summaries = dict(primitives)
        self._escapes: dict[int, Escapes] = {}
        self._functions: dict[int, Function | None] = {}
        self._callees = 0
        # function -> the smallest depth of a call at which a bound was reached
        self._cut: dict[int, int] = {}
        self._is_cut = False
        arguments = frozenset(code.cpu.ARGUMENTS)
        self.copying = Escapes(copies=frozenset(code.cpu.ARGUMENTS[:1]), uses=arguments)
        self.any_escapes = Escapes(unknown=True, uses=arguments)
        self._only_uses = Escapes(uses=arguments)
        self._end = time.thread_time() + _MAX_SECONDS
        self.is_exhausted = False

    def renew_all(self) -> None:
        """Begin another snapshot: there is time again, and what a bound has cut short is forgotten."""
        self._end = time.thread_time() + _MAX_SECONDS
        for address in [*self._cut]:
            self._renew(address, -1)

    def begin(self) -> None:
        """Begin another question, for which as many callees are analysed as for any other."""
        self._callees = 0

    def is_late(self) -> bool:
        """Whether the time for all functions is over."""
        self.is_exhausted |= time.thread_time() >= self._end
        return self.is_exhausted

    def is_primitive(self, summary: Summary) -> bool:
        """Whether a summary is that of a function that acquires or releases by definition, not by its code."""
        return any(summary is known for known in self._primitive_summaries)

    # -- functions -------------------------------------------------------------------------------------------------

    def is_analysed(self, start: int) -> bool:
        """Whether a function is analysed, as completely as it can be for a frame of a stack."""
        self._renew(start, 0)
        return start in self._functions

    def function(self, start: int, depth: int) -> Function | None:
        """The function at an address; None if it cannot be analysed."""
        self._renew(start, depth)
        if start not in self._functions:
            self._functions[start] = None  # for a recursive call
            found = self._code.program.function_range(start)
            if found is not None and self._code.program.starts_function(start):
                self._functions[start] = analyse(self._code, self, self._inlined, found, depth)
        return self._functions[start]

    def _renew(self, address: int, depth: int) -> None:
        """Forget what is known of a function if it is incomplete only because of a deeper call.

        What is complete is kept for all depths, so that more is known if inner frames are examined first.
        """
        if self._cut.get(address, -1) > depth:
            del self._cut[address]
            self._summaries.pop(address, None)
            self._functions.pop(address, None)
            self._escapes.pop(address, None)

    @contextlib.contextmanager
    def _noting_cuts(self, address: int, depth: int) -> Iterator[None]:
        """Note if a bound is reached while something about the function at an address is found out."""
        before, self._is_cut = self._is_cut, False
        yield
        if self._is_cut:
            self._cut[address] = min(depth, self._cut.get(address, depth))
        self._is_cut |= before

    def _analyse_callee(self, address: int, depth: int) -> Function | None:
        """The function that is called; None if it cannot be analysed, or if a bound is reached."""
        self._callees += 1
        if depth > MAX_DEPTH or self._callees > _MAX_CALLEES:
            self._is_cut = True
            return None
        return self.function(address, depth)

    # -- their summaries -------------------------------------------------------------------------------------------

    def summary(self, address: int, depth: int) -> Summary:
        """The effect of a call of the function at an address, or behind the stub there."""
        behind = self._code.behind_stub(address)
        if behind is None:
            return NO_EFFECT
        self._renew(behind, depth)
        known = self._summaries.get(behind)
        if known is None:
            self._summaries[behind] = ANY_LOCK  # for a recursive call
            with self._noting_cuts(behind, depth):
                known = self._summaries[behind] = self._summarise(behind, depth)
        self._is_cut |= behind in self._cut
        return known

    def _summarise(self, address: int, depth: int) -> Summary:
        if self._graph.calls_back(address):
            return ANY_LOCK
        found = self._code.program.function_range(address)
        if found is None or found[0] != address:
            return NO_EFFECT
        if not self._graph.may_call(self.primitives, address, depth) and found[1] - found[0] > _MAX_CONSTANT:
            return NO_EFFECT
        function = self._analyse_callee(address, depth)
        return function.summary() if function is not None else ANY_LOCK

    def escapes(self, address: int | None, depth: int) -> Escapes:
        """What may happen to addresses that a function gets; None is a function that is not known."""
        behind = self._code.behind_stub(address) if address is not None else None
        if behind is None:
            return self.any_escapes
        if behind in self.primitives:
            return self._only_uses
        self._renew(behind, depth)
        if behind not in self._escapes:
            self._escapes[behind] = self.any_escapes  # for a recursive call
            with self._noting_cuts(behind, depth):
                self._escapes[behind] = self._find_escapes(behind, depth)
        self._is_cut |= behind in self._cut
        return self._escapes[behind]

    def _find_escapes(self, address: int, depth: int) -> Escapes:
        if self._graph.is_outside(address):
            return self.copying
        if self._graph.calls_back(address):
            return self.any_escapes
        function = self._analyse_callee(address, depth)
        return function.escapes(depth) if function is not None else self.any_escapes
