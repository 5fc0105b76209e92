"""What else is known of a crash: the first fault of several, callers in other threads, damage that was done earlier."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from gdbext.crash.fault import FaultReader
from gdbext.crash.heap import DamagedHeader, block_before, pointers_to
from gdbext.crash.pointers import Pointers, function_name
from gdbext.crash.seen import FaultSite
from gdbext.crash.suspects import GLUE, is_library_function
from gdbext.errors import GdbextError, if_unreadable
from gdbext.inferior.protocol import Memory
from gdbext.inferior.signals import FAULT_SIGNALS, signal_name
from gdbext.model import Fault, Frame, NativeFrame, PyFrame
from gdbext.model.frames import library_of
from gdbext.model.reasons import Reason, because
from gdbext.threads.code import Code
from gdbext.threads.interrupted import handlers
from gdbext.threads.python_side import PythonSide
from gdbext.threads.site import Sites
from gdbext.threads.threads import SeenThread, Threads

#: Kinds of faults of a pointer that no code has made on purpose.
_DAMAGED = frozenset(("non-canonical", "pattern", "small-pointer", "unmapped"))
#: How many frames of a thread are searched, how many threads are named, and how many pointers to a block.
_MAX_FRAMES, _MAX_CALLERS, _MAX_POINTERS = 32, 2, 4


class NoteReader:
    """Finds what else is known of the crash of a target."""

    def __init__(self, memory: Memory, code: Code, threads: Threads, side: PythonSide, sites: Sites,
                 pointers: Pointers) -> None:
        self._memory = memory
        self._code = code
        self._threads = threads
        self._side = side
        self._sites = sites
        self._pointers = pointers

    def first_fault(self, site: FaultSite, faults: FaultReader) -> Iterator[Reason]:
        """The faults whose handlers run on the stack, and have not ended when the thread died."""
        cpu = self._code.cpu
        for depth, sp in handlers(cpu, self._memory, site.frames):
            try:
                frame = cpu.read_signal_frame(self._memory, sp)
            except GdbextError:
                continue
            if frame is None or frame.info.number not in FAULT_SIGNALS or frame.info.code is None:
                continue
            registers = {**frame.registers, cpu.THREAD_POINTER: site.registers.get(cpu.THREAD_POINTER, 0)}
            first = faults.read(replace(site, info=frame.info, registers=registers, access=frame.access,
                                        in_handler=True, frames=site.frames[depth:], offset=site.offset + depth))
            pc = registers[cpu.PROGRAM_COUNTER]
            yield because("first-fault", signal=signal_name(frame.info.number), fault=first.fault.text,
                          function=function_name(self._code.frame(pc, 0).function, self._code.module(pc)))

    def python_callers(self, died: SeenThread, native: Sequence[tuple[int, int]]) -> Iterator[Reason]:
        """The Python code that is in the same library, in other threads: the one that died runs none."""
        if self._side.stack(died).frames:
            return
        libraries = {*self._libraries(native)}
        if not libraries:
            return
        found = []
        for seen in self._threads:
            if seen.number == died.number or seen.unavailable is not None:
                continue
            called = next(((path, name) for path, name in self._libraries(seen.native(self._code)).items()
                           if path in libraries), None)
            frames = self._side.stack(seen).frames if called is not None else ()
            if called is not None and frames:
                python = next((frame for frame in frames if library_of(frame) is None), frames[0])
                found.append(because("python-caller", thread=seen.number, function=called[1],
                                     library=called[0].rpartition("/")[2], caller=python.function, file=python.file,
                                     line=python.line))
        yield from found[:_MAX_CALLERS] if len(found) <= _MAX_CALLERS else ()

    def _libraries(self, native: Sequence[tuple[int, int]]) -> dict[str, Reason | None]:
        """The libraries on a stack, except those of run-time systems, each with its outermost own function there."""
        found: dict[str, Reason | None] = {}
        for index, (pc, _) in enumerate(native[:_MAX_FRAMES]):
            module = self._code.module(pc)
            if (module is not None and not module.is_main and not GLUE.match(module.name)
                    and not self._side.interpreter_code[pc] and not self._sites.in_runtime(pc)):
                function = self._code.frame(pc, index).function
                is_own = function is None or not is_library_function(function)
                found[module.path] = function_name(function, module) if is_own else found.get(module.path)
        return found

    def earlier_damage(self, fault: Fault, frames: Sequence[Frame]) -> Iterator[Reason]:
        """That other code has damaged what the interpreter used by itself."""
        if fault.kind not in _DAMAGED:
            return
        own = [frame for frame in frames if isinstance(frame, NativeFrame)][:1]
        caller = next((frame for frame in frames if isinstance(frame, PyFrame)
                       or not self._side.interpreter_code[frame.pc]), None)
        if own and self._side.interpreter_code[own[0].pc] and isinstance(caller, PyFrame):
            yield because("interpreter-data-damaged")

    @if_unreadable(())
    def damaged_block(self, damaged: DamagedHeader) -> tuple[Reason, ...]:
        """The block before a damaged header, and what points to it and to the block of the header."""
        block = damaged.block
        region = self._pointers.space.find(block)
        before = block_before(self._memory, region.start, block) if region is not None else None
        found = [] if before is None else [because(
            "block-before", block=before.address, size=before.size, text=before.text,
            is_source=int(damaged.text is not None), pointers=self._pointers_to(before.address))]
        own = self._pointers_to(block)
        return (*found, *([because("pointers-to-block", block=block, pointers=own)] if own else []))

    def _pointers_to(self, block: int) -> tuple[Reason, ...]:
        found = []
        for place in pointers_to(self._memory, self._pointers.space, block):
            what = self._pointers.describe(place).what
            if what not in found:
                found.append(what)
        return tuple(found[:_MAX_POINTERS])
