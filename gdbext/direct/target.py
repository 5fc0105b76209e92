"""What all targets have in common that gdbext reads without a debugger: files, symbols, stacks.

What only a debugger knows is left out: the instructions of functions, variables, the lines of native functions. The
target remembers what the report asked for (`DirectTarget.left_out`).
"""

from __future__ import annotations

import os
import re
from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property

from gdbext import arch
from gdbext.arch.protocol import Architecture, Unwinder
from gdbext.direct.demangle import demangle, function_name
from gdbext.direct.symbols import LoadedFile
from gdbext.elf.headers import Read
from gdbext.errors import ThreadUnavailable
from gdbext.inferior.modules import ModuleMap
from gdbext.inferior.protocol import Memory, Module, Symbol, ThreadRef
from gdbext.layout.table import Struct
from gdbext.model import ProblemKind
from gdbext.remembered import remembered

#: What a report may ask for that only a debugger knows. See `DirectTarget.left_out`.
LEFT_OUT = ("instructions", "frames", "types", "variables", "lines")


#: Files of the C library: nobody needs the lines of its functions, and its debug file is often installed.
_C_LIBRARY = re.compile(r"(libc|libpthread|ld|ld-linux[\w-]*)[.-]")


class DirectTarget:
    """The part of a `Target` that does not depend on whether it is a process or a core."""

    architecture: str
    memory: Memory

    def __init__(self) -> None:
        self._left_out: set[str] = set()
        self._files_with_lines: set[str] = set()

    def left_out(self, interpreters: Collection[str] = ()) -> set[str]:
        """What was asked for so far and only a debugger knows; some of `LEFT_OUT`.

        :param interpreters: names of modules whose source lines do not matter.
        """
        return self._left_out | ({"lines"} if self._files_with_lines - {*interpreters} else set())

    @property
    @abstractmethod
    def _loaded(self) -> tuple[Sequence[Module], Mapping[int, LoadedFile]]:
        """The modules, the executable first, and their files on this machine by the module's id()."""

    @abstractmethod
    def _open(self, path: str) -> Read | None:
        """Open a regular file by its path in the target's file system, and keep it open."""

    @abstractmethod
    def _registers(self, thread: ThreadRef) -> Mapping[str, int]:
        """All general registers of a thread.

        :raises ThreadUnavailable: they cannot be read.
        """

    @cached_property
    def _cpu(self) -> Architecture:
        return arch.of(self.architecture)

    # -- files ---------------------------------------------------------------------------------------------------

    def modules(self) -> Sequence[Module]:
        return self._loaded[0]

    def _file_of(self, module: Module | None) -> LoadedFile | None:
        return self._loaded[1].get(id(module))

    def debug_structs(self, module: Module) -> dict[str, Struct]:
        self._left_out.add("types")
        return {}

    @cached_property
    def _module_map(self) -> ModuleMap:
        return ModuleMap(self.modules())

    @remembered
    def symbol(self, address: int) -> Symbol:
        """The function or variable that covers an address; its file and line are not known."""
        module, loaded = self._at(address)
        if module is None or loaded is None:
            return Symbol(None)
        if _has_source(module, loaded):
            self._files_with_lines.add(module.name)
        return Symbol(function_name(loaded.symbol(address)))

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

    def frame_registers(self, thread: ThreadRef, index: int) -> Mapping[str, int]:
        try:
            return self._unwinder.frame_registers(self._registers(thread), index)
        except ThreadUnavailable:
            return {}

    def variables(self, thread: ThreadRef, index: int) -> Sequence[tuple[str, str, str]]:
        frames, _ = self._unwinder.walk(self._registers(thread), index + 1)
        module, loaded = self._at(frames[index][0]) if index < len(frames) else (None, None)
        if module is not None and loaded is not None and _has_source(module, loaded):
            self._left_out.add("variables")
        return []

    def disassemble(self, low: int, high: int) -> Sequence[tuple[int, int, str]]:
        self._left_out.add("instructions")
        return []

    def problems(self) -> Sequence[tuple[str, ProblemKind, str]]:
        return ()


def _has_source(module: Module, file: LoadedFile) -> bool:
    """Whether GDB knows lines and variables of a file's functions that matter."""
    return file.has_lines and not _C_LIBRARY.match(module.name)
