"""The code at an address: its module and symbol, whether it belongs to the interpreter; and native stacks.

Files of a core may be missing or of another build. Such files are not used.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property

from gdbext import arch
from gdbext.arch.protocol import ExceptionTable
from gdbext.elf.dynamic import find_dynamic_symbol, first_page
from gdbext.elf.notes import build_id_at
from gdbext.errors import GdbextError, if_unreadable
from gdbext.inferior.address_space import AddressSpace
from gdbext.inferior.modules import ModuleMap
from gdbext.inferior.protocol import Module, Symbol, Target, ThreadRef
from gdbext.libraries import LIBRARIES
from gdbext.model import NativeFrame
from gdbext.model.reasons import Reason, ReasonCode, because, because_of
from gdbext.runtimes.names import with_symbol
from gdbext.threads.findings import Findings
from gdbext.threads.scanned_stacks import ScannedStacks

#: Most native frames of one thread.
MAX_NATIVE_FRAMES = 20_000
#: How deep a stack is followed to find its outermost frames.
_MAX_DEPTH = 400_000
#: How many innermost frames of a stack may be those of signal handlers.
_MAX_HANDLED = 64
#: Most bytes between the start of a file's mapping and its first section.
_NEARBY = 1 << 16
_PYTHON_PROGRAM = re.compile(r"^python[0-9.]*[a-z]*(-dbg)?$")
_PYTHON_FUNCTION = re.compile(r"^_?Py[A-Z_]|^_Py")
_PYTHON_SOURCE = re.compile(r"(^|/)(Python|Objects|Modules|Parser|Programs|Include)/(internal/|cpython/)?\w+\.[ch]$")


class Code:
    """The loaded files of a target. `modules` are those whose files are of the right build.

    :param listed: all files that the debugger lists.
    :param wrong: those of them that are of another build than in the core.
    :param truncated: how much of a truncated core is left; None for a whole core and for a process.
    """

    def __init__(self, target: Target, findings: Findings, listed: Sequence[Module], wrong: Sequence[Module],
                 truncated: str | None) -> None:
        self._target = target
        self._findings = findings
        self.cpu = arch.of(target.architecture)
        self._ranges = ModuleMap(listed)
        self.truncated = truncated
        self.modules = [module for module in listed if not any(module is other for other in wrong)]
        self._foreign = bool(wrong)
        self._unwinder = self.cpu.unwinder(target.memory, self.modules)
        self._frames: dict[tuple[int, bool], NativeFrame] = {}
        self._stacks: dict[tuple[int, int, int], list[tuple[int, int]]] = {}
        # program counters of frames that signals interrupted: these are no return addresses
        self._interrupted: set[int] = set()
        self._signal_returns: dict[int, bool] = {}
        self._without_tables: Module | None = None
        self._is_scanned = False

    def scan_callers_of(self, module: Module) -> None:
        """Have callers of code found by their return addresses if nothing describes its frames.

        :param module: musl, or the program that it is linked into.
        """
        self._without_tables = module

    @cached_property
    def unlisted(self) -> str | None:
        """Why libraries, and a Python in them, are unknown although the executable is known; None if they are known."""
        if self.truncated is None or not self._target.modules() or not self.unlisted_libraries():
            return None
        return f"{self.truncated}, without the dynamic linker's list of libraries"

    @cached_property
    def space(self) -> AddressSpace:
        """The mappings of the target."""
        return AddressSpace(self._target.regions())

    def module(self, address: int) -> Module | None:
        """The module at an address, also if its file is of another build."""
        return self._ranges.find(address)

    def symbol(self, address: int, index: int = 0) -> Symbol:
        """The symbol at an address, without file and line.

        :param index: of the frame whose program counter it is; for a caller (above 0) the symbol is that of the call
            before the return address.
        """
        place = self._place(address, index)
        return self._target.symbol(place) if place is not None else Symbol(None)

    def _frame_symbol(self, pc: int, index: int) -> Symbol:
        """As `symbol`, with file, line and inlined calls."""
        place = self._place(pc, index)
        return self._target.frame_symbol(place) if place is not None and not self._is_nameless(place) else Symbol(None)

    def _is_nameless(self, place: int) -> bool:
        """Whether code in a system call is behind a function of unknown size, which makes none.

        musl's functions in assembly, such as ``memset``, have no size, and that with the system call has no name.
        """
        module = self._without_tables
        if (module is None or self.module(place) is not module
                or not self.cpu.is_at_system_call(self._target.memory, place)):
            return False
        name = self._target.symbol(place).function
        found = find_dynamic_symbol(self._target.memory, module, name) if name is not None else None
        return found is not None and not found.size and name != "vfork"

    def _place(self, address: int, index: int) -> int | None:
        """The address whose symbol counts; None in a file of another build."""
        if self._foreign:
            module = self._ranges.find(address)
            if module is not None and not any(module is other for other in self.modules):
                return None
        # a signal handler returns to the first instruction of the trampoline, which has called nothing
        is_call = index > 0 and address not in self._interrupted and not self._is_signal_return(address)
        return max(address - 1, 0) if is_call else address

    def _is_signal_return(self, pc: int) -> bool:
        known = self._signal_returns.get(pc)
        if known is None:
            known = self._signal_returns[pc] = self.cpu.is_signal_return(self._target.memory, pc)
        return known

    def frame(self, pc: int, index: int) -> NativeFrame:
        """The native frame of a program counter.

        :param index: of the frame in its stack: 0 for the innermost, any other number for a caller.
        """
        known = self._frames.get((pc, index == 0))
        if known is None:
            module = self._ranges.find(pc)
            name = module.name if module is not None else (self._unknown_file(pc) or "").rpartition("/")[2] or None
            known = with_symbol(NativeFrame(None, name, pc), self._frame_symbol(pc, index))
            self._frames[(pc, index == 0)] = known
        return known

    def source_file(self, pc: int) -> str | None:
        """The source file of a caller's program counter if debug information has it."""
        place = self._place(pc, 1)
        return self._target.source_file(place) if place is not None else None

    def frame_registers(self, registers: Mapping[str, int], index: int) -> Mapping[str, int]:
        """The registers of a frame that calls preserve, its program counter and its stack pointer.

        :param registers: of the innermost frame.
        :param index: the number of the frame; the innermost is 0.
        :return: unknown registers are left out; empty if the frame cannot be reached.
        """
        return self._unwinder.frame_registers(registers, index)

    def function_range(self, pc: int) -> tuple[int, int] | None:
        """Start and end of the function of a program counter (of a caller: less one), without the use of symbols."""
        return self._unwinder.function_range(pc + 1 if pc in self._interrupted else pc)

    def starts_function(self, address: int) -> bool:
        """Whether a call can lead to an address; False for a part of a function that the compiler placed elsewhere."""
        return self._unwinder.starts_function(address)

    def exception_table(self, pc: int) -> ExceptionTable | None:
        """The exception table of the function of a program counter (of a caller: less one); None if it has none."""
        return self._unwinder.exception_table(pc)

    def outermost(self, registers: Mapping[str, int], count: int) -> tuple[int, list[tuple[int, int]]]:
        """The number of frames of a stack of any depth, and (program counter, stack pointer) of the outermost ones.

        :param registers: of the innermost frame.
        """
        total, frames = 0, [(0, 0)] * MAX_NATIVE_FRAMES
        outer: list[tuple[int, int]] = []
        while registers and len(frames) == MAX_NATIVE_FRAMES and total < _MAX_DEPTH:
            frames = self._unwinder.walk(registers, MAX_NATIVE_FRAMES)[0]
            total += len(frames) - (total > 0)  # the first frame of a piece is the last one of the piece before
            outer = [*outer, *frames[1:]][-count:]
            registers = dict(self._unwinder.frame_registers(registers, len(frames) - 1))
            if registers:  # of a caller: the call is before its program counter
                registers[self.cpu.PROGRAM_COUNTER] -= 1
        return total, outer

    def unwind(self, thread: ThreadRef, registers: Mapping[str, int]) -> list[tuple[int, int]]:
        """(program counter, stack pointer) of a thread's native frames, innermost first."""
        key = thread.number, registers[self.cpu.PROGRAM_COUNTER], registers[self.cpu.STACK_POINTER]
        if key not in self._stacks:
            frames = self._stacks[key] = self._unwind(thread, registers)
            self._interrupted.update([after[0] for (pc, _), after in zip(frames[:_MAX_HANDLED], frames[1:])
                                      if self._is_signal_return(pc)])
        return self._stacks[key]

    def _unwind(self, thread: ThreadRef, registers: Mapping[str, int]) -> list[tuple[int, int]]:
        frames, cut_short = self._unwinder.walk(registers, MAX_NATIVE_FRAMES)
        if cut_short is None:
            return frames
        if self._without_tables is not None:
            scan = ScannedStacks(self._target.memory, self.cpu, self._unwinder, self._without_tables)
            scanned = scan.continued(frames, MAX_NATIVE_FRAMES)
            if len(scanned) > len(frames):
                if not self._is_scanned:
                    self._findings.problem("stacks", "not applicable", because("stacks-scanned"))
                    self._is_scanned = True
                return scanned
        if self._foreign:  # the debugger would use the wrong files
            return frames[:1]
        if self.is_cut(frames):
            return frames
        try:
            return self._reliable(thread, self._target.unwind(thread, MAX_NATIVE_FRAMES))
        except GdbextError as error:
            self._findings.problem(f"thread {thread.number}", "unreadable", because_of(error, "native-stack"))
            return frames

    @cached_property
    def _has_made_code(self) -> bool:
        return any(library.makes_code and library.has(module.name) for library in LIBRARIES for module in self.modules)

    def is_cut(self, native: Sequence[tuple[int, int]]) -> bool:
        """Whether a stack ends where nothing describes how to find the caller."""
        return bool(native) and self._is_made(native[-1][0])

    def _is_made(self, pc: int) -> bool:
        """Whether a program counter is in code that a library has made, whose callers a debugger only guesses."""
        region = self.space.find(pc) if self._has_made_code and self.module(pc) is None else None
        return region is not None and region.path is None and region.allows("x") is True

    def _reliable(self, thread: ThreadRef, frames: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """The frames up to the first in a file that the debugger does not have, whose caller it can only guess."""
        for i, (pc, _) in enumerate(frames):
            path = self._unknown_file(pc)
            if path is not None:
                code: ReasonCode = "frames-unlisted"
                if self.unlisted is None:
                    code = "frames-without-description" if self._target.has_file(path) else "frames-without-file"
                self._findings.problem(f"thread {thread.number}", "unreadable",
                                       because(code, file=path.rpartition("/")[2]))
                return frames[:i + 1]
        return frames

    def _unknown_file(self, address: int) -> str | None:
        module = self.module(address)
        if module is not None and not module.by_mapping:
            return None
        region = self.space.find(address)
        return region.path if region is not None and (region.path or "").startswith("/") else None

    def missing_file(self, address: int) -> str | None:
        """The path of the file mapped at an address, if the debugger does not have it and it cannot be opened."""
        path = self._unknown_file(address)
        return None if path is None or self._target.has_file(path) else path

    def missing_libraries(self) -> dict[str, int]:
        """Shared libraries that were mapped and that the debugger does not have: path -> address."""
        loaded = [first_page(module) for module in self._target.modules() if module.sections and not module.by_mapping]
        # one may be loaded by the name of a link to it; its first section is close then
        return {path: start for start, path in self._target.mapped_files()
                if ".so" in path.rpartition("/")[2] and self.missing_file(start) == path
                and not any(0 <= page - start < _NEARBY for page in loaded)}

    def unlisted_libraries(self) -> list[str]:
        """Names of the shared libraries that were mapped and that the debugger does not list."""
        mapped = [module.name for module in self._target.modules() if module.by_mapping and ".so" in module.name]
        return list(dict.fromkeys([*mapped, *(path.rpartition("/")[2] for path in self.missing_libraries())]))

    @if_unreadable(None)
    def caller(self, registers: Mapping[str, int]) -> Mapping[str, int] | None:
        """The registers of the caller of a bad address; None if no loaded file contains the place to return to."""
        found = self.cpu.with_return(self._target.memory, registers)
        return found if self.module(found[self.cpu.PROGRAM_COUNTER]) is not None else None


def read_code(target: Target, findings: Findings) -> Code:
    """Find the loaded files, and those of them that are of another build than in the core."""
    listed = list(target.modules())
    if not listed:
        findings.fail("the executable is not known to GDB, so neither libraries nor Python can be found",
                      "give it too, as in `gdb EXECUTABLE CORE`")
    kept = target.core_kept()
    truncated = f"the core is truncated: {kept[0]:,} of {kept[1]:,} bytes are there" if kept else None
    code = Code(target, findings, listed, _wrong_files(target, listed, findings), truncated)
    if code.unlisted is not None:
        findings.problem("target", "not applicable", because("text", text=code.unlisted))
    return code


def _wrong_files(target: Target, modules: Sequence[Module], findings: Findings) -> list[Module]:
    """The modules whose files are of another build than in the core: their symbols and frame descriptions are wrong."""
    starts: dict[str, list[int]] = {}
    for start, path in target.mapped_files():
        starts.setdefault(path.rpartition("/")[2], []).append(start)
    everywhere = [at for found in starts.values() for at in found]
    wrong: list[Module] = []
    for module in modules:
        if not module.sections or not module.path.startswith("/"):  # the vdso has no file
            continue
        page = first_page(module)
        # the module's name may be that of a link (libz.so.1), the core has that of the file (libz.so.1.2.13)
        named = starts.get(module.name) or [at for at in everywhere if abs(at - page) <= _NEARBY]
        why = _mismatch(target, module, page, min(named, key=lambda at: abs(at - page))) if named else None
        if why is not None:
            wrong.append(module)
            findings.problem(module.name, "not applicable", why)
    if wrong:
        names = ", ".join(module.name for module in wrong[:3]) + (" and others" if len(wrong) > 3 else "")
        findings.fail(f"{names}: not the files that the core was made with",
                      "use `set sysroot DIR` or `set solib-search-path DIR` before the core is loaded", reported=True)
    return wrong


def _mismatch(target: Target, module: Module, page: int, start: int) -> Reason | None:
    loaded, file = build_id_at(target.memory, start), target.file_build_id(module)
    if loaded is not None and file is not None and loaded != file:
        return because("build-differs", core=loaded, path=module.path, file=file)
    if page < start:  # the debugger moves a file whose `.dynamic` is elsewhere than in the process
        return because("file-does-not-fit", path=module.path)
    return None


class InterpreterCode(dict[int, bool]):
    """Whether each program counter is in the interpreter. It is a dict because each native frame is looked up.

    :param runtimes: the modules that contain a CPython runtime.
    """

    def __init__(self, code: Code, runtimes: Sequence[Module]) -> None:
        super().__init__()
        self._code = code
        self._runtimes = runtimes

    def __missing__(self, pc: int) -> bool:
        known = self[pc] = self._is_interpreter(pc)
        return known

    def _is_interpreter(self, pc: int) -> bool:
        module = self._code.module(pc)
        if module is None or not self._runtimes:
            return False
        if module.is_main and _PYTHON_PROGRAM.match(module.name):
            return True  # the whole interpreter, or the small program that calls libpython
        if not any(module is other for other in self._runtimes):
            return False
        if not module.is_main:
            return True
        # a program that Python is linked into: its own functions are not the interpreter's
        if _PYTHON_FUNCTION.match(self._code.symbol(pc, 1).function or ""):
            return True
        return _PYTHON_SOURCE.search(self._code.source_file(pc) or "") is not None
