"""A `Target` on top of GDB's selected inferior, process or core.

It only reads; `Session` restores the selected thread and frame.
"""

from __future__ import annotations

import functools
import gc
import itertools
import os
import re
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType

import gdb

from gdbext import arch
from gdbext.debugger.console import decoded, output
from gdbext.debugger.lazy import LazySymbols, is_lazy, open_regular
from gdbext.debugger.types import read_structs
from gdbext.elf.core_file import CoreFile, read_core_file
from gdbext.elf.headers import Read
from gdbext.elf.mapped import MappedModule, mapped_modules
from gdbext.errors import MemoryUnreadable, NoTarget, ThreadUnavailable
from gdbext.inferior.address_space import AddressSpace, Region
from gdbext.inferior.cache import CachedMemory
from gdbext.inferior.modules import ModuleMap
from gdbext.inferior.proc import Proc
from gdbext.inferior.protocol import Memory, Module, Section, SignalInfo, Symbol, ThreadRef
from gdbext.inferior.signals import FAULT_SIGNALS
from gdbext.layout.members import read_specs
from gdbext.layout.table import Struct
from gdbext.model import ProblemKind, TargetKind
from gdbext.remembered import remembered
from gdbext.runtimes.names import without_parameters

_MASK64 = 0xFFFFFFFFFFFFFFFF
# `info files`: "	0x00005555 - 0x00005570 is .interp in /lib/libm.so.6"; no "in" for the main executable. The segments
# of a core are listed in the same way, under a heading of their own.
_SECTION = re.compile(r"^\s+(0x[0-9a-f]+) - (0x[0-9a-f]+) is (\S+)(?: in (.+))?$")
_CORE_SEGMENTS, _EXECUTABLE_SECTIONS = "Local core dump file:", "Local exec file:"
# `info proc mappings`, the start of a file: "  0x7f36fd91e000  0x7f36fd922000  0x4000  0x0  [r--p] /usr/lib/liblzma.so"
_MAPPING = re.compile(r"^\s*(0x[0-9a-f]+)\s+0x[0-9a-f]+\s+0x[0-9a-f]+\s+0x0\s+(?:[rwxsp-]{4}\s+)?(/.*\S)\s*$")
# `info files`: "Local core dump file:" and on the next line "	`/tmp/core.1', file type elf64-x86-64."
_CORE_FILE = re.compile(r"^Local core dump file:\s+[`'](.+)', file type ", re.MULTILINE)
# `disassemble/r`: "=> 0x0000555555555139 <get+4>:	48 8b 47 18	mov    0x18(%rdi),%rax"
_INSTRUCTION = re.compile(r"^(?:=>)?\s*(0x[0-9a-f]+)(?: <.*?>)?:\t((?:[0-9a-f]{2} ?)+?) *\t(.*)$")
# `output/a`: "0x7f3c4c1 <lock_PyThread_acquire_lock+246>"; less than 0 in a part that lies before the rest
_SYMBOLIC = re.compile(r"^0x[0-9a-f]+ <(.+?)(?:[-+]\d+)?>$", re.DOTALL)
_PLAIN_NAME = re.compile(r"^[A-Za-z_][\w.$]*$", re.ASCII)
# mangled by Rust: its own scheme, or that of C++ with a hash at the end
_RUST = re.compile(r"^_R|17h[0-9a-f]{16}E")


class GdbMemory:
    """Memory of the selected inferior."""

    def __init__(self, inferior: gdb.Inferior) -> None:
        self._read = inferior.read_memory

    def read(self, address: int, size: int) -> bytes:
        """Exactly `size` bytes; see `Memory.read`."""
        try:
            return bytes(self._read(address, size))
        except (gdb.error, OverflowError, ValueError, TypeError, MemoryError):
            raise MemoryUnreadable(address, size) from None


class CoreMemory:
    """Memory of a core without the gaps: GDB reads zeros where neither the core nor a file has data.

    :param is_loaded: whether an address is in a file that GDB has loaded.
    :param is_truncated: whether the core is cut off. Then a file's contents may be older than the variables in memory.
    """

    def __init__(self, memory: Memory, regions: Sequence[Region], is_loaded: Callable[[int], bool],
                 is_truncated: bool = False) -> None:
        self._memory = memory
        self._is_truncated = is_truncated
        self._space = AddressSpace(regions)
        self._is_loaded = is_loaded
        self._has_file: dict[str, bool] = {}

    def read(self, address: int, size: int) -> bytes:
        """Exactly `size` bytes; see `Memory.read`."""
        region = self._space.find(address)
        if region is not None and region.kept is not None and address + size > region.kept:
            was_written = self._is_truncated and region.allows("w")
            if was_written or not self._is_mapped(region.path) and not self._is_loaded(address):
                raise MemoryUnreadable(address, size)
        return self._memory.read(address, size)

    def _is_mapped(self, path: str | None) -> bool:
        if path is None:
            return False
        if path not in self._has_file:
            sysroot = str(gdb.parameter("sysroot") or "")
            self._has_file[path] = os.path.isfile(path if sysroot == "target:" else f"{sysroot}{path}")
        return self._has_file[path]


#: How many frames of a stack GDB reads symbols for, where it was told not to do so by itself.
_MAX_LOADED_FRAMES = 1000

#: How many variables of one frame are told, and how long a value may be, in characters.
_MAX_VARIABLES, _MAX_VALUE = 50, 200


class GdbTarget:
    """The selected inferior as a `Target`.

    :param may_load: whether GDB may read symbols of libraries with `set auto-solib-add off`.
    :raises NoTarget: there is no process and no core, or the process runs.
    """

    def __init__(self, may_load: bool = True) -> None:
        inferior = gdb.selected_inferior()
        if inferior.pid == 0 or not inferior.is_valid():
            raise NoTarget("there is no process and no core")
        self._inferior = inferior
        self.pid = inferior.pid
        self._selected = _selected_number()
        self._connection = _connection_kind(inferior)
        self.kind: TargetKind = "core" if self._connection == "core" else "live"
        self.executable = _executable(inferior)
        self.architecture = _architecture()
        self.proc = Proc(self.pid) if self._connection == "native" else None
        self._threads: dict[int, gdb.InferiorThread] = {}
        self._descriptors: dict[str, gdb.RegisterDescriptor] = {}
        self._modules: list[Module] | None = None
        # by the identity of the module
        self._mapped: dict[int, MappedModule] = {}
        self._module_map: ModuleMap | None = None
        root = f"/proc/{self.pid}/root" if self.proc is not None else None
        self._lazy = LazySymbols(root, may_load) if is_lazy() else None
        memory: Memory = GdbMemory(inferior)
        if self.kind == "core" and self.regions():
            memory = CoreMemory(memory, self.regions(), self._is_loaded, self.core_kept() is not None)
        self.memory: Memory = CachedMemory(memory)

    @property
    def is_native(self) -> bool:
        """Whether it is a process of the machine that GDB runs on."""
        return self._connection == "native"

    def threads(self) -> list[ThreadRef]:
        """All threads by ascending number."""
        found = []
        for thread in self._inferior.threads():
            if not thread.is_valid():
                continue
            pid, lwp, tid = thread.ptid
            self._threads[thread.num] = thread
            # a target without LWPs (some gdbservers and simulators) numbers threads in the third place
            found.append(ThreadRef(thread.num, lwp or tid or pid, _thread_name(thread)))
        found.sort(key=lambda ref: ref.number)
        return found

    def _switch(self, thread: ThreadRef) -> gdb.Frame:
        try:
            self._threads[thread.number].switch()
            return gdb.newest_frame()
        except (gdb.error, KeyError) as error:
            raise ThreadUnavailable(f"thread {thread.number}: {error}") from None

    def registers(self, thread: ThreadRef, names: Sequence[str] = ()) -> dict[str, int]:
        """Registers of the newest frame; see `Target.registers`. Of a core they are read without GDB, if they can."""
        core, cpu = self.core_file(), arch.of(self.architecture)
        names = names or cpu.AT_STOP
        if core is not None and core.machine == cpu.ELF_MACHINE and thread.lwp in core.states:
            noted = cpu.core_registers(core.states[thread.lwp])
            if noted:
                return {name: noted[name] for name in names if name in noted}
        frame = self._switch(thread)
        values = {}
        for name in names:
            try:
                # by its descriptor, since GDB looks a name up among all its registers
                values[name] = int(frame.read_register(self._register(frame, name))) & _MASK64
            except (gdb.error, ValueError) as error:
                if name in (cpu.PROGRAM_COUNTER, cpu.STACK_POINTER):
                    raise ThreadUnavailable(f"thread {thread.number} has no registers: {error}") from None
        return values

    def _register(self, frame: gdb.Frame, name: str) -> gdb.RegisterDescriptor | str:
        if not self._descriptors:
            self._descriptors.update((found.name, found) for found in frame.architecture().registers())
        return self._descriptors.get(name, name)

    def unwind(self, thread: ThreadRef, limit: int) -> list[tuple[int, int]]:
        """Frames by GDB's unwinder, calls that were inlined and tail calls left out; see `Target.unwind`."""
        self._load_stack(thread, limit)
        stack_pointer = arch.of(self.architecture).STACK_POINTER
        found: list[tuple[int, int]] = []
        try:
            for frame in _iter_frames(self._switch(thread)):
                if not frame.pc() or len(found) >= limit:
                    break
                if not is_inlined(frame):
                    found.append((frame.pc(), int(frame.read_register(stack_pointer)) & _MASK64))
                if self._lazy is not None and self._unread_module(frame) is not None:
                    break  # GDB does not know the caller
        except gdb.error as error:
            if not found:
                raise ThreadUnavailable(f"thread {thread.number} cannot be unwound: {error}") from None
        return found

    def load_stack(self, thread: ThreadRef) -> None:
        """Have GDB read the symbols for a thread's stack, if it does not do so by itself."""
        self._load_stack(thread, _MAX_LOADED_FRAMES)

    def load_all(self) -> bool:
        """Have GDB read the symbols of all libraries; whether some were missing."""
        return self._lazy is not None and self._lazy.load_all()

    def _load_stack(self, thread: ThreadRef, limit: int) -> None:
        """Have GDB read the symbols for the innermost frames: without them it can only guess their callers."""
        if self._lazy is None:
            return
        while True:
            frames = itertools.islice(_iter_frames(self._switch(thread)), limit)
            try:
                unread = next(filter(None, map(self._unread_module, frames)), None)
            except gdb.error:
                return
            # once the symbols are read, frames further out may be different
            if unread is None or not self._lazy.load(unread):
                return

    def _unread_module(self, frame: gdb.Frame) -> Module | None:
        assert self._lazy is not None
        module = self._module_at(frame.pc())
        return module if module is not None and self._lazy.is_unread(module) else None

    def variables(self, thread: ThreadRef, index: int) -> list[tuple[str, str, str]]:
        """See `Target.variables`; those of calls inlined there come first."""
        self._load_stack(thread, _MAX_LOADED_FRAMES)
        frames = _iter_frames(self._switch(thread))
        found: dict[str, tuple[str, str, str]] = {}
        try:
            for frame in frames:
                for variable in _variables(frame) if index == 0 else ():
                    found.setdefault(variable[0], variable)
                index -= not is_inlined(frame)
                if index < 0:
                    break
        except gdb.error:
            pass  # what was found before is right
        return list(found.values())[:_MAX_VARIABLES]

    def modules(self) -> Sequence[Module]:
        """Loaded files with their sections: those that `info files` lists, and those that GDB has not found."""
        if self._modules is None:
            self._modules = self._listed_modules()
            # what follows reads memory, for which the modules are needed
            mapped = (list(mapped_modules(self.memory, self.regions(), self._modules, self._open_mapped))
                      if self._modules else [])
            self._modules = [*self._modules, *(found.module for found in mapped)]
            self._mapped = {id(found.module): found for found in mapped}
            self._module_map = None
        return self._modules

    def _listed_modules(self) -> list[Module]:
        sections: dict[str, list[Section]] = {}
        of_core = False
        for line in output("info files").splitlines():
            if line in (_CORE_SEGMENTS, _EXECUTABLE_SECTIONS):
                of_core = line == _CORE_SEGMENTS
            match = _SECTION.match(line)
            if match and not of_core:
                low, high, name, path = match.groups()
                sections.setdefault(path or "", []).append(Section(name, int(low, 16), int(high, 16)))
        return [Module(path or self.executable or "", tuple(found), not path) for path, found in sections.items()]

    def _open_mapped(self, path: str) -> Read | None:
        sysroot = str(gdb.parameter("sysroot") or "")
        places = [path if sysroot == "target:" else f"{sysroot}{path}"]
        if self.proc is not None:
            places = [f"/proc/{self.pid}/root{path}", path]
        return _open_first(places)

    def has_file(self, path: str) -> bool:
        """See `Target.has_file`."""
        return self._open_mapped(path) is not None

    def _is_loaded(self, address: int) -> bool:
        module = self._module_at(address)
        return module is not None and not module.by_mapping

    def _module_at(self, address: int) -> Module | None:
        if self._module_map is None:
            self._module_map = ModuleMap(self.modules())
        return self._module_map.find(address)

    def mapped_files(self) -> list[tuple[int, str]]:
        """See `Target.mapped_files`."""
        if self.kind != "core":
            return []
        try:
            text = output("info proc mappings")
        except gdb.error:  # a core without NT_FILE
            return []
        return [(int(match[1], 16), match[2]) for match in map(_MAPPING.match, text.splitlines()) if match]

    def file_build_id(self, module: Module) -> str | None:
        """See `Target.file_build_id`."""
        if self._lazy is not None and self._lazy.is_unread(module):
            return self._lazy.build_id(module)
        try:
            found: gdb.Objfile | None = gdb.lookup_objfile(module.path)
        except (gdb.error, ValueError):  # none of that name
            return None
        return found.build_id if found is not None else None

    def debug_structs(self, module: Module) -> dict[str, Struct]:
        """See `analysis.python_side.TargetWithTypes`."""
        if self._lazy is not None:
            self._lazy.load(module)
        return read_structs(module, "PyEval_EvalCode", read_specs("cpython"))

    @remembered
    def symbol(self, address: int) -> Symbol:
        """See `Target.symbol`."""
        module = self._module_at(address) if self._lazy is not None or self._mapped else None
        mapped = self._mapped.get(id(module))
        if mapped is not None:
            name = mapped.symbol(address)
            return Symbol(_demangled(name) if name is not None else None)
        if self._lazy is not None and module is not None and self._lazy.is_unread(module):
            is_known, name = self._lazy.name(module, address)
            if is_known:
                return Symbol(_demangled(name) if name is not None else None)
            self._lazy.load(module)
        try:
            match = _SYMBOLIC.match(output(f"output/a {address:#x}"))
        except gdb.error:
            match = None
        return Symbol(_demangled(match[1]) if match else None, *_source_line(address))

    def selected(self) -> int | None:
        """See `Target.selected`; as it was when the look began."""
        return self._selected

    def signal(self, thread: ThreadRef) -> SignalInfo | None:
        """See `Target.signal`."""
        self._switch(thread)
        try:
            info = gdb.parse_and_eval("$_siginfo")
            number, code, fields = int(info["si_signo"]), int(info["si_code"]), info["_sifields"]
            if number in FAULT_SIGNALS and code > 0:
                return SignalInfo(number, code, int(fields["_sigfault"]["si_addr"]) & _MASK64)
            return SignalInfo(number, code, None, int(fields["_kill"]["si_pid"]), int(fields["_kill"]["si_uid"]))
        except (gdb.error, ValueError):  # a core notes it for the thread that died, a remote machine may not tell it
            return None

    def frame_registers(self, thread: ThreadRef, index: int) -> dict[str, int]:
        """See `Target.frame_registers`."""
        self._load_stack(thread, index + 1)
        frames = (frame for frame in _iter_frames(self._switch(thread)) if not is_inlined(frame))
        try:
            frame = next(itertools.islice(frames, index, None), None)
        except gdb.error:
            return {}
        if frame is None:
            return {}
        cpu = arch.of(self.architecture)
        values: dict[str, int] = {}
        for name in (cpu.PROGRAM_COUNTER, cpu.STACK_POINTER, *cpu.CALLEE_SAVED):
            try:
                values[name] = int(frame.read_register(name)) & _MASK64
            except (gdb.error, ValueError):  # not saved
                continue
        return values

    def regions(self) -> tuple[Region, ...]:
        """See `Target.regions`: of a process from its /proc, of a core from its headers."""
        if self.proc is not None:
            return self.proc.regions()
        core = self.core_file()
        return core.regions if core is not None else ()

    def core_kept(self) -> tuple[int, int] | None:
        """See `Target.core_kept`."""
        core = self.core_file()
        return (core.size, core.whole) if core is not None and core.missing else None

    @remembered
    def core_file(self) -> CoreFile | None:
        """The headers of the core; None for a process, and where they cannot be read."""
        path = self.core_path()
        return read_core_file(path) if path is not None else None

    def core_path(self) -> str | None:
        """The name by which GDB opened the core; None for a process."""
        match = _CORE_FILE.search(output("info files")) if self.kind == "core" else None
        return match[1] if match else None

    def disassemble(self, low: int, high: int) -> list[tuple[int, int, str]]:
        """See `Target.disassemble`."""
        module = self._module_at(low) if self._lazy is not None else None
        if self._lazy is not None and module is not None:
            self._lazy.load(module)  # the text has names of what instructions refer to
        try:
            text = output(f"with disassembly-flavor att -- disassemble /r {low:#x},{high:#x}")
        except gdb.error:
            return []
        return [(int(match[1], 16), len(match[2].split()), match[3])
                for match in map(_INSTRUCTION.match, text.splitlines()) if match]

    def demangle(self, name: str) -> str:
        """See `Target.demangle`."""
        if not _PLAIN_NAME.fullmatch(name):
            return name
        try:
            return output(f"demangle -l c++ -- {name}").strip()
        except gdb.error:
            return name

    def read_host_file(self, path: str, limit: int) -> bytes | None:
        """A regular file of the target's file system (its own root, for a live process)."""
        places = [path]
        if not os.path.isabs(path):
            places = [f"/proc/{self.pid}/cwd/{path}"] if self.kind == "live" else []
        elif self.is_native:
            places = [f"/proc/{self.pid}/root{path}", path]
        read = _open_first(places)
        return (read(0, limit) or None) if read is not None else None

    def problems(self) -> tuple[tuple[str, ProblemKind, str], ...]:
        """See `Target.problems`; GDB reports none."""
        return ()


class Session:
    """Gives the target, and restores the selected thread and frame afterwards, also after an error.

    Meanwhile Python's garbage collector is off: a snapshot makes many objects and drops few, and of thousands of
    threads it makes so many that the collector's search takes a part of the time.

    :param may_load: see `GdbTarget`.
    """

    def __init__(self, may_load: bool = True) -> None:
        self._may_load = may_load
        self._collects = gc.isenabled()
        self._thread: gdb.InferiorThread | None = None
        self._frame: gdb.Frame | None = None

    def __enter__(self) -> GdbTarget:
        self._thread = gdb.selected_thread()
        try:
            self._frame = gdb.selected_frame()
        except gdb.error:
            self._frame = None
        target = GdbTarget(self._may_load)
        gc.disable()
        return target

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self._collects:
            gc.enable()
        if self._thread is not None and self._thread.is_valid():
            self._thread.switch()
            if self._frame is not None and self._frame.is_valid():
                self._frame.select()


def _variables(frame: gdb.Frame) -> Iterator[tuple[str, str, str]]:
    """Arguments and local variables of a frame, the innermost block's first; nothing is called to print them."""
    try:
        block: gdb.Block | None = frame.block()
    except RuntimeError:  # no debug information
        return
    seen: set[str] = set()
    while block is not None:
        for symbol in block:
            name = decoded(functools.partial(getattr, symbol, "name")) or ""
            if not (symbol.is_argument or symbol.is_variable) or name in seen:
                continue
            seen.add(name)
            kind = text = "<unreadable>"
            try:
                kind = str(symbol.type)
                value = symbol.value(frame)
                # raw: pretty-printers are other people's code, and may call functions of the target
                text = value.format_string(raw=True, max_elements=10, max_depth=2, repeat_threshold=10)
            except (gdb.error, RuntimeError, UnicodeDecodeError):
                pass
            yield name, kind, text if len(text) <= _MAX_VALUE else f"{text[:_MAX_VALUE]}..."
        if block.function is not None:
            return
        block = block.superblock


def _iter_frames(frame: gdb.Frame | None) -> Iterator[gdb.Frame]:
    """A frame and its callers."""
    while frame is not None:
        yield frame
        frame = frame.older()


def is_inlined(frame: gdb.Frame) -> bool:
    """Whether a frame is a call without native code of its own: inlined, or a tail call."""
    return frame.type() in (gdb.INLINE_FRAME, gdb.TAILCALL_FRAME)


def _source_line(address: int) -> tuple[str | None, int | None]:
    """File and line of a code address; no line within an inlined call, since it would be the inlined function's."""
    try:
        place = gdb.find_pc_line(address)
        table: gdb.Symtab | None = place.symtab  # None without debug information
        if table is None or not place.line:
            return None, None
        block: gdb.Block | None = gdb.block_for_pc(address)
        functions = 0
        while block is not None:
            functions += block.function is not None
            block = block.superblock
        file = decoded(functools.partial(getattr, table, "filename"))
        return (file, place.line) if functions == 1 else (file, None)
    except (gdb.error, RuntimeError, OverflowError):
        return None, None


def _demangled(name: str) -> str:
    """A C++ or Rust function by the name that its source has, without parameters; any other name as it is."""
    mangled = name.partition("@")[0]
    # a file's author chooses names; one with a line feed would be two commands of GDB's
    if not name.startswith(("_Z", "_R")) or not _PLAIN_NAME.fullmatch(mangled):
        return name
    language = "rust" if _RUST.search(name) else "c++"
    try:
        return without_parameters(output(f"demangle -l {language} -- {mangled}").strip())
    except gdb.error:
        return name


def _connection_kind(inferior: gdb.Inferior) -> str:
    connection = getattr(inferior, "connection", None)  # since GDB 12
    if connection is not None:
        return str(connection.type)
    text = output("info target")
    if re.search(r"^Local core dump file:", text, re.MULTILINE):
        return "core"
    return "native" if "\nNative process:" in text else "remote"


def _selected_number() -> int | None:
    thread: gdb.InferiorThread | None = gdb.selected_thread()
    return thread.num if thread is not None else None


def _executable(inferior: gdb.Inferior) -> str | None:
    return decoded(lambda: inferior.progspace.filename) or None


def _architecture() -> str:
    try:
        name = gdb.selected_frame().architecture().name()
    except gdb.error:
        name = output("show architecture")
    if "x86-64" in name:
        return "x86_64"
    return "aarch64" if "aarch64" in name else name


def _thread_name(thread: gdb.InferiorThread) -> str | None:
    try:
        return decoded(lambda: thread.name)
    except gdb.error:
        return None


def _open_first(places: Sequence[str]) -> Read | None:
    for place in places:
        try:
            return open_regular(place)
        except (OSError, ValueError):
            continue
    return None
