"""Explains a crash: the thread that died, its fault and stack, broken rules, and threads that may have raced.

The thread is the one that was stopped by a signal that ends programs. If a handler of the signal was running
(faulthandler, a failure handler), the fault is the one that the kernel saved on the stack below it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from gdbext.cpython.values import Limits
from gdbext.crash.abort import AbortReader
from gdbext.crash.fault import FaultReader
from gdbext.crash.gil_rules import GilRules
from gdbext.crash.heap import DamagedHeader, damaged_header
from gdbext.crash.loggers import Logged, LoggerReader
from gdbext.crash.notes import NoteReader
from gdbext.crash.origins import OriginReader
from gdbext.crash.pointers import Pointers
from gdbext.crash.python_fatal import FatalReader
from gdbext.crash.seen import FaultSite, SeenFault
from gdbext.crash.suspects import GLUE, SuspectFinder, is_library_function
from gdbext.crash.written import Written, WrittenReader
from gdbext.elf.notes import build_id_at
from gdbext.errors import GdbextError
from gdbext.inferior.cache import PAGE
from gdbext.inferior.protocol import Module, Target
from gdbext.inferior.signals import CORE_SIGNALS, FAULT_SIGNALS, SI_TKILL, SIGABRT, SIGTRAP, signal_name
from gdbext.model import (
    DERIVED,
    INFERRED,
    Crash,
    Fault,
    Finding,
    Frame,
    Handler,
    Local,
    MixedStack,
    NativeFrame,
    PyFrame,
    Recursion,
    Report,
    Suspect,
)
from gdbext.model.reasons import Reason, because
from gdbext.record import record
from gdbext.runtimes.names import rust_name
from gdbext.stacks.mixed import MixedStacks
from gdbext.stacks.recursion import DEEP, MIN_LENGTH, SMALL, find_rounds, fold, place_of
from gdbext.threads.code import MAX_NATIVE_FRAMES, Code
from gdbext.threads.interrupted import handled_signals, handlers, is_sending, was_sending
from gdbext.threads.python_side import PythonSide
from gdbext.threads.site import Sites
from gdbext.threads.threads import SeenThread, Threads

#: How many innermost frames are searched, and how many of the interpreter's frames are shown.
_MAX_TOP, _MAX_KEPT = 64, 12
#: How many threads have their signals read.
_MAX_ASKED = 4096
#: How many frames have their variables read.
_MAX_WITH_VARIABLES = 24
#: Kinds of faults that other threads may have caused by changing memory.
_MAY_BE_RACES = frozenset((
    "null-pointer", "null-member", "null-element", "null-call", "small-pointer", "pattern", "non-canonical", "unmapped",
    "no-permission", "execute-data", "general-protection", "heap-corruption", "assertion", "sanitizer",
    "pure-virtual-call"))
#: How many missing files are named.
_MAX_NAMED = 8
#: Functions in the headers of Python, which are compiled into extensions.
_OF_PYTHON_HEADERS = re.compile(r"/include/python3?[.\d]*[a-z]*/(?:cpython/|internal/)?\w+\.h$")
#: Functions that free the block that is their first argument; debuggers know them by glibc's internal names.
_FREES = re.compile(r"(^|_)free$")
#: Functions of Python's memory allocator. Its free blocks and pools have links where an object has its type.
#: Source: CPython 3.13 Objects/obmalloc.c, Objects/mimalloc.
_ALLOCATES = re.compile(
    r"^(_?Py(Object|Mem)_(Raw)?(Malloc|Calloc|Realloc|Free)\b|(pymalloc|arena_map|_?mi)_|(address_in_range|new_arena)$)")
#: The function that ends a Rust program that got no memory.
_FAILED_ALLOCATION = re.compile(r"^alloc(\[[0-9a-f]+\])?::alloc::handle_alloc_error(::h[0-9a-f]{16})?$")
#: The source files of Rust's library.
_OF_RUST = re.compile(r"(^|/)library/(core|std|alloc|panic_\w+)/src/")
#: How many outermost frames of a deep stack are read, and how many frames that have begun a recursion are shown.
_MAX_OUTERMOST, _MAX_BEGUN = 30, 6


@record
class _Begun:
    """The depth of a stack in native frames, how many are outside of its recursion, and the innermost frames there."""

    depth: int
    outside: int | None
    frames: tuple[Frame, ...] = ()


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
        self._notes = NoteReader(target.memory, code, threads, side, sites, self._pointers)
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
        site = replace(site, frames=native, offset=max(offset, 0))
        notes: list[Reason] = []
        faults = FaultReader(self._target, self._code, self._pointers)
        fault = faults.read(site)
        aftermath = self._aftermath(site, self._threads[site.thread.number], fault.fault)
        if site.info.number == SIGABRT and fault.fault.kind == "abort":
            fault = self._aborts.explain(fault.fault, native, site.registers)
            if fault.fault.kind == "abort":
                fault = self._logged(fault, LoggerReader(
                    self._memory, self._code, self._sites, self._pointers, faults.origins).find(
                        site.thread, native, site.offset), native)
            if fault.fault.kind == "abort":
                fault = self._out_of_memory(fault, site, native, faults.origins)
            if fault.fault.kind == "abort":
                fault = self._written(fault, WrittenReader(
                    self._memory, self._code, self._sites, faults.origins, self._aborts.is_constant).find(
                        native, self._aborts.used_stack(site.registers, native)), native)
            if fault.fault.text.code == "called-abort":
                fault = self._by_glue(fault, native, faults.origins)
        if fault.fault.kind == "heap-corruption":
            fault, damaged = self._damaged(fault, site, native, faults.origins)
            notes += self._notes.damaged_block(damaged) if damaged is not None else ()
        if fault.fault.kind == "fatal-python-error":
            fault = FatalReader(self._target, self._code, self._threads, self._side, self._sites, self._pointers,
                                faults.origins, self._aborts.is_constant).explain(fault, site, native)
        stack = self._stack(seen, native, limits, offset)
        running = tuple(self._running_handlers(native, stack))
        recursion, stack = self._recursion(fault.fault, seen, native, stack)
        suspects: tuple[Suspect, ...] = ()
        if fault.fault.kind in _MAY_BE_RACES:
            # the registers that the snapshot has are not read again
            others = [name for name in self._cpu.FRAME if name not in self._cpu.AT_STOP]
            finder = SuspectFinder(self._memory, self._code, self._sites, self._pointers, self._side.interpreter_code,
                                   lambda number: self._side.thread(number).tstates,
                                   lambda other: {**other.registers, **self._target.registers(other.ref, others)})
            suspects = finder.find(seen, native, site.registers, fault.objects, self._threads, report)
        # the first frame of a call to a bad address is not a function
        own = stack.frames[:running[0].frame + 1] if running else stack.frames
        is_called = fault.fault.access == "execute" and fault.code_at != fault.fault.pc
        guilty = self._guilty(own, 1 if is_called else 0, fault.blamed)
        notes += [*self._notes.first_fault(site, faults), *self._notes.earlier_damage(fault.fault, own),
                  *self._notes.python_callers(seen, native)]
        return Crash(seen.number, fault.fault, stack, guilty, recursion,
                     tuple(self._broken_rules(seen, native, fault, report)), suspects,
                     tuple(self._missing(native, stack)), running, aftermath, tuple(notes))

    # -- which thread, and where it was ----------------------------------------------------------------------

    def _find_site(self) -> FaultSite:
        selected = self._target.selected()
        order = sorted(self._threads, key=lambda seen: seen.number != selected)[:_MAX_ASKED]
        # a handler may still run, or wait for a debugger
        for find in (self._signalled, self._below_handler):
            for seen in order:
                site = find(seen) if seen.unavailable is None else None
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
            # handlers of faults send the signal again
            below = self._below_handler(seen, info.number)
            if below is not None:
                return below
        if seen.is_restored and not seen.handler:
            info = replace(info, code=None, pid=None, uid=None)  # the signal of its own handler, which has returned
        return FaultSite(seen.ref, info, self._target.registers(seen.ref, self._cpu.FRAME),
                         by_others=not seen.handler and not is_sending(self._cpu, seen.registers))

    def _below_handler(self, seen: SeenThread, number: int | None = None) -> FaultSite | None:
        """The fault of a thread that runs a handler of signal `number`, None: of any that ends programs.

        A handler of a fault may end the program with another signal.
        """
        native = seen.whole(self._code)
        for depth, sp in handlers(self._cpu, self._memory, native):
            try:
                frame = self._cpu.read_signal_frame(self._memory, sp, number)
                if frame is None and number == SIGABRT:
                    frame = self._cpu.read_signal_frame(self._memory, sp)
                    frame = frame if frame is not None and frame.info.address is not None else None
            except GdbextError:
                continue
            if frame is None:
                continue
            name, info = self._cpu.THREAD_POINTER, frame.info
            registers = {**frame.registers, name: seen.registers.get(name, 0)}
            if info.code is None:
                if "abort" in self._sites.site(native[:depth - 1]).functions:
                    return None  # a handler of any signal may abort, such as a watchdog
                if was_sending(self._target, self._code, registers):
                    info = replace(info, code=SI_TKILL)
            return FaultSite(seen.ref, info, registers, frame.access, True)
        return None

    def _at_fault(self, seen: SeenThread, site: FaultSite) -> SeenThread:
        """The thread with its frames from the fault on: without a handler, but with the caller of a bad address."""
        native = seen.whole(self._code)
        pc, sp = site.registers[self._cpu.PROGRAM_COUNTER], site.registers[self._cpu.STACK_POINTER]
        if site.in_handler:
            at = next((i for i, frame in enumerate(native) if frame == (pc, sp)), None)
            native = native[at:] if at is not None else self._code.unwind(seen.ref, site.registers)
        if len(native) < 2 and self._code.module(pc) is None:
            native = [(pc, sp), *self._callers(seen, site.registers)]
        return replace(seen, registers=site.registers, frames=native, handler=())

    def _aftermath(self, site: FaultSite, seen: SeenThread, fault: Fault) -> Reason | None:
        """How a handler of the fault has ended the program, if it did so with another signal."""
        info = self._target.signal(seen.ref) if site.in_handler else None
        if info is None or info.number != SIGABRT or site.info.number == SIGABRT:
            return None
        native = seen.whole(self._code)
        depth = next((depth for depth, _ in handlers(self._cpu, self._memory, native)), 1)
        abort = self._aborts.explain(replace(fault, kind="abort", text=because("called-abort")), native[:depth],
                                     seen.registers).fault
        function = self._code.frame(native[depth - 2][0], depth - 2).function if depth > 1 else None
        return because("handler-ended", signal=CORE_SIGNALS[SIGABRT], of=CORE_SIGNALS[site.info.number],
                       function=f"{function}()" if function else None,
                       text=abort.text if abort.kind != "abort" else None)

    def _callers(self, seen: SeenThread, registers: Mapping[str, int]) -> list[tuple[int, int]]:
        """The callers of a bad address."""
        caller = self._code.caller(registers)
        return self._code.unwind(seen.ref, caller) if caller is not None else []

    # -- the stack -----------------------------------------------------------------------------------------------

    def _stack(self, seen: SeenThread, native: Sequence[tuple[int, int]], limits: Limits,
               offset: int) -> MixedStack:
        def variables(index: int) -> list[Local]:
            if index >= _MAX_WITH_VARIABLES or offset < 0:
                return []
            return [Local(*each) for each in self._target.variables(seen.ref, index + offset)]

        return self._mixed.with_variables(seen, self._side.thread(seen.number), self._side.stack(seen), self._memory,
                                          variables, limits, self._kept(native))

    def _kept(self, native: Sequence[tuple[int, int]]) -> frozenset[int]:
        """The interpreter's frames to show: those called by the innermost evaluation of Python code."""
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

    def _running_handlers(self, native: Sequence[tuple[int, int]], stack: MixedStack) -> Iterator[Handler]:
        """The signal handlers that run on a stack; the code that they interrupted has not called them."""
        signals = iter(handled_signals(self._cpu, self._memory, native))
        for index, frame in enumerate(stack.frames[:_MAX_TOP]):
            if isinstance(frame, NativeFrame) and self._cpu.is_signal_return(self._memory, frame.pc):
                number = next(signals, None)
                yield Handler(index - 1, index + 1, signal_name(number) if number is not None else None)

    @staticmethod
    def _logged(seen: SeenFault, logged: Logged | None, native: Sequence[tuple[int, int]]) -> SeenFault:
        """The fault with the message of the logger that has called `abort`."""
        if logged is None:
            return seen
        fault = replace(seen.fault, kind="fatal-message", text=because("fatal-message", message=logged.message),
                        message=logged.message, evidence=DERIVED, why=because("stream-of-logger"))
        return replace(seen, fault=fault, blamed=native[logged.frame][0])

    def _out_of_memory(self, seen: SeenFault, site: FaultSite, native: Sequence[tuple[int, int]],
                       origins: OriginReader) -> SeenFault:
        """The fault if Rust has ended the program because it got no memory, with the size that it asked for.

        Source: rustc 1.95 library/alloc/src/alloc.rs (``handle_alloc_error``: alignment and size).
        """
        names = [self._code.symbol(pc, 1).function or "" for pc, _ in native[:_MAX_TOP]]
        at = next((i for i, name in enumerate(names) if _FAILED_ALLOCATION.match(rust_name(name) or name)), None)
        if at is None:
            return seen
        size = None
        for depth in range(at + 1, min(at + 3, len(names))):  # a function of Vec may pass both on
            align, asked = (origins.argument(site.thread, native, depth, site.offset, number) for number in (1, 2))
            if align is not None and asked is not None and align & align - 1 == 0 and 0 < align <= PAGE:
                size = asked
                break
        text = because("rust-out-of-memory", size=size)
        return replace(seen, fault=replace(seen.fault, kind="out-of-memory", text=text))

    def _damaged(self, seen: SeenFault, site: FaultSite, native: Sequence[tuple[int, int]],
                 origins: OriginReader) -> tuple[SeenFault, DamagedHeader | None]:
        """The fault with the damaged header of the block that the program was to free, and the block of the header."""
        at = next((i for i, (pc, _) in enumerate(native[:_MAX_TOP]) if not self._sites.in_runtime(pc)), None)
        if at is None or not any(map(_FREES.search, self._sites.site(native).functions)):
            return seen, None
        block = origins.argument(site.thread, native, at, site.offset)
        found = damaged_header(self._memory, block) if block else None
        wrong = self._pointers.not_a_block(block) if block else None
        if block and wrong is not None:
            text = because("freed-no-block", message=seen.fault.message, address=block, what=wrong)
            return replace(seen, fault=replace(seen.fault, kind="invalid-free", text=text, evidence=DERIVED)), None
        if found is None:
            return seen, None
        text = because("damaged-header", fault=because("heap-damaged", message=seen.fault.message), block=found.block,
                       size=found.size, text=found.text)
        return replace(seen, fault=replace(seen.fault, text=text)), found

    @staticmethod
    def _written(seen: SeenFault, written: Written | None, native: Sequence[tuple[int, int]]) -> SeenFault:
        """The fault with the message that the program wrote before it called `abort`."""
        if written is None:
            return seen
        why = because("values-not-found" if written.evidence == INFERRED else "written-before")
        fault = replace(seen.fault, text=because("abort-after", message=written.message), message=written.message,
                        evidence=written.evidence, why=why)
        return replace(seen, fault=fault, blamed=native[written.frame][0])

    def _by_glue(self, seen: SeenFault, native: Sequence[tuple[int, int]], origins: OriginReader) -> SeenFault:
        """The fault if a library that only passes calls on has called `abort` itself: it found their types damaged.

        Source: libffi 3.4 src/x86/ffi64.c (``classify_argument``, ``ffi_closure_unix64_inner``).
        """
        caller = next((pc for pc, _ in native[:_MAX_TOP] if not self._sites.in_runtime(pc)), None)
        module = self._code.module(caller) if caller is not None else None
        if caller is None or module is None or not GLUE.match(module.name):
            return seen
        call = origins.code_at_call(caller)
        if call is None or call.here.call_target is None:  # it passed a call of abort() on
            return seen
        return replace(seen, fault=replace(seen.fault, text=because("glue-aborted", library=module.name),
                                           evidence=INFERRED, why=because("glue-passes-calls")))

    def _guilty(self, frames: Sequence[Frame], first: int, blamed: int | None) -> int | None:
        """The innermost frame from `first` on that belongs neither to the interpreter nor to a run-time library.

        :param blamed: the program counter of the frame to begin with, if it is known.
        """
        if blamed is not None:
            first = next((index for index, frame in enumerate(frames)
                          if isinstance(frame, NativeFrame) and frame.pc == blamed), first)
        in_template = None  # better than nothing
        for index, frame in enumerate(frames[first:], first):
            if isinstance(frame, PyFrame):
                return index
            if (self._sites.in_runtime(frame.pc) or self._side.interpreter_code[frame.pc]
                    or self._code.module(frame.pc) is None or _OF_PYTHON_HEADERS.search(frame.file or "")
                    or GLUE.match(frame.module or "")):
                continue
            # templates of libraries do not count, unless the program's code was inlined into them
            functions = (*(call.function for call in frame.inlined), frame.function or "")
            if not all(map(is_library_function, functions)):
                return index
            if in_template is None and not _OF_RUST.search(frame.file or ""):
                in_template = index
        return in_template

    def _recursion(self, fault: Fault, seen: SeenThread, native: Sequence[tuple[int, int]],
                   stack: MixedStack) -> tuple[Recursion | None, MixedStack]:
        """The recursion of a stack that repeats itself, and the stack with its rounds folded."""
        if len(native) < DEEP and fault.kind != "stack-overflow":
            return None, stack
        least = SMALL if fault.kind == "stack-overflow" else MIN_LENGTH
        parts, rounds = fold(stack.parts, least)
        if rounds is None:
            return self._hidden_recursion(seen, native, stack, least), stack
        first, after, end = (sum(len(part.frames) for part in stack.parts[:at])
                             for at in (rounds.start, rounds.start + rounds.period, rounds.end))
        looped = tuple(range(first, after))
        region = self._pointers.space.find(native[-1][1]) if native else None
        used = None if region is None else region.end - seen.sp
        if len(native) < MAX_NATIVE_FRAMES and stack.unmerged is None:
            return (Recursion(looped, rounds.times, len(native), True, None, self._own_first(stack.frames[end:])),
                    replace(stack, parts=parts))
        begun = self._begun(seen, {place_of(stack.frames[index]) for index in looped}, rounds.period)
        times = rounds.times
        if begun.outside is not None and all(isinstance(stack.frames[index], NativeFrame) for index in looped):
            times = max(times, (begun.depth - first - begun.outside) // len(looped))
        return (Recursion(looped, times, max(begun.depth, len(native)), begun.outside is not None,
                          used if begun.outside is None else None, begun.frames), replace(stack, parts=parts))

    def _hidden_recursion(self, seen: SeenThread, native: Sequence[tuple[int, int]], stack: MixedStack,
                          least: int) -> Recursion | None:
        """The recursion of the interpreter's own functions, of which the stack shows only the innermost ones."""
        pcs = [pc for pc, _ in native]
        rounds = find_rounds(pcs, least)
        if rounds is None:
            return None
        looped = set(pcs[rounds.start:rounds.start + rounds.period])
        shown = {frame.pc: index for index, frame in reversed(list(enumerate(stack.frames)))
                 if isinstance(frame, NativeFrame) and frame.pc in looped}
        begun = next((i for i, frame in enumerate(stack.frames) if isinstance(frame, PyFrame)), len(stack.frames))
        is_whole = len(native) < MAX_NATIVE_FRAMES
        depth = len(native) if is_whole else self._code.outermost(seen.registers, 1)[0]
        return Recursion(tuple(sorted(shown.values())), rounds.times, max(depth, len(native)), is_whole, None,
                         stack.frames[begun:begun + _MAX_BEGUN])

    def _begun(self, seen: SeenThread, places: Collection[object], period: int) -> _Begun:
        """The outer end of a stack that was not read to it.

        :param places: those in the code of one round of the recursion.
        """
        depth, outer = self._code.outermost(seen.registers, _MAX_OUTERMOST + period)
        own = [pc for pc, _ in outer if not self._side.interpreter_code[pc] and not self._sites.in_runtime(pc)]
        native: list[Frame] = [self._code.frame(pc, 1) for pc in own]
        python: list[Frame] = []
        for each, tstate in self._side.thread(seen.number).tstates[:1]:
            try:
                python += each.frames.outermost(tstate.address, _MAX_OUTERMOST + period)
            except GdbextError:
                break
        for frames in (python, native):
            last = max((i for i, frame in enumerate(frames) if place_of(frame) in places), default=None)
            if last is not None:
                # those of the C library that have started the thread are outside too
                outside = len(outer) - 1 - max(i for i, (pc, _) in enumerate(outer) if pc == own[last]) \
                    if frames is native else None
                return _Begun(depth, outside, self._own_first(frames[last + 1:]))
        return _Begun(depth, None)

    @staticmethod
    def _own_first(frames: Sequence[Frame]) -> tuple[Frame, ...]:
        """The innermost frames, from the first one that is not of a library which is compiled into programs."""
        first = next((index for index, frame in enumerate(frames[:_MAX_OUTERMOST])
                      if isinstance(frame, PyFrame) or not is_library_function(frame.function or "")), 0)
        return tuple(frames[first:first + _MAX_BEGUN])

    # -- rules ---------------------------------------------------------------------------------------------------

    def _broken_rules(self, seen: SeenThread, native: Sequence[tuple[int, int]], fault: SeenFault,
                      report: Report) -> Iterator[Finding]:
        # a thread that died of a signal from another one may have been blocked
        yield from self._rules.of_thread(seen, native, fault.fault.kind != "sent")
        yield from self._dead_objects(seen, fault)
        for other in self._threads:
            if other.number != seen.number and other.unavailable is None:
                yield from self._rules.of_thread(other, other.native(self._code), False)
        yield from self._rules.blocking(report)

    def _dead_objects(self, seen: SeenThread, fault: SeenFault) -> Iterator[Finding]:
        """Find dead objects: those whose type pointer led to the fault, and those in variables."""
        at = self._rules.type_offset() if self._may_read_types(fault.code_at) else None
        used = {link.base for link in fault.chain if link.offset is not None and link.offset == at}
        used |= {address for address in fault.objects
                 if self._pointers.describe(address).what.code == "freed-python-object"}
        names = self._rules.dead_variables(seen)
        for address in dict.fromkeys([*(address for address in used if address is not None), *names]):
            state = self._rules.object_state(address)
            if state is None:
                continue
            found = self._pointers.python_object(address)
            # a variable must refer to an object, but the interpreter's code reads other structures too
            why = because("header-of-freed")
            if address in names:
                why = because("object-in-variable")
            elif found is None:
                why = because("type-read-there")
            yield Finding("impossible-object", seen.number, because(
                "not-an-object", address=address, names=tuple(names.get(address, ())), problem=state.problem,
                type=found[0] if found is not None else None, used=int(address in used)),
                INFERRED if why.code == "type-read-there" else DERIVED, why)

    def _may_read_types(self, pc: int) -> bool:
        """Whether code may read types of objects; in other code the offset of a type means nothing."""
        return self._side.interpreter_code[pc] and not _ALLOCATES.search(self._code.symbol(pc).function or "")

    # -- what is missing -----------------------------------------------------------------------------------------

    def _missing(self, native: Sequence[tuple[int, int]], stack: MixedStack) -> Iterator[Reason]:
        """The parts of the core and the files that are missing: files of frames one by one, the others together."""
        if self._code.unlisted is not None:
            named = {frame.module for frame in stack.frames if isinstance(frame, NativeFrame) and frame.function}
            names = [name for name in self._code.unlisted_libraries() if name not in named]
            if not names:
                yield because("core-cut-off", why=self._code.unlisted)
                return
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

