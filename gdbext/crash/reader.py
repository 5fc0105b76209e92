"""Explains a crash: which thread died of what, where, which rules were broken, and who else was there.

The thread is the one that a signal stopped which makes cores; if its handler was running (faulthandler, a failure
handler) the fault is the one that the kernel left on the stack below it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from gdbext.arch.x86_64.signals import (
    CORE_SIGNALS,
    FAULT_SIGNALS,
    SI_TKILL,
    SIGABRT,
    SIGTRAP,
    read_signal_frame,
)
from gdbext.cpython.values import Limits
from gdbext.crash.abort import AbortReader
from gdbext.crash.fault import REGISTERS, FaultReader, FaultSite, SeenFault
from gdbext.crash.gil_rules import GilRules
from gdbext.crash.pointers import Pointers
from gdbext.crash.suspects import SuspectFinder, is_library_function
from gdbext.elf.notes import build_id_at
from gdbext.errors import GdbextError
from gdbext.inferior.protocol import Module, Target
from gdbext.model import (
    DERIVED,
    INFERRED,
    Crash,
    Evidence,
    Fault,
    Finding,
    Frame,
    Local,
    MixedStack,
    NativeFrame,
    Part,
    PyFrame,
    Recursion,
    Report,
    Suspect,
)
from gdbext.stacks.mixed import MixedStacks
from gdbext.stacks.recursion import find_rounds
from gdbext.threads.code import MAX_NATIVE_FRAMES, Code
from gdbext.threads.interrupted import handlers, is_sending, was_sending
from gdbext.threads.python_side import PythonSide
from gdbext.threads.site import Sites
from gdbext.threads.threads import SeenThread, Threads

#: How many frames are looked at where the fault is sought, and kept of the interpreter's own.
_MAX_TOP, _MAX_KEPT = 64, 12
#: How many threads are asked for their signal.
_MAX_ASKED = 4096
#: General registers that are not read of every thread at first: to read one again costs as much as to read another.
_OTHERS = ("rbx", "rcx", "r11", "r12", "r13", "r14", "r15")
#: How many frames have their variables read.
_MAX_WITH_VARIABLES = 24
#: Kinds of faults that other threads may have had a hand in: memory was not as it should be.
_MAY_BE_RACES = frozenset((
    "null-pointer", "null-member", "null-call", "small-pointer", "pattern", "non-canonical", "unmapped",
    "no-permission", "execute-data", "general-protection", "heap-corruption", "assertion", "sanitizer"))
_INT3 = b"\xcc"
#: How many files that are missing are named.
_MAX_NAMED = 8
#: From how many frames on a stack is looked at for recursion that did not use it up.
_DEEP = 500


class CrashReader:
    """Explains the crash of a target.

    :param c_library: the modules of the C library.
    """

    def __init__(self, target: Target, code: Code, threads: Threads, side: PythonSide, sites: Sites,
                 mixed: MixedStacks, c_library: Sequence[Module]) -> None:
        self._target = target
        self._memory = target.memory
        self._code = code
        self._threads = threads
        self._side = side
        self._sites = sites
        self._mixed = mixed
        self._pointers = Pointers(target, code, threads, side.pythons)
        self._aborts = AbortReader(target, code, side, sites, self._pointers, c_library)
        self._rules = GilRules(target.memory, code, side, sites)

    def read(self, report: Report, limits: Limits) -> Crash:
        """Explain the crash.

        :param report: what else is known of the target: threads with their locks and states.
        :raises GdbextError: no thread was stopped by a signal that ends programs.
        """
        site = self._find_site()
        seen = self._at_fault(self._threads[site.thread.number], site)
        native = seen.native(self._code)
        offset = len(self._threads[site.thread.number].whole(self._code)) - len(native)
        fault = FaultReader(self._target, self._code, self._pointers).read(
            replace(site, frames=native, offset=max(offset, 0)))
        if site.info.number == SIGABRT and fault.fault.kind == "abort":
            fault = replace(fault, fault=self._aborts.explain(fault.fault, native, site.registers))
        stack = self._stack(seen, native, limits, offset)
        recursion, stack = self._recursion(fault.fault, seen, native, stack)
        suspects: tuple[Suspect, ...] = ()
        if fault.fault.kind in _MAY_BE_RACES:
            finder = SuspectFinder(self._memory, self._code, self._sites, self._pointers, self._side.interpreter_code,
                                   lambda number: self._side.thread(number).tstates,
                                   lambda other: {**other.registers, **self._target.registers(other.ref, _OTHERS)})
            suspects = finder.find(seen, native, site.registers, fault.objects, self._threads, report)
        # what was called and is no code is nobody's function
        guilty = self._guilty(stack.frames, 1 if fault.fault.access == "execute" else 0)
        return Crash(seen.number, fault.fault, stack, guilty, recursion,
                     tuple(self._broken_rules(seen, native, fault, report)), suspects, tuple(self._missing(native)))

    # -- which thread, and where it was ----------------------------------------------------------------------

    def _find_site(self) -> FaultSite:
        selected = self._target.selected()
        order = sorted(self._threads, key=lambda seen: seen.number != selected)
        for seen in order[:_MAX_ASKED]:
            if seen.unavailable is None:
                site = self._signalled(seen)
                if site is not None:
                    return site
        # a handler may be at work, or wait for somebody to look
        for seen in order[:_MAX_ASKED]:
            if seen.unavailable is None:
                site = self._below_handler(seen, None)
                if site is not None:
                    return site
        raise GdbextError("no thread was stopped by a signal that ends programs",
                          "`py-deadlocks` looks for hangs; `info threads` shows all threads")

    def _signalled(self, seen: SeenThread) -> FaultSite | None:
        info = self._target.signal(seen.ref)
        if info is None or info.number not in CORE_SIGNALS:
            return None
        if info.number == SIGTRAP and self._target.kind == "live" and not self._is_own_breakpoint(seen):
            return None
        if info.address is None and info.number in (*FAULT_SIGNALS, SIGABRT):
            # who handles a fault sends the signal again
            below = self._below_handler(seen, info.number)
            if below is not None:
                return below
        if seen.is_taken_back and not seen.handler:
            info = replace(info, code=None, pid=None, uid=None)  # that of its own handler, which has returned
        return FaultSite(seen.ref, info, self._target.registers(seen.ref, REGISTERS),
                         by_others=not seen.handler and not is_sending(seen.registers))

    def _is_own_breakpoint(self, seen: SeenThread) -> bool:
        """Whether the program itself has an `int3` there: a debugger hides its own."""
        try:
            return self._memory.read(seen.registers["rip"] - 1, 1) == _INT3
        except GdbextError:
            return False

    def _below_handler(self, seen: SeenThread, number: int | None) -> FaultSite | None:
        """Where a thread was when a signal came whose handler runs.

        :param number: which signal it must be, None: any that ends programs.
        """
        native = seen.whole(self._code)
        for depth, sp in handlers(self._memory, native):
            try:
                frame = read_signal_frame(self._memory, sp, number)
            except GdbextError:
                continue
            if frame is not None:
                registers, info = {**frame.registers, "fs_base": seen.registers.get("fs_base", 0)}, frame.info
                if info.code is None:
                    if "abort" in self._sites.site(native[:depth - 1]).functions:
                        return None  # any signal's handler may give up that way, as a watchdog's does
                    if was_sending(self._target, self._code, registers):
                        info = replace(info, code=SI_TKILL)
                return FaultSite(seen.ref, info, registers, frame.access, True)
        return None

    def _at_fault(self, seen: SeenThread, site: FaultSite) -> SeenThread:
        """The thread as it was at its fault: without the frames of a handler, and with a caller of what is no code."""
        native = seen.whole(self._code)
        pc, sp = site.registers["rip"], site.registers["rsp"]
        if site.in_handler:
            at = next((i for i, frame in enumerate(native) if frame == (pc, sp)), None)
            native = native[at:] if at is not None else self._code.unwind(seen.ref, site.registers)
        if len(native) < 2 and self._code.module(pc) is None:
            native = [(pc, sp), *self._callers(seen, site.registers)]
        return replace(seen, registers=site.registers, frames=native, handler=())

    def _callers(self, seen: SeenThread, registers: Mapping[str, int]) -> list[tuple[int, int]]:
        """The frames outside of a call to where no code is: the return address is on top of the stack."""
        after = self._code.return_address(registers["rsp"])
        if after is None:
            return []
        return self._code.unwind(seen.ref, {**registers, "rip": after, "rsp": registers["rsp"] + 8})

    # -- the stack -----------------------------------------------------------------------------------------------

    def _stack(self, seen: SeenThread, native: Sequence[tuple[int, int]], limits: Limits,
               offset: int) -> MixedStack:
        def variables(index: int) -> list[Local]:
            if index >= _MAX_WITH_VARIABLES or offset < 0:
                return []
            return [Local(*each) for each in self._target.variables(seen.ref, index + offset)]

        return self._mixed.with_variables(seen, self._side.thread(seen.number), self._side.stack(seen), self._memory,
                                          variables, limits,
                                          self._kept(native))

    def _kept(self, native: Sequence[tuple[int, int]]) -> frozenset[int]:
        """The interpreter's frames that the fault was in, which are to be seen: those inside of the eval loop."""
        kept: set[int] = set()
        for i, (pc, _) in enumerate(native[:_MAX_TOP]):
            if self._side.is_eval(pc):
                break
            if self._side.interpreter_code[pc]:
                kept.add(i)
            elif not self._sites.in_runtime(pc) and self._code.module(pc) is not None:
                break
            if len(kept) >= _MAX_KEPT:
                break
        return frozenset(kept)

    def _guilty(self, frames: Sequence[Frame], first: int) -> int | None:
        """The innermost frame from `first` on of code that is neither the interpreter's nor a run-time library's."""
        for index, frame in enumerate(frames[first:], first):
            if isinstance(frame, PyFrame):
                return index
            # of libraries that are templates the program's own code is what counts
            own = not (self._sites.in_runtime(frame.pc) or self._side.interpreter_code[frame.pc]
                       or is_library_function(frame.function or ""))
            if own and self._code.module(frame.pc) is not None:
                return index
        return None

    def _recursion(self, fault: Fault, seen: SeenThread, native: Sequence[tuple[int, int]],
                   stack: MixedStack) -> tuple[Recursion | None, MixedStack]:
        """How deep a stack is that repeats itself, and the stack with the repetition told once."""
        if len(native) < _DEEP and fault.kind != "stack-overflow":
            return None, stack
        keys = [tuple(map(_key, part.frames)) for part in stack.parts]
        rounds = find_rounds(keys)
        if rounds is None:
            return None, stack
        found = list(_with_indices(stack))
        again = found[rounds.start + rounds.period:rounds.end]
        frames = tuple(frame for part, _ in again for frame in part.frames)
        what = f"the same {rounds.period} entries" if rounds.period > 1 else "the same entry"
        folded = Part(frames, f"{what} {rounds.times - 1:,} times more")
        parts = (*(part for part, _ in found[:rounds.start + rounds.period]), folded,
                 *(part for part, _ in found[rounds.end:]))
        one_round = tuple(index for _, indices in found[rounds.start:rounds.start + rounds.period] for index in indices)
        whole = len(native) < MAX_NATIVE_FRAMES
        region = self._pointers.space.find(native[-1][1]) if native else None
        used = None if whole or region is None else region.end - seen.registers["rsp"]
        return (Recursion(one_round, rounds.times, len(native), whole, used), replace(stack, parts=parts))

    # -- rules ---------------------------------------------------------------------------------------------------

    def _broken_rules(self, seen: SeenThread, native: Sequence[tuple[int, int]], fault: SeenFault,
                      report: Report) -> Iterator[Finding]:
        # one that somebody else ended may have been asleep as any other
        yield from self._rules.of_thread(seen, native, fault.fault.kind != "sent")
        yield from self._dead_objects(seen, fault)
        for other in self._threads:
            if other.number != seen.number and other.unavailable is None:
                yield from self._rules.of_thread(other, other.native(self._code), False)
        yield from self._rules.blocking(report)

    def _dead_objects(self, seen: SeenThread, fault: SeenFault) -> Iterator[Finding]:
        """Objects that are none: those whose pointer to their type led to the fault, and variables."""
        # only the interpreter's own code is known to read types there
        at = self._rules.type_offset() if self._side.interpreter_code[fault.code_at] else None
        used = {link.base for link in fault.chain if link.offset is not None and link.offset == at}
        names = self._rules.dead_variables(seen)
        for address in dict.fromkeys([*(address for address in used if address is not None), *names]):
            state = self._rules.object_state(address)
            if state is None:
                continue
            called = f", {' and '.join(names[address])}," if address in names else ""
            # of a variable it is known that it should be one; the interpreter reads other structures besides objects
            evidence: Evidence = DERIVED if address in names else INFERRED
            what = "a variable has it" if address in names else (
                "the interpreter read a bad pointer from where an object has its type")
            yield Finding("impossible-object", seen.number, f"{address:#x}{called} is no Python object (any more): "
                          f"{state.problem}", evidence, f"{what}, and its header can be that of no live object")

    # -- what is missing -----------------------------------------------------------------------------------------

    def _missing(self, native: Sequence[tuple[int, int]]) -> Iterator[str]:
        """What is not there; files that a frame lies in one by one, the others together."""
        if self._code.unlisted is not None:
            names = _some(self._code.unlisted_libraries())
            yield f"{self._code.unlisted}; so nothing in {names} is named or decoded, and stacks may end there"
            return
        gone = self._code.missing_libraries()
        if self._code.truncated is not None:
            yield f"{self._code.truncated}; what was in the rest cannot be read"
        places = (self._code.missing_file(pc) for pc, _ in native[:_MAX_TOP])
        on_stack = list(dict.fromkeys(path for path in places if path is not None))
        for path in on_stack:
            build_id = build_id_at(self._memory, gone[path]) if path in gone else None
            name = f"{path} (build id {build_id})" if build_id else path
            yield f"{name}: frames in it have no names, and the stack may end there"
        others = [path.rpartition("/")[2] for path in gone if path not in on_stack]
        if others:
            yield f"files that were mapped and are not here: {_some(others)}"


def _some(names: Iterable[str]) -> str:
    found = list(names)
    more = f" and {len(found) - _MAX_NAMED} more" if len(found) > _MAX_NAMED else ""
    return ", ".join(found[:_MAX_NAMED]) + more


def _key(frame: Frame) -> tuple[object, ...]:
    if isinstance(frame, NativeFrame):
        return (frame.pc,)
    return (frame.qualified_name, frame.file, frame.line)


def _with_indices(stack: MixedStack) -> Iterator[tuple[Part, range]]:
    """Each part of a stack, and which of its frames, by index, are in it."""
    at = 0
    for part in stack.parts:
        yield part, range(at, at + len(part.frames))
        at += len(part.frames)
