"""Explains a crash: which thread died of what, where, which rules were broken, and which threads may have raced.

The thread is the one that was stopped by a signal that ends programs; if its handler was running (faulthandler, a
failure handler) the fault is the one that the kernel saved on the stack below it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from gdbext.cpython.values import Limits
from gdbext.crash.abort import AbortReader
from gdbext.crash.fault import FaultReader, FaultSite, SeenFault
from gdbext.crash.gil_rules import GilRules
from gdbext.crash.pointers import Pointers
from gdbext.crash.suspects import SuspectFinder, is_library_function
from gdbext.elf.notes import build_id_at
from gdbext.errors import GdbextError
from gdbext.inferior.protocol import Module, Target
from gdbext.inferior.signals import CORE_SIGNALS, FAULT_SIGNALS, SI_TKILL, SIGABRT, SIGTRAP
from gdbext.model import (
    DERIVED,
    INFERRED,
    Crash,
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
from gdbext.model.reasons import Reason, because
from gdbext.stacks.mixed import MixedStacks
from gdbext.stacks.recursion import find_rounds
from gdbext.threads.code import MAX_NATIVE_FRAMES, Code
from gdbext.threads.interrupted import handlers, is_sending, was_sending
from gdbext.threads.python_side import PythonSide
from gdbext.threads.site import Sites
from gdbext.threads.threads import SeenThread, Threads

#: How many innermost frames are searched, and how many of the interpreter's own are shown.
_MAX_TOP, _MAX_KEPT = 64, 12
#: How many threads are asked for their signal.
_MAX_ASKED = 4096
#: How many frames have their variables read.
_MAX_WITH_VARIABLES = 24
#: Kinds of faults that other threads may have caused: memory was not as it should be.
_MAY_BE_RACES = frozenset((
    "null-pointer", "null-member", "null-call", "small-pointer", "pattern", "non-canonical", "unmapped",
    "no-permission", "execute-data", "general-protection", "heap-corruption", "assertion", "sanitizer"))
#: How many missing files are named.
_MAX_NAMED = 8
#: From how many frames on a stack is searched for recursion that did not use it up.
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
        self._cpu = code.cpu
        self._threads = threads
        self._side = side
        self._sites = sites
        self._mixed = mixed
        self._pointers = Pointers(target, code, threads, side.pythons)
        self._aborts = AbortReader(target, code, side, sites, self._pointers, c_library)
        self._rules = GilRules(target.memory, code, side, sites)

    def read(self, report: Report, limits: Limits) -> Crash:
        """Explain the crash.

        :param report: the threads of the target with their locks and states.
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
            # to read a register again costs as much as to read another one
            others = [name for name in self._cpu.FRAME if name not in self._cpu.AT_STOP]
            finder = SuspectFinder(self._memory, self._code, self._sites, self._pointers, self._side.interpreter_code,
                                   lambda number: self._side.thread(number).tstates,
                                   lambda other: {**other.registers, **self._target.registers(other.ref, others)})
            suspects = finder.find(seen, native, site.registers, fault.objects, self._threads, report)
        # a bad address that was called is not a function
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
        # a handler may still run, or wait for a debugger
        for seen in order[:_MAX_ASKED]:
            if seen.unavailable is None:
                site = self._below_handler(seen, None)
                if site is not None:
                    return site
        raise GdbextError("no thread was stopped by a signal that ends programs",
                          "`py-deadlocks` finds hangs; `info threads` shows all threads")

    def _signalled(self, seen: SeenThread) -> FaultSite | None:
        info = self._target.signal(seen.ref)
        if info is None or info.number not in CORE_SIGNALS:
            return None
        if info.number == SIGTRAP and self._target.kind == "live" and not self._cpu.is_own_breakpoint(
                self._memory, seen.pc):
            return None
        if info.address is None and info.number in (*FAULT_SIGNALS, SIGABRT):
            # a handler of a fault sends the signal again
            below = self._below_handler(seen, info.number)
            if below is not None:
                return below
        if seen.is_restored and not seen.handler:
            info = replace(info, code=None, pid=None, uid=None)  # that of its own handler, which has returned
        return FaultSite(seen.ref, info, self._target.registers(seen.ref, self._cpu.FRAME),
                         by_others=not seen.handler and not is_sending(self._cpu, seen.registers))

    def _below_handler(self, seen: SeenThread, number: int | None) -> FaultSite | None:
        """Where a thread was when the signal arrived whose handler runs.

        :param number: which signal it must be, None: any that ends programs.
        """
        native = seen.whole(self._code)
        for depth, sp in handlers(self._cpu, self._memory, native):
            try:
                frame = self._cpu.read_signal_frame(self._memory, sp, number)
            except GdbextError:
                continue
            if frame is not None:
                name, info = self._cpu.THREAD_POINTER, frame.info
                registers = {**frame.registers, name: seen.registers.get(name, 0)}
                if info.code is None:
                    if "abort" in self._sites.site(native[:depth - 1]).functions:
                        return None  # any signal's handler may give up that way, as a watchdog's does
                    if was_sending(self._target, self._code, registers):
                        info = replace(info, code=SI_TKILL)
                return FaultSite(seen.ref, info, registers, frame.access, True)
        return None

    def _at_fault(self, seen: SeenThread, site: FaultSite) -> SeenThread:
        """The thread at its fault: without the frames of a handler, and with the caller of a bad address."""
        native = seen.whole(self._code)
        pc, sp = site.registers[self._cpu.PROGRAM_COUNTER], site.registers[self._cpu.STACK_POINTER]
        if site.in_handler:
            at = next((i for i, frame in enumerate(native) if frame == (pc, sp)), None)
            native = native[at:] if at is not None else self._code.unwind(seen.ref, site.registers)
        if len(native) < 2 and self._code.module(pc) is None:
            native = [(pc, sp), *self._callers(seen, site.registers)]
        return replace(seen, registers=site.registers, frames=native, handler=())

    def _callers(self, seen: SeenThread, registers: Mapping[str, int]) -> list[tuple[int, int]]:
        """The frames outside a call of a bad address: the return address is on top of the stack."""
        sp = registers[self._cpu.STACK_POINTER]
        after = self._code.return_address(sp)
        if after is None:
            return []
        return self._code.unwind(seen.ref, {**registers, self._cpu.PROGRAM_COUNTER: after,
                                             self._cpu.STACK_POINTER: sp + 8})

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
        """The interpreter's frames to show: those of the fault, inside the eval loop."""
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
        """The recursion of a stack that repeats itself, and the stack with the repetition shown once."""
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
        used = None if whole or region is None else region.end - seen.sp
        return (Recursion(one_round, rounds.times, len(native), whole, used), replace(stack, parts=parts))

    # -- rules ---------------------------------------------------------------------------------------------------

    def _broken_rules(self, seen: SeenThread, native: Sequence[tuple[int, int]], fault: SeenFault,
                      report: Report) -> Iterator[Finding]:
        # a thread that another one ended may have been asleep as any other
        yield from self._rules.of_thread(seen, native, fault.fault.kind != "sent")
        yield from self._dead_objects(seen, fault)
        for other in self._threads:
            if other.number != seen.number and other.unavailable is None:
                yield from self._rules.of_thread(other, other.native(self._code), False)
        yield from self._rules.blocking(report)

    def _dead_objects(self, seen: SeenThread, fault: SeenFault) -> Iterator[Finding]:
        """Dead objects: those whose type pointer led to the fault, and those in variables."""
        # only the interpreter's own code is known to read types there
        at = self._rules.type_offset() if self._side.interpreter_code[fault.code_at] else None
        used = {link.base for link in fault.chain if link.offset is not None and link.offset == at}
        names = self._rules.dead_variables(seen)
        for address in dict.fromkeys([*(address for address in used if address is not None), *names]):
            state = self._rules.object_state(address)
            if state is None:
                continue
            # a variable should refer to an object; the interpreter reads other structures besides objects
            yield Finding("impossible-object", seen.number, because(
                "not-an-object", address=address, names=tuple(names.get(address, ())), problem=state.problem),
                DERIVED if address in names else INFERRED,
                because("object-in-variable" if address in names else "type-read-there"))

    # -- what is missing -----------------------------------------------------------------------------------------

    def _missing(self, native: Sequence[tuple[int, int]]) -> Iterator[Reason]:
        """What is missing; files of frames one by one, the others together."""
        if self._code.unlisted is not None:
            names = self._code.unlisted_libraries()
            yield because("libraries-not-listed", why=self._code.unlisted, libraries=tuple(names[:_MAX_NAMED]),
                          more=max(len(names) - _MAX_NAMED, 0))
            return
        gone = self._code.missing_libraries()
        if self._code.truncated is not None:
            yield because("core-cut-off", why=self._code.truncated)
        places = (self._code.missing_file(pc) for pc, _ in native[:_MAX_TOP])
        on_stack = list(dict.fromkeys(path for path in places if path is not None))
        for path in on_stack:
            build_id = build_id_at(self._memory, gone[path]) if path in gone else None
            yield because("file-missing", path=path, build_id=build_id)
        others = [path.rpartition("/")[2] for path in gone if path not in on_stack]
        if others:
            yield because("files-missing", files=tuple(others[:_MAX_NAMED]), more=max(len(others) - _MAX_NAMED, 0))


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
