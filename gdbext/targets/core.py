"""A core as a `Target`, read without a debugger.

The modules are the files that the process had mapped with code, their names those of the dynamic linker's list. Memory
that the core lacks is read from these files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from gdbext.elf.core_contents import CoreContents
from gdbext.elf.core_file import CoreFile, read_core_file
from gdbext.elf.headers import Read, machine_name, opened_file
from gdbext.elf.mapped import mapped_modules
from gdbext.elf.notes import find_build_id
from gdbext.errors import CorruptStructure, MemoryUnreadable, NoTarget, ThreadUnavailable
from gdbext.inferior.address_space import Region
from gdbext.inferior.cache import CachedMemory
from gdbext.inferior.proc.process import Proc
from gdbext.inferior.protocol import Memory, Module, Origin, SignalInfo, ThreadRef
from gdbext.inferior.signals import decode_siginfo
from gdbext.model import TargetKind
from gdbext.targets.core_with_files import CoreWithFiles
from gdbext.targets.direct_target import DirectTarget, kernel_code, loaded_file, named_modules
from gdbext.targets.source_lines import SourceLines
from gdbext.targets.symbols import DEBUG_FOLDER, LoadedFile

#: The process id of a core that has none, as in GDB (GDB 13.1 gdb/corelow.c, CORELOW_PID).
_NO_PID = 1


class CoreTarget(DirectTarget):
    """A core as a `Target`.

    :param path: the core, not compressed.
    :param executable: the executable on this machine, None if not known.
    :param places: the paths on this machine of mapped files, by their paths in the core.
    :param lines: reads source lines.
    :param sysroot: the folder on this machine that holds the process's files under their own paths; None: the root.
    :raises NoTarget: it is not a core that can be read.
    """

    def __init__(self, path: str, executable: str | None, places: Mapping[str, str],
                 lines: SourceLines | None = None, sysroot: str | None = None) -> None:
        self.kind: TargetKind = "core"
        self.proc: Proc | None = None
        self._path, self._sysroot = path, sysroot
        super().__init__(lines)
        core = read_core_file(path)
        if core is None or not core.threads:
            raise NoTarget("the core has no thread", "was the disk full? `ulimit -c` bounds the size of cores")
        self.core_file: CoreFile = core
        try:
            self._file = open(path, "rb", buffering=0)  # noqa: SIM115  # it stays open as long as the target
            self._contents = CoreContents(opened_file(self._file), core)
        except (CorruptStructure, OSError) as error:
            raise NoTarget(f"the core cannot be read: {error}") from None
        self.pid = core.pid or _NO_PID
        self.executable = os.path.realpath(executable) if executable is not None else None
        self.architecture = machine_name(core.machine)
        self._places = dict(places)
        main = self._contents.executable
        if executable is not None and main is not None:
            self._places[main] = executable
        # of the core alone first: what is in a mapped file is known once the files are
        alone = CachedMemory(CoreWithFiles(self._contents, core.regions, {}, False))
        found, files = self._find_modules(alone)
        self.memory: Memory = CachedMemory(
            CoreWithFiles(self._contents, core.regions, files, self.core_kept() is not None))
        self._loaded = named_modules(found, dict(self._link_names()), self.executable)

    # -- files ---------------------------------------------------------------------------------------------------

    def _find_modules(self, alone: Memory) -> tuple[list[tuple[Module, LoadedFile | None]], dict[str, Read]]:
        modules: list[tuple[Module, LoadedFile | None]] = []
        files: dict[str, Read] = {}
        for found in [*mapped_modules(alone, self.core_file.regions, (), self._open_mapped),
                      *kernel_code(alone, self.core_file.auxiliary)]:
            path = found.module.path
            read = self._open_mapped(path)
            if found.file is not None and read is not None:
                files[path] = read
            modules.append((Module(path, found.module.sections, path == self._contents.executable, found.file is None),
                            loaded_file(found, self._places.get(path), self._open_debug)))
        return modules, files

    def _link_names(self) -> Iterator[tuple[str, str]]:
        """The linker's names of files by the paths of their mappings."""
        # the first name of a path remains
        for name, path in reversed(list(self._contents.link_names(self._read_some))):
            yield path, name

    def _read_some(self, address: int, size: int) -> bytes:
        try:
            return self.memory.read(address, size)
        except MemoryUnreadable:
            return self._contents.read(address, size)

    def _open(self, path: str) -> Read | None:
        return self._open_here(path)

    def _open_debug(self, path: str) -> Read | None:
        """Open a debug file: that of the sysroot if there is one, as GDB does (GDB 13.1 gdb/build-id.c)."""
        if self._sysroot is None or not path.startswith(f"{DEBUG_FOLDER}/"):
            return self._open(path)
        # the folder has the paths of the process: not <sysroot>/usr/lib/debug/<sysroot>/usr/lib/x
        inside = path[len(DEBUG_FOLDER):]
        if inside.startswith(f"{self._sysroot}/"):
            inside = inside[len(self._sysroot):]
        return self._open(f"{self._sysroot}{DEBUG_FOLDER}{inside}") or self._open(path)

    def _open_mapped(self, path: str) -> Read | None:
        place = self._places.get(path)
        return self._open(place) if place is not None else None

    def has_file(self, path: str) -> bool:
        return self._open_mapped(path) is not None

    def reaches(self, path: str, offset: int) -> bool | None:
        # only files with code were looked for
        read = self._open_mapped(path) or (self._open(path) if self._sysroot is None else None)
        return None if read is None else bool(read(offset, 1))

    def mapped_files(self) -> Sequence[tuple[int, str]]:
        return sorted((region.start, region.path) for region in self.core_file.regions
                      if region.path is not None and region.path.startswith("/") and region.offset == 0)

    def file_build_id(self, module: Module) -> str | None:
        loaded = self._file_of(module)
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
        noted = self.core_file.threads[thread.number - 1]
        found = self._cpu.core_registers(noted.state, noted.area)
        if not found:
            raise ThreadUnavailable(f"thread {thread.number} has no registers in the core")
        return self._cpu.at_stop(self.memory, found)

    def registers(self, thread: ThreadRef, names: Sequence[str] = ()) -> Mapping[str, int]:
        found = self._registers(thread)
        return {name: found[name] for name in names or self._cpu.AT_STOP if name in found}

    def known_registers(self, thread: ThreadRef) -> Mapping[str, int]:
        return self._registers(thread)

    def signal(self, thread: ThreadRef) -> SignalInfo | None:
        info = self.core_file.threads[thread.number - 1].siginfo
        return decode_siginfo(info) if info is not None else None

    def robust_list(self, thread: ThreadRef) -> int | None:
        return None  # the registers have the thread pointer

    # -- the process ---------------------------------------------------------------------------------------------

    def origin(self) -> Origin:
        return Origin(self.core_file.arguments or None, None, self.written,
                      environment=self._contents.environment())

    @property
    def written(self) -> int | None:
        """When the core was written, in seconds since 1970."""
        return int(os.fstat(self._file.fileno()).st_mtime)

    def regions(self) -> Sequence[Region]:
        return self.core_file.regions

    def seconds_since_run(self, threads: Sequence[ThreadRef]) -> Mapping[int, float]:
        return {}

    def core_kept(self) -> tuple[int, int] | None:
        core = self.core_file
        return (core.size, core.whole) if core.missing else None
