"""What all targets have in common that gdbext reads without a debugger: files, symbols, stacks.

What only a debugger knows is left out, such as variables. The target remembers what the report asked for
(`DirectTarget.left_out`).
"""

from __future__ import annotations

import os
import re
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property

from gdbext import arch
from gdbext.arch.protocol import Architecture, Unwinder
from gdbext.dwarf.sections import OutOfTime
from gdbext.elf.dynamic import name_of_slot
from gdbext.elf.headers import SHF_ALLOC, Read, mapped_file, open_regular
from gdbext.elf.mapped import MappedModule
from gdbext.elf.symtab import SymbolFile
from gdbext.errors import GdbextError, MemoryUnreadable, MissingLibrary, ThreadUnavailable, if_unreadable
from gdbext.inferior.address_space import AddressSpace, Region
from gdbext.inferior.cache import read_available
from gdbext.inferior.modules import ModuleMap
from gdbext.inferior.protocol import Memory, Module, Section, Symbol, ThreadRef
from gdbext.layout.table import Struct
from gdbext.model import ProblemKind
from gdbext.remembered import remembered
from gdbext.targets.demangle import demangle, function_name
from gdbext.targets.source_lines import SourceLines
from gdbext.targets.symbols import LoadedFile

#: What a report may ask for that only a debugger knows. See `DirectTarget.left_out`.
LEFT_OUT = ("instructions", "frames", "types", "variables", "lines", "late-lines", "unstopped")
#: Source: Linux 6.1 include/uapi/linux/auxvec.h.
_AT_SYSINFO_EHDR = 33
#: Most signal handlers that interrupt each other on one stack.
_MAX_SIGNAL_FRAMES = 32
_C_LIBRARY = re.compile(r"(libc|libpthread|ld|ld-linux[\w-]*)[.-]")


class DirectTarget:
    """The part of a `Target` that does not depend on whether it is a process or a core."""

    architecture: str
    memory: Memory
    #: The modules with their files on this machine, the executable first.
    _loaded: Sequence[tuple[Module, LoadedFile | None]]

    def __init__(self, lines: SourceLines | None = None) -> None:
        """:param lines: reads source lines, for several targets of one report."""
        self._left_out: set[str] = set()
        self._lines = lines or SourceLines()
        self._opened: dict[str, Read | None] = {}

    def left_out(self) -> set[str]:
        """What was asked for so far and only a debugger knows; some of `LEFT_OUT`."""
        return self._left_out

    @abstractmethod
    def _open(self, path: str) -> Read | None:
        """Open a regular file by its path in the target's file system, and keep it open."""

    def _open_here(self, place: str) -> Read | None:
        """Open a regular file of this machine, and keep it open."""
        if place not in self._opened:
            try:
                self._opened[place] = open_regular(place)
            except (OSError, ValueError):
                self._opened[place] = None
        return self._opened[place]

    def close(self) -> None:
        """Close the opened files, except those that source lines are read from."""
        self._opened.clear()

    @abstractmethod
    def _registers(self, thread: ThreadRef) -> Mapping[str, int]:
        """All general registers of a thread.

        :raises ThreadUnavailable: they cannot be read.
        """

    @cached_property
    def _cpu(self) -> Architecture:
        return arch.of(self.architecture)

    # -- files ---------------------------------------------------------------------------------------------------

    @remembered
    def modules(self) -> Sequence[Module]:
        return [module for module, _ in self._loaded]

    @cached_property
    def _files(self) -> Mapping[int, LoadedFile]:
        return {id(module): file for module, file in self._loaded if file is not None}

    def _file_of(self, module: Module | None) -> LoadedFile | None:
        return self._files.get(id(module))

    def debug_structs(self, module: Module) -> dict[str, Struct]:
        self._left_out.add("types")
        return {}

    @cached_property
    def _module_map(self) -> ModuleMap:
        return ModuleMap(self.modules())

    @remembered
    def variable(self, module: Module, name: str) -> int | None:
        file = self._file_of(module)
        return file.address_of(name) if file is not None else None

    @remembered
    def symbol(self, address: int) -> Symbol:
        _, loaded = self._at(address)
        return Symbol(function_name(loaded.symbol(address) or self._name_of_stub(address)) if loaded is not None
                      else None)

    def frame_symbol(self, address: int) -> Symbol:
        return self._with_lines(address)

    def source_file(self, address: int) -> str | None:
        return self._with_lines(address).file

    @remembered
    def _with_lines(self, address: int) -> Symbol:
        symbol = self.symbol(address)
        _, loaded = self._at(address)
        try:
            found = self._lines.find(loaded, address) if loaded is not None else None
        except OutOfTime:
            self._left_out.add("late-lines")
            return symbol
        except GdbextError:
            self._left_out.add("lines")
            return symbol
        if found is None or found.function is not None:
            return found or symbol
        return Symbol(symbol.function, found.file, found.line, found.inlined)

    def _at(self, address: int) -> tuple[Module | None, LoadedFile | None]:
        module = self._module_map.find(address)
        return module, self._file_of(module)

    def demangle(self, name: str) -> str:
        return demangle(name)

    def read_host_file(self, path: str, limit: int) -> bytes | None:
        read = self._open(path) if os.path.isabs(path) else None
        return (read(0, limit) or None) if read is not None else None

    # -- stacks --------------------------------------------------------------------------------------------------

    @cached_property
    def _unwinder(self) -> Unwinder:
        return self._cpu.unwinder(self.memory, self.modules())

    def _unwind(self, registers: Mapping[str, int], limit: int) -> tuple[list[tuple[int, int]], GdbextError | None]:
        """Unwind a stack through the frames of signal handlers; the second result says why it is cut short."""
        frames: list[tuple[int, int]] = []
        error: GdbextError | None = None
        for _, found, error in self._pieces(registers, limit):  # noqa: B007  # the last one counts
            frames += found
        return frames, error if len(frames) < limit else None

    def _pieces(self, registers: Mapping[str, int],
                limit: int) -> Iterator[tuple[Mapping[str, int], list[tuple[int, int]], GdbextError | None]]:
        """The pieces of a stack between signal handlers: registers, frames, and why it cannot be unwound further."""
        for _ in range(_MAX_SIGNAL_FRAMES):
            found, error = self._unwinder.walk(registers, limit)
            yield registers, found, error
            limit -= len(found)
            pc, sp = found[-1]
            if error is None or limit <= 0:
                return
            if self._cpu.is_signal_return(self.memory, pc):
                registers = self._cpu.read_interrupted(self.memory, sp)
                continue
            caller = self._caller_of_bad_call(registers) if len(found) == 1 else None
            if caller is None:
                return
            registers = caller

    @if_unreadable(None)
    def _caller_of_bad_call(self, registers: Mapping[str, int]) -> Mapping[str, int] | None:
        """The registers of the caller if a thread called an address without code, such as null; else None."""
        called = self._space.find(registers[self._cpu.PROGRAM_COUNTER])
        if not self.regions() or called is not None and called.allows("x") is not False:
            return None
        found = self._cpu.with_return(self.memory, registers)
        after = found[self._cpu.PROGRAM_COUNTER]
        caller = self._space.find(after)
        if caller is None or not caller.allows("x") or self._at(after)[0] is None:
            return None
        return found

    @cached_property
    def _space(self) -> AddressSpace:
        return AddressSpace(self.regions())

    @abstractmethod
    def regions(self) -> Sequence[Region]:
        """See `Target.regions`."""

    def unwind(self, thread: ThreadRef, limit: int) -> list[tuple[int, int]]:
        """Unwind a stack.

        :raises ThreadUnavailable: a frame has no frame description that can be used.
        """
        frames, error = self._unwind(self._registers(thread), limit)
        if error is None:
            return frames
        if not isinstance(error, MemoryUnreadable):  # GDB could not read it either
            self._left_out.add("frames")
        raise ThreadUnavailable(f"cut short after frame {len(frames) - 1}: {error}")

    @if_unreadable({})
    def frame_registers(self, thread: ThreadRef, index: int) -> Mapping[str, int]:
        try:
            registers = self._registers(thread)
        except ThreadUnavailable:
            return {}
        for start, found, _ in self._pieces(registers, index + 1):
            if index < len(found):
                return self._unwinder.frame_registers(start, index)
            index -= len(found)
        return {}

    def variables(self, thread: ThreadRef, index: int) -> Sequence[tuple[str, str, str]]:
        frames, _ = self._unwind(self._registers(thread), index + 1)
        module, loaded = self._at(frames[index][0]) if index < len(frames) else (None, None)
        # the C library's debug file is often installed, and nobody needs its variables
        if module is not None and loaded is not None and loaded.has_lines and not _C_LIBRARY.match(module.name):
            self._left_out.add("variables")
        return []

    def disassemble(self, low: int, high: int) -> Sequence[tuple[int, int, str]]:
        try:
            # the last instruction may end behind the range
            code = read_available(self.memory, low, high - low + self._cpu.MAX_INSTRUCTION)
            found = [each for each in self._cpu.disassemble(code, low, self._function_name) if each[0] < high]
        except MissingLibrary:
            found = []
        if not found or found[-1][0] + found[-1][1] < high:  # data, or an instruction that the library does not know
            self._left_out.add("instructions")
            return []
        return found

    @remembered
    def _name_of_stub(self, address: int) -> str | None:
        """The name of the function to which a stub of the linkage table leads."""
        try:
            function = self._cpu.behind_stub(self.memory, address)
            if function == address:
                return None
            index = self._cpu.unresolved_slot(self.memory, function)
        except GdbextError:
            return None
        module, loaded = self._at(function)
        if index is not None and module is not None:  # it was never called
            return name_of_slot(self.memory, module, index)
        return loaded.function(function) if loaded is not None else None

    def _function_name(self, address: int) -> str | None:
        """The name of the function that begins at an address, or to which a stub there leads."""
        _, loaded = self._at(address)
        return (loaded.function(address) if loaded is not None else None) or self._name_of_stub(address)

    def problems(self) -> Sequence[tuple[str, ProblemKind, str]]:
        return ()


def loaded_file(found: MappedModule, place: str | None, open_file: Callable[[str], Read | None]) -> LoadedFile | None:
    """The file of a module, None if it is not on this machine.

    :param place: its path on this machine.
    :param open_file: opens a file of this machine.
    """
    return LoadedFile(found.file, found.bias, place, open_file) if found.file is not None else None


def named_modules(found: Sequence[tuple[Module, LoadedFile | None]], names: Mapping[str, str],
                  executable: str | None) -> list[tuple[Module, LoadedFile | None]]:
    """Give modules the names and the order of the dynamic linker's list, the executable first.

    :param names: the linker's names by the paths of the mappings.
    :param executable: the name of the executable, None to keep its path.
    """
    order = {path: index for index, path in enumerate(names)}
    named = []
    for module, file in sorted(found, key=lambda pair: (not pair[0].is_main, order.get(pair[0].path, len(order)))):
        name = (executable or module.path) if module.is_main else names.get(module.path, "")
        if name.startswith("/"):
            module = Module(name, module.sections, module.is_main, module.by_mapping)
        named.append((module, file))
    return named


def kernel_code(memory: Memory, auxiliary: Mapping[int, int]) -> Iterator[MappedModule]:
    """The code that the kernel maps into each process, if it can be read; it is a whole ELF file.

    :param auxiliary: the process's auxiliary vector.
    """
    start = auxiliary.get(_AT_SYSINFO_EHDR)
    if not start:
        return
    try:
        file = SymbolFile(mapped_file(memory, start))
    except GdbextError:
        return
    first = next((section for section in file.sections if section.flags & SHF_ALLOC), None)
    if first is not None:
        bias = start + first.offset - first.address
        sections = [Section(section.name, section.address + bias, section.address + section.size + bias)
                    for section in file.sections if section.flags & SHF_ALLOC and section.size]
        yield MappedModule(Module(f"system-supplied DSO at {start:#x}", tuple(sections)), file, bias)
