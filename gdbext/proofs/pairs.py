"""One kind of lock whose owner is not recorded: the functions that acquire and release it, and rules of its own.

A kind that is acquired and released by calls, or by atomic instructions, is one value of `Pairs`. A library with a rule
of its own has a subclass, which replaces the methods below.
"""

from __future__ import annotations

from collections.abc import Iterable

from gdbext.inferior.protocol import Target
from gdbext.proofs.analysis import LockAnalysis
from gdbext.proofs.flow.atomics import Inlined
from gdbext.proofs.functions import Call, FunctionFinder, LockFunctions
from gdbext.proofs.linkage import Linkage
from gdbext.proofs.program import Program
from gdbext.proofs.rules import FrameRules
from gdbext.record import record


@record
class Pairs:
    """The functions for the locks of one kind, all of which have exported names.

    `acquires` and `releases` are called for the lock. A function of `suspends` gets a lock that is held, and returns
    with it; while a thread is inside of it, it does not hold the lock. `inlined` are the instructions in code of the
    program, but not in the interpreter.
    """

    acquires: tuple[Call, ...] = ()
    releases: tuple[Call, ...] = ()
    suspends: tuple[Call, ...] = ()
    inlined: Inlined | None = None

    # -- what a library may replace --------------------------------------------------------------------------------

    @property
    def others_release(self) -> bool:
        """Whether any thread may release a lock that one has acquired, so that the thread is only a candidate."""
        return False

    @property
    def may_acquire(self) -> tuple[Call, ...]:
        """Functions for another kind, which most files call; code may call one of them in place of `acquires`."""
        return ()

    @property
    def runs(self) -> tuple[Call, ...]:
        """Functions that hold the lock while they call another one back."""
        return ()

    @property
    def waits(self) -> tuple[Call, ...]:
        """The functions that only wait for a lock, of a file whose other functions call code of the program."""
        return ()

    @property
    def has_guards(self) -> bool:
        """Whether guard objects prove that a thread holds a lock, also if no function acquires it."""
        return False

    def namespace(self, functions: Iterable[str]) -> str | None:
        """The inline namespace of the library's release, which the names in the row lack.

        :param functions: the demangled names of functions in which a thread waits.
        """
        return None

    @property
    def hidden(self) -> Inlined | None:
        """The instructions, also in the library's own code, if no file exports the functions."""
        return None

    def rules(self, functions: LockFunctions, target: Target, program: Program, linkage: Linkage) -> FrameRules:
        """The rules for the frames of a snapshot."""
        return FrameRules(functions, target, program, linkage)

    # -- the functions in the files of a target ----------------------------------------------------------------------

    def find(self, finder: FunctionFinder, namespace: str | None = None,
             hidden: frozenset[int] = frozenset()) -> LockFunctions | None:
        """The functions in the files of a target; None if no file has one that acquires.

        :param namespace: see `namespace`.
        :param hidden: functions that acquire locks, for a library that exports none of them.
        """
        acquiring = finder.find(self.acquires + self.may_acquire, namespace)
        running = finder.find(self.runs, namespace)
        inlined, is_hidden = self.inlined, bool(not acquiring and hidden and self.hidden is not None)
        if is_hidden:
            acquiring, inlined = finder.at(hidden), self.hidden
        if not (acquiring or running or self.has_guards or self.inlined is not None and self.inlined.may_acquire):
            return None
        own, releasing, suspending, waiting = (
            finder.find(each, namespace) for each in (self.acquires, self.releases, self.suspends, self.waits))
        are_own = self.inlined is not None or self.others_release
        outside = [*finder.library, *finder.interpreters()] if are_own else finder.library
        analysis = LockAnalysis(finder.target, finder.program, finder.summaries(acquiring, releasing, suspending),
                                outside, inlined, [module for _, module in waiting.values()], frozenset(waiting),
                                notes_taken=is_hidden)
        ending = frozenset((*releasing, *suspending))
        parts = {part: call for address, (call, _) in running.items() for part in finder.parts(address)}
        return LockFunctions(
            analysis, frozenset((*own, *ending, *parts)), {at: call for at, (call, _) in acquiring.items()}, ending,
            {at: module.path for at, (call, module) in acquiring.items() if call.argument is None}, parts,
            frozenset(waiting))
