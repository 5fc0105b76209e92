"""A core as a `Target`, read without a debugger.

The modules are the files that the process had mapped with code, their names those of the dynamic linker's list. Memory
that the core lacks is read from these files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import IO

from gdbext.direct.memory import MemoryOfCore
from gdbext.direct.symbols import LoadedFile
from gdbext.direct.target import DirectTarget
from gdbext.elf.core_file import CoreFile, read_core_file
from gdbext.elf.core_memory import CoreMemory
from gdbext.elf.headers import EM_X86_64, SHF_ALLOC, Read, mapped_file, opened_file
from gdbext.elf.mapped import MappedModule, mapped_modules
from gdbext.elf.notes import find_build_id
from gdbext.elf.symtab import SymbolFile
from gdbext.errors import CorruptStructure, GdbextError, MemoryUnreadable, NoTarget, ThreadUnavailable
from gdbext.inferior.address_space import Region
from gdbext.inferior.cache import CachedMemory
from gdbext.inferior.proc import Proc
from gdbext.inferior.protocol import Memory, Module, Origin, Section, SignalInfo, ThreadRef
from gdbext.inferior.signals import decode_siginfo
from gdbext.model import TargetKind

#: Source: Linux 6.1 include/uapi/linux/elf-em.h, auxvec.h.
_EM_AARCH64 = 183
_AT_SYSINFO_EHDR = 33
#: The process id of a core that has none, as in GDB (GDB 13.1 gdb/corelow.c, CORELOW_PID).
_NO_PID = 1
#: Most signal handlers that interrupt each other on one stack.
_MAX_SIGNAL_FRAMES = 32


class CoreTarget(DirectTarget):
    """A core as a `Target`.

    :param path: the core, not compressed.
    :param executable: the executable on this machine, None if not known.
    :param places: the paths on this machine of mapped files, by their paths in the core.
    :raises NoTarget: it is not a core that can be read.
    """

    def __init__(self, path: str, executable: str | None, places: Mapping[str, str]) -> None:
        self.kind: TargetKind = "core"
        self.proc: Proc | None = None
        self._path = path
        super().__init__()
        core = read_core_file(path)
        if core is None or not core.threads:
            raise NoTarget("the core has no thread", "was the disk full? `ulimit -c` bounds the size of cores")
        self.core_file: CoreFile = core
        try:
            self._file = open(path, "rb", buffering=0)  # noqa: SIM115  # it stays open as long as the target
            self._contents = CoreMemory(opened_file(self._file))
        except (CorruptStructure, OSError) as error:
            raise NoTarget(f"the core cannot be read: {error}") from None
        self.pid = core.pid or _NO_PID
        self.executable = os.path.realpath(executable) if executable is not None else None
        self.architecture = {EM_X86_64: "x86_64", _EM_AARCH64: "aarch64"}.get(core.machine, str(core.machine))
        self._places = dict(places)
        main = self._contents.executable
        if executable is not None and main is not None:
            self._places[main] = executable
        self._opened: dict[str, IO[bytes]] = {}
        # of the core alone first: what is in a mapped file is known once the files are
        alone = CachedMemory(MemoryOfCore(self._contents, core.regions, {}, False))
        self._modules, self._files, files = self._find_modules(alone)
        self.memory: Memory = CachedMemory(
            MemoryOfCore(self._contents, core.regions, files, self.core_kept() is not None))
        self._name_modules()

    @property
    def is_usual(self) -> bool:
        """Whether the core is whole, and all files with code are here, including the executable."""
        return (self.core_kept() is None and any(module.is_main for module in self._modules)
                and not any(module.by_mapping for module in self._modules))

    # -- files ---------------------------------------------------------------------------------------------------

    def _find_modules(self, alone: Memory) -> tuple[list[Module], dict[int, LoadedFile], dict[str, Read]]:
        modules: list[Module] = []
        loaded: dict[int, LoadedFile] = {}
        files: dict[str, Read] = {}
        for found in [*mapped_modules(alone, self.core_file.regions, (), self._open_mapped, versioned=True),
                      *self._vdso(alone)]:
            path = found.module.path
            module = Module(path, found.module.sections, path == self._contents.executable, found.file is None)
            modules.append(module)
            if found.file is not None:
                loaded[id(module)] = LoadedFile(found.file, found.bias, self._places.get(path), self._open)
                read = self._open_mapped(path)
                if read is not None:
                    files[path] = read
        return modules, loaded, files

    def _vdso(self, memory: Memory) -> Iterator[MappedModule]:
        """The code that the kernel maps into each process; it is a whole ELF file."""
        start = self._contents.auxiliary.get(_AT_SYSINFO_EHDR)
        if not start:
            return
        try:
            file = SymbolFile(mapped_file(memory, start), versioned=True)
        except GdbextError:
            return
        first = next((section for section in file.sections if section.flags & SHF_ALLOC), None)
        if first is not None:
            bias = start + first.offset - first.address
            sections = [Section(section.name, section.address + bias, section.address + section.size + bias)
                        for section in file.sections if section.flags & SHF_ALLOC and section.size]
            yield MappedModule(Module(f"system-supplied DSO at {start:#x}", tuple(sections)), file, bias)

    def _name_modules(self) -> None:
        """Give the modules the names and the order of the dynamic linker's list, the executable first."""
        names: dict[str, str] = {}
        for name, path in self._contents.link_names(self._read_some):
            names.setdefault(path, name)
        order = {path: index for index, path in enumerate(names)}
        self._modules.sort(key=lambda module: (not module.is_main, order.get(module.path, len(order))))
        for index, module in enumerate(self._modules):
            name = names.get(module.path, "")
            if module.is_main:
                name = self.executable or module.path
            if name.startswith("/"):
                named = Module(name, module.sections, module.is_main, module.by_mapping)
                self._modules[index] = named
                if id(module) in self._files:
                    self._files[id(named)] = self._files.pop(id(module))

    @property
    def _loaded(self) -> tuple[Sequence[Module], Mapping[int, LoadedFile]]:
        return self._modules, self._files

    def _read_some(self, address: int, size: int) -> bytes:
        try:
            return self.memory.read(address, size)
        except MemoryUnreadable:
            return self._contents.read(address, size)

    def _open(self, path: str) -> Read | None:
        """Open a regular file of this machine, and keep it open."""
        if path not in self._opened:
            try:
                if not os.path.isfile(path):  # opening a device may have an effect
                    return None
                self._opened[path] = open(path, "rb", buffering=0)  # noqa: SIM115  # it stays open, as above
            except (OSError, ValueError):
                return None
        return opened_file(self._opened[path])

    def _open_mapped(self, path: str) -> Read | None:
        place = self._places.get(path)
        return self._open(place) if place is not None else None

    def has_file(self, path: str) -> bool:
        return self._open_mapped(path) is not None

    def mapped_files(self) -> Sequence[tuple[int, str]]:
        return sorted((region.start, region.path) for region in self.core_file.regions
                      if region.path is not None and region.path.startswith("/") and region.offset == 0)

    def file_build_id(self, module: Module) -> str | None:
        loaded = self._files.get(id(module))
        if loaded is not None:
            return loaded.build_id
        # an executable that the user named may be another one
        read = self._open(module.path) if module.is_main and self.executable is not None else None
        return find_build_id(read) if read is not None else None

    # -- threads -------------------------------------------------------------------------------------------------

    def threads(self) -> Sequence[ThreadRef]:
        """All threads, in the order of the core's notes; a core has no names."""
        return [ThreadRef(number, thread.lwp, None) for number, thread in enumerate(self.core_file.threads, 1)]

    def selected(self) -> int | None:
        return 1

    def _registers(self, thread: ThreadRef) -> Mapping[str, int]:
        found = self._cpu.core_registers(self.core_file.threads[thread.number - 1].state)
        if not found:
            raise ThreadUnavailable(f"thread {thread.number} has no registers in the core")
        return found

    def registers(self, thread: ThreadRef, names: Sequence[str] = ()) -> Mapping[str, int]:
        found = self._registers(thread)
        return {name: found[name] for name in names or self._cpu.AT_STOP if name in found}

    def signal(self, thread: ThreadRef) -> SignalInfo | None:
        info = self.core_file.threads[thread.number - 1].siginfo
        return decode_siginfo(info) if info is not None else None

    def robust_list(self, thread: ThreadRef) -> int | None:
        return None  # the registers have the thread pointer

    def unwind(self, thread: ThreadRef, limit: int) -> list[tuple[int, int]]:
        """Unwind a stack through the frames of signal handlers.

        :raises ThreadUnavailable: a frame has no frame description that can be used.
        """
        registers = self.registers(thread, self._cpu.FRAME)
        frames: list[tuple[int, int]] = []
        for _ in range(_MAX_SIGNAL_FRAMES):
            found, error = self._unwinder.walk(registers, limit - len(frames))
            frames += found
            if error is None or len(frames) >= limit:
                return frames
            pc, sp = found[-1]
            if not self._cpu.is_signal_return(self.memory, pc):
                break
            registers = self._cpu.read_interrupted(self.memory, sp)
        if not isinstance(error, MemoryUnreadable):  # GDB could not read it either
            self._left_out.add("frames")
        raise ThreadUnavailable(f"cut short after frame {len(frames) - 1}: {error}")

    # -- the process ---------------------------------------------------------------------------------------------

    def origin(self) -> Origin:
        return Origin(self.core_file.arguments or None, None, self.written)

    @property
    def written(self) -> int | None:
        """When the core was written, in seconds since 1970."""
        return int(os.fstat(self._file.fileno()).st_mtime)

    def regions(self) -> Sequence[Region]:
        return self.core_file.regions

    def core_kept(self) -> tuple[int, int] | None:
        core = self.core_file
        return (core.size, core.whole) if core.missing else None
