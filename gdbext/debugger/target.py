"""GDB's selected inferior, a process or a core, as a `Target`. It only reads."""

from __future__ import annotations

import contextlib
import functools
import gc
import itertools
import os
import re
import socket
import time
from collections.abc import Iterator, Mapping, Sequence

import gdb

from gdbext import arch
from gdbext.debugger.before_pause import before_pause
from gdbext.debugger.console import TARGET_FILES, decoded, output
from gdbext.debugger.lazy import LazySymbols
from gdbext.debugger.memory import GdbMemory, GuardedCoreMemory, host_path
from gdbext.debugger.settings import settings
from gdbext.debugger.symbols import _PLAIN_NAME, demangle, demangled, is_inlined, iter_frames, source_place
from gdbext.debugger.types import read_structs
from gdbext.elf.core_file import CoreFile, read_core_file
from gdbext.elf.headers import Read, machine_name, open_regular
from gdbext.elf.mapped import MappedModule, mapped_modules
from gdbext.elf.symtab import SymbolFile
from gdbext.errors import GdbextError, NoTarget, ThreadUnavailable
from gdbext.inferior.address_space import Region
from gdbext.inferior.budget import Budget
from gdbext.inferior.cache import CachedMemory
from gdbext.inferior.modules import ModuleMap
from gdbext.inferior.proc.descriptors import OpenFiles
from gdbext.inferior.proc.process import Proc
from gdbext.inferior.protocol import Memory, Module, Origin, Section, SignalInfo, Symbol, ThreadRef
from gdbext.inferior.signals import FAULT_SIGNALS
from gdbext.layout.members import read_specs
from gdbext.layout.table import Struct
from gdbext.model import ProblemKind, TargetKind
from gdbext.proofs.known_code import KnownCode
from gdbext.remembered import remembered
from gdbext.runtimes.names import short_name

_MASK64 = 0xFFFFFFFFFFFFFFFF
# `info files`: "	0x00005555 - 0x00005570 is .interp in /lib/libm.so.6"; no "in" for the main executable. A core's
# segments are listed in the same format, under their own heading.
_SECTION = re.compile(r"^\s+(0x[0-9a-f]+) - (0x[0-9a-f]+) is (\S+)(?: in (.+))?$")
_CORE_SEGMENTS, _EXECUTABLE_SECTIONS = "Local core dump file:", "Local exec file:"
_CORE_HEADING = re.compile(r"^Local core dump file:", re.MULTILINE)
# `info files`: "Local core dump file:" and on the next line "	`/tmp/core.1', file type elf64-x86-64."
_CORE_FILE = re.compile(r"^Local core dump file:\s+[`'](.+)', file type ", re.MULTILINE)
# `disassemble/r`: "=> 0x0000555555555139 <get+4>:	48 8b 47 18	mov    0x18(%rdi),%rax"
_INSTRUCTION = re.compile(r"^(?:=>)?\s*(0x[0-9a-f]+)(?: <.*?>)?:\t((?:[0-9a-f]{2} ?)+?) *\t(.*)$")
# `output/a`: "0x7f3c4c1 <lock_PyThread_acquire_lock+246>"; the offset is negative in a part placed before the entry
_SYMBOLIC = re.compile(r"^0x[0-9a-f]+ <(.+?)(?:([-+]\d+))?>$", re.DOTALL)


#: For how many frames of a stack GDB reads symbols with `set auto-solib-add off`.
_MAX_LOADED_FRAMES = 1000

#: The number of variables shown of a frame, and of characters of a value.
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
        thread: gdb.InferiorThread | None = gdb.selected_thread()
        self._selected = thread.num if thread is not None else None
        connection = _connection_kind(inferior)
        self.kind: TargetKind = "core" if connection == "core" else "live"
        self._program = decoded(lambda: inferior.progspace.filename) or None
        self.executable = self._program.removeprefix(TARGET_FILES) if self._program is not None else None
        core = self.core_file() if self.kind == "core" else None
        # a GDB for one processor takes a core of another for one of its own
        known = _architecture()
        self.architecture = machine_name(core.machine) if core is not None else known
        if self.architecture == "aarch64" != known:
            raise GdbextError("the core's processor is aarch64, which this GDB does not know",
                              "use gdb-multiarch, or `gdbext report CORE`, which needs no GDB")
        self.proc = (Proc(self.pid, asleep=before_pause.read(inferior).asleep,
                          open_files=OpenFiles(arch.system_call_number)) if connection == "native" else None)
        self._threads: dict[int, gdb.InferiorThread] = {}
        self._descriptors: dict[str, gdb.RegisterDescriptor] = {}
        self._modules: list[Module] | None = None
        # by the module's id()
        self._mapped: dict[int, MappedModule] = {}
        self._module_map: ModuleMap | None = None
        root = f"/proc/{self.pid}/root" if self.proc is not None else None
        self._lazy = LazySymbols(root, may_load)
        memory: Memory = GdbMemory(inferior)
        if self.kind == "core" and self.regions():
            memory = GuardedCoreMemory(memory, self.regions(), self._is_loaded, self.core_kept() is not None)
        self.memory: Memory = CachedMemory(memory)
        #: How long it may be read, if it is read in a `session`.
        self.budget = Budget()
        self.known_code = KnownCode()

    def threads(self) -> list[ThreadRef]:
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

    def known_registers(self, thread: ThreadRef) -> dict[str, int]:
        return self.registers(thread, arch.of(self.architecture).FRAME)

    def registers(self, thread: ThreadRef, names: Sequence[str] = ()) -> dict[str, int]:
        core, cpu = self.core_file(), arch.of(self.architecture)
        names = names or cpu.AT_STOP
        if core is not None and core.machine == cpu.ELF_MACHINE and thread.lwp in core.by_lwp:
            inside = core.by_lwp[thread.lwp]
            noted = cpu.at_stop(self.memory, cpu.core_registers(inside.state, inside.area))
            if noted:
                return {name: noted[name] for name in names if name in noted}
        frame = self._switch(thread)
        # read by descriptor, since GDB searches all its registers for a name
        if not self._descriptors:
            self._descriptors = {found.name: found for found in frame.architecture().registers()}
        values = {}
        for name in names:
            try:
                values[name] = int(frame.read_register(self._descriptors.get(name, name))) & _MASK64
            except (gdb.error, ValueError) as error:
                if name in (cpu.PROGRAM_COUNTER, cpu.STACK_POINTER):
                    raise ThreadUnavailable(f"thread {thread.number} has no registers: {error}") from None
        return {name: value for name, value in cpu.at_stop(self.memory, values).items() if name in names}

    def robust_list(self, thread: ThreadRef) -> int | None:
        return None  # GDB gives the thread pointer

    def unwind(self, thread: ThreadRef, limit: int) -> list[tuple[int, int]]:
        self.load_stack(thread, limit)
        stack_pointer = arch.of(self.architecture).STACK_POINTER
        found: list[tuple[int, int]] = []
        try:
            for frame in iter_frames(self._switch(thread)):
                # a thread may have called null; its caller may not
                if found and not frame.pc() or len(found) >= limit:
                    break
                if not is_inlined(frame):
                    found.append((frame.pc(), int(frame.read_register(stack_pointer)) & _MASK64))
                if self._unread_module(frame) is not None:
                    break  # GDB does not know the caller
        except gdb.error as error:
            if not found:
                raise ThreadUnavailable(f"thread {thread.number} cannot be unwound: {error}") from None
        return found

    def load_stack(self, thread: ThreadRef, limit: int = _MAX_LOADED_FRAMES) -> None:
        """Have GDB read the symbols for the innermost frames; without them it guesses the frames' callers."""
        while self._lazy.unread:
            frames = itertools.islice(iter_frames(self._switch(thread)), limit)
            try:
                unread = next(filter(None, map(self._unread_module, frames)), None)
            except gdb.error:
                return
            # once the symbols are read, frames further out may be different
            if unread is None or not self._lazy.load(unread):
                return

    def load_all(self) -> bool:
        """Have GDB read the symbols of all libraries; return whether some were missing."""
        return self._lazy.load_all()

    def _unread_module(self, frame: gdb.Frame) -> Module | None:
        module = self._module_at(frame.pc()) if self._lazy.unread else None
        return module if module is not None and module.path in self._lazy.unread else None

    def variables(self, thread: ThreadRef, index: int) -> list[tuple[str, str, str]]:
        self.load_stack(thread)
        found: dict[str, tuple[str, str, str]] = {}
        try:
            for frame in iter_frames(self._switch(thread)):
                # inlined calls come before the frame that contains them
                inlined = f" of {short_name(decoded(frame.name) or 'an inlined call')}" if is_inlined(frame) else ""
                for name, kind, value in _variables(frame) if index == 0 else ():
                    found.setdefault(name + inlined, (name + inlined, kind, value))
                index -= not is_inlined(frame)
                if index < 0:
                    break
        except gdb.error:
            pass  # the variables found so far are correct
        return list(found.values())[:_MAX_VARIABLES]

    def modules(self) -> Sequence[Module]:
        """Return the files that `info files` lists, and those that only the mappings show."""
        if self._modules is None:
            self._modules = self._listed_modules()
            # reading memory below needs the modules listed so far
            mapped = (list(mapped_modules(self.memory, self.regions(), self._modules, self._open_mapped))
                      if self._modules else [])
            self._modules = [*self._modules, *(found.module for found in mapped)]
            self._mapped = {id(found.module): found for found in mapped}
            self._module_map = None
        return self._modules

    def _listed_modules(self) -> list[Module]:
        listed: list[tuple[str, Section]] = []
        of_core = goes_on = False
        for line in output("info files").split("\n"):
            if line in (_CORE_SEGMENTS, _EXECUTABLE_SECTIONS):
                of_core = line == _CORE_SEGMENTS
            match = _SECTION.match(line)
            if match and not of_core:
                low, high, name, path = match.groups()
                listed.append((path or "", Section(name, int(low, 16), int(high, 16))))
            elif goes_on and line and not line.startswith("\t"):  # the file's name contains a newline
                listed[-1] = (f"{listed[-1][0]}\n{line}", listed[-1][1])
                continue
            goes_on = bool(match) and not of_core and bool(path)
        sections: dict[str, list[Section]] = {}
        for path, section in _without_forged(listed):
            sections.setdefault(path, []).append(section)
        return [Module(path or self._program or "", tuple(found), not path) for path, found in sections.items()]

    def _open_mapped(self, path: str) -> Read | None:
        return _open_first([host_path(path)] if self.proc is None else [self.proc.mapped_file(path), path])

    def has_file(self, path: str) -> bool:
        return self._open_mapped(path) is not None

    def reaches(self, path: str, offset: int) -> bool | None:
        read = self._open_mapped(path)
        return None if read is None else bool(read(offset, 1))

    def _is_loaded(self, address: int) -> bool:
        module = self._module_at(address)
        return module is not None and not module.by_mapping

    def _module_at(self, address: int) -> Module | None:
        if self._module_map is None:
            self._module_map = ModuleMap(self.modules())
        return self._module_map.find(address)

    def mapped_files(self) -> list[tuple[int, str]]:
        core = self.core_file()
        return sorted((region.start, region.path) for region in (core.regions if core is not None else ())
                      if region.path is not None and region.path.startswith("/") and region.offset == 0)

    def file_build_id(self, module: Module) -> str | None:
        if module.path in self._lazy.unread:
            return self._lazy.build_id(module)
        try:
            found: gdb.Objfile | None = gdb.lookup_objfile(module.path)
        except (gdb.error, ValueError):  # GDB has no file of that name
            return None
        return found.build_id if found is not None else None

    def variable(self, module: Module, name: str) -> int | None:
        try:
            file = SymbolFile(open_regular(module.path))
            bias, address = file.bias(module), file.address_of(name)
        except (GdbextError, OSError, ValueError):
            return None
        return address + bias if address is not None and bias is not None else None

    def debug_structs(self, module: Module) -> dict[str, Struct]:
        self._lazy.load(module)
        return read_structs(module, "PyEval_EvalCode", read_specs("cpython"))

    def symbol(self, address: int) -> Symbol:
        return Symbol(self._name(address)[0])

    @remembered
    def frame_symbol(self, address: int) -> Symbol:
        name, start = self._name(address)
        return Symbol(name, *source_place(address, start)) if start is not None else Symbol(name)

    def source_file(self, address: int) -> str | None:
        return self.frame_symbol(address).file

    @remembered
    def _name(self, address: int) -> tuple[str | None, int | None]:
        """The name and start of the symbol at an address; no start if GDB has no debug information of the file."""
        module = self._module_at(address) if self._mapped or self._lazy.unread else None
        mapped = self._mapped.get(id(module))
        if mapped is not None:
            return demangled(mapped.symbol(address)), None
        if module is not None and module.path in self._lazy.unread:
            is_known, name = self._lazy.name(module, address)
            if is_known:
                return demangled(name), None
            self._lazy.load(module)
        try:
            match = _SYMBOLIC.match(output(f"output/a {address:#x}"))
        except gdb.error:
            match = None
        if match is None:
            return None, address
        name, offset = match.groups()
        return demangled(name), address - int(offset or 0)

    def selected(self) -> int | None:
        return self._selected

    def signal(self, thread: ThreadRef) -> SignalInfo | None:
        self._switch(thread)
        try:
            info = gdb.parse_and_eval("$_siginfo")
            number, code, fields = int(info["si_signo"]), int(info["si_code"]), info["_sifields"]
            if number in FAULT_SIGNALS and code > 0:
                return SignalInfo(number, code, int(fields["_sigfault"]["si_addr"]) & _MASK64)
            return SignalInfo(number, code, None, int(fields["_kill"]["si_pid"]), int(fields["_kill"]["si_uid"]))
        except (gdb.error, ValueError):  # a core may have it for the crashed thread only, a remote target not at all
            return None

    def frame_registers(self, thread: ThreadRef, index: int) -> dict[str, int]:
        self.load_stack(thread, index + 1)
        frames = (frame for frame in iter_frames(self._switch(thread)) if not is_inlined(frame))
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
        if self.proc is not None:
            return self.proc.regions()
        core = self.core_file()
        return core.regions if core is not None else ()

    def seconds_since_run(self, threads: Sequence[ThreadRef]) -> Mapping[int, float]:
        return {}

    def core_kept(self) -> tuple[int, int] | None:
        core = self.core_file()
        return (core.size, core.whole) if core is not None and core.missing else None

    @remembered
    def core_file(self) -> CoreFile | None:
        """The core's headers; None for a process, and if they cannot be read."""
        path = self.core_path()
        return read_core_file(path) if path is not None else None

    def origin(self) -> Origin:
        if self.kind == "live":
            known = self.proc.command_line() if self.proc is not None else None
            # a process on another machine is read through a server, which does not name the machine
            return Origin(known, socket.gethostname() if self.proc is not None else None, int(time.time()),
                          before_pause.read(self._inferior).stopped,
                          self.proc.environment() if self.proc is not None else {})
        core, path = self.core_file(), self.core_path()
        try:
            written = int(os.stat(path).st_mtime) if path is not None else None
        except OSError:
            written = None
        return Origin((core.arguments or None) if core is not None else None, None, written)

    def core_path(self) -> str | None:
        """The core's path as GDB opened it; None for a process."""
        if self.kind != "core":
            return None
        text = output("info files")
        match = _CORE_FILE.search(text)
        # a name of a file may contain such lines; which of them are GDB's cannot be known then
        return match[1] if match and len(_CORE_HEADING.findall(text)) == 1 else None

    def disassemble(self, low: int, high: int) -> list[tuple[int, int, str]]:
        module = self._module_at(low) if self._lazy.unread else None
        if module is not None:
            self._lazy.load(module)  # for the names of the functions and variables that instructions use
        try:
            text = output(f"with disassembly-flavor att -- disassemble /r {low:#x},{high:#x}")
        except gdb.error:
            return []
        return [(int(match[1], 16), len(match[2].split()), match[3])
                for match in map(_INSTRUCTION.match, text.splitlines()) if match]

    def demangle(self, name: str) -> str:
        return (demangle("c++", name) if _PLAIN_NAME.fullmatch(name) else None) or name

    def read_host_file(self, path: str, limit: int) -> bytes | None:
        places = [path]
        if not os.path.isabs(path):
            places = [f"/proc/{self.pid}/cwd/{path}"] if self.kind == "live" else []
        elif self.proc is not None:
            places = [f"/proc/{self.pid}/root{path}", path]
        read = _open_first(places)
        return (read(0, limit) or None) if read is not None else None

    def problems(self) -> tuple[tuple[str, ProblemKind, str], ...]:
        return ()


@contextlib.contextmanager
def session(may_load: bool = True) -> Iterator[GdbTarget]:
    """Open the selected inferior as a target, and restore the selected thread and frame afterwards.

    Python's garbage collector is off meanwhile: a snapshot makes many objects and drops few, so that with thousands of
    threads the collector would take a considerable part of the time.

    :param may_load: see `GdbTarget`.
    """
    thread: gdb.InferiorThread | None = gdb.selected_thread()
    frame: gdb.Frame | None = None
    with contextlib.suppress(gdb.error):
        frame = gdb.selected_frame()
    target = GdbTarget(may_load)
    if target.kind == "live":
        target.budget = Budget(settings().max_pause)
    target.known_code = _known_code(target)
    collects = gc.isenabled()
    gc.disable()
    try:
        with target.budget:
            yield target
    finally:
        if collects:
            gc.enable()
        if thread is not None and thread.is_valid():
            thread.switch()
            if frame is not None and frame.is_valid():
                frame.select()


#: What is known of the code of the process or core that was read last, by its PID and program.
_last_code: dict[tuple[int, str | None], KnownCode] = {}


def _known_code(target: GdbTarget) -> KnownCode:
    key = target.pid, target.executable
    known = _last_code.get(key, KnownCode())
    _last_code.clear()
    _last_code[key] = known
    return known


def _variables(frame: gdb.Frame) -> Iterator[tuple[str, str, str]]:
    """Iterate over a frame's arguments and local variables, innermost block first: name, type and value.

    Values are raw: pretty-printers are other people's code, and may call functions of the target.
    """
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
                text = value.format_string(raw=True, max_elements=10, max_depth=2, repeat_threshold=10)
            except (gdb.error, RuntimeError, UnicodeDecodeError):
                pass
            yield name, kind, text if len(text) <= _MAX_VALUE else f"{text[:_MAX_VALUE]}..."
        if block.function is not None:
            return
        block = block.superblock


def _without_forged(listed: Sequence[tuple[str, Section]]) -> list[tuple[str, Section]]:
    """Drop lines of `info files` that are part of a file's name: a name with a newline may look like other lines.

    :param listed: sections with the paths of their files; the path of the main executable is empty.
    """
    loaded = {decoded(lambda: objfile.filename) for objfile in gdb.objfiles()}  # noqa: B023  # called at once

    def confirmed(path: str, section: Section) -> bool:
        try:
            library = decoded(lambda: gdb.solib_name(section.start))
        except (gdb.error, OverflowError):
            return False
        # the vDSO has symbols, but GDB does not count it as a library
        return path == library if library is not None else path in loaded

    first = {path: section for path, section in reversed(listed) if path}
    if all(confirmed(*each) for each in first.items()):
        return list(listed)
    # the sections of the main executable come first
    main = list(itertools.takewhile(lambda each: not each[0], listed))
    return main + [each for each in listed if each[0] and confirmed(*each)]


def _connection_kind(inferior: gdb.Inferior) -> str:
    connection = getattr(inferior, "connection", None)  # since GDB 12
    if connection is not None:
        return str(connection.type)
    # unlike `info target`, it shows no names of files
    layers = re.findall(r"^  - (\w+) ", output("maintenance print target-stack"), re.MULTILINE)
    return next((layer for layer in ("core", "native") if layer in layers), "remote")


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
