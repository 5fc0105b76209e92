"""One look at a target: all threads, what they hold and wait for, locks, runtimes, deadlocks, problems.

The look is made in the order of what each step needs, cheapest first: registers of all threads, thread
descriptors, futex waits, the Python runtimes and their GILs, native stacks of the waiters, locks, owners, the
wait-for graph. Stacks are merged and named last, and only those that the report shows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from gdbext.analysis.lock_kinds import Context, View, recognise, recognise_address
from gdbext.analysis.stacks import merge
from gdbext.analysis.wait_for import find_deadlocks
from gdbext.cpython.frames import FrameReader, PyStack
from gdbext.cpython.gil import GilState
from gdbext.cpython.objects import Objects
from gdbext.cpython.runtime import (
    InterpreterState,
    PythonRuntime,
    ThreadState,
    find_runtimes,
    iter_interpreters,
    thread_names,
)
from gdbext.errors import GdbextError, RuntimeNotFound, ThreadUnavailable
from gdbext.glibc.futex import FutexWait, Syscall, decode_futex_wait, decode_syscall
from gdbext.glibc.pthread import read_tid
from gdbext.glibc.version import find_c_library
from gdbext.layout.table import Struct
from gdbext.model import (
    DERIVED,
    EXCLUSIVE,
    INFERRED,
    RECORDED,
    SHARED,
    Frame,
    Gil,
    Hold,
    Holder,
    Interpreter,
    Lock,
    NativeFrame,
    Problem,
    Report,
    Runtime,
    StopTheWorld,
    TargetInfo,
    Thread,
    Wait,
    Waiter,
)
from gdbext.native.elf import build_id_at, find_dynamic_symbol, first_page
from gdbext.native.names import public_name
from gdbext.native.unwind import Unwinder
from gdbext.target.modules import ModuleMap
from gdbext.target.protocol import Module, Symbol, Target, ThreadRef

#: Most native frames of one thread.
MAX_NATIVE_FRAMES = 20_000
#: Most bytes of a stack that are searched for the address of a lock.
MAX_STACK_SCAN = 1 << 20
#: How much of a stack is fetched in one read.
_STACK_PREFETCH = 8192
#: How many frames of a waiter may be inside the C library before the one that called it.
_LIBC_DEPTH = 6
#: How far a file's first section may lie from where the file is mapped, in bytes.
_NEARBY = 1 << 16
_PYTHON_PROGRAM = re.compile(r"^python[0-9.]*[a-z]*(-dbg)?$")
_PYTHON_FUNCTION = re.compile(r"^_?Py[A-Z_]|^_Py|^_PyEval_EvalFrameDefault")
_PYTHON_SOURCE = re.compile(r"(^|/)(Python|Objects|Modules|Parser|Programs|Include)/(internal/|cpython/)?\w+\.[ch]$")
_CALLEE_SAVED = ("rbx", "rbp", "r12", "r13", "r14", "r15")


class _Seen:
    """What is known of one thread while the snapshot is made."""

    def __init__(self, ref: ThreadRef) -> None:
        self.ref = ref
        self.registers: Mapping[str, int] = {}
        self.pthread = 0
        self.tid: int | None = None
        self.call: Syscall | None = None
        self.futex: FutexWait | None = None
        self.tstates: list[tuple[_Python, ThreadState]] = []
        self.tstate: ThreadState | None = None
        self.python: _Python | None = None
        self.python_name: str | None = None
        self.native: list[tuple[int, int]] | None = None
        self.wait: Wait | None = None
        self.holds: list[Hold] = []
        self.unavailable = False

    @property
    def number(self) -> int:
        return self.ref.number


class _Python:
    """A runtime with what is read from it."""

    def __init__(self, target: Target, runtime: PythonRuntime) -> None:
        self.runtime = runtime
        self.objects = Objects(target.memory, runtime.layouts)
        self.frames = FrameReader(target.memory, runtime.layouts, self.objects)
        self.interpreters: list[InterpreterState] = []
        self.eval_range: tuple[int, int] | None = None
        self.finalizing: int | None = None


class _GilSeen:
    """A distinct GIL: interpreters that share it share this."""

    def __init__(self, lock_id: str, state: GilState, python: _Python) -> None:
        self.lock = lock_id
        self.state = state
        self.python = python
        self.holder: int | None = None
        self.orphan: str | None = None
        self.waiters: list[int] = []


class TargetWithTypes(Target, Protocol):
    """A target whose debug information can be asked."""

    def debug_structs(self, module: Module) -> Mapping[str, Struct]:
        """CPython's structures as the module's debug information describes them; empty where it has none."""
        ...


class Snapshot:
    """A look at a target, which must stay stopped while this lives.

    :raises GdbextError: nothing at all can be told: all threads run, or the architecture is unknown.
    """

    def __init__(self, target: TargetWithTypes) -> None:
        if target.architecture != "x86_64":
            raise GdbextError(f"the target's architecture is {target.architecture}",
                              "only x86-64 is decoded so far")
        self._target = target
        self._memory = target.memory
        self._problems: list[Problem] = [Problem(*problem) for problem in target.problems()]
        self._notes: list[str] = []
        self._modules = list(target.modules())
        #: What keeps the report from being whole, for a user who must do something about it first.
        self.incomplete: GdbextError | None = None
        if not self._modules:
            self._fails("the executable is not known to GDB, so neither libraries nor Python can be told",
                        "give it too, as in `gdb EXECUTABLE CORE`")
        self._ranges = ModuleMap(self._modules)
        self._foreign = self._leave_out_wrong_files()
        self._library = find_c_library(self._memory, self._modules, target.architecture)
        if self._library.layouts is None:
            self._problem("C library", "not applicable", f"{self._library.why}; native locks are not decoded")
        self._unwinder = Unwinder(self._memory, self._modules)
        self._threads = [_Seen(ref) for ref in target.threads()]
        self._by_number = {seen.number: seen for seen in self._threads}
        self._stacks: dict[int, tuple[tuple[Frame, ...], str | None]] = {}
        self._read_threads()
        self._pythons = self._read_runtimes()
        self._interpreter_code = _InterpreterCode(self._ranges, [python.runtime.module for python in self._pythons],
                                                  self._symbol)
        self._gils = self._read_gils()
        self._locks: dict[str, Lock] = {}
        self._views: dict[str, View] = {}
        self._view_of_wait: dict[tuple[object, ...], View] = {}
        self._names_of_top: dict[tuple[int, ...], list[str]] = {}
        self._native_frames: dict[tuple[int, bool], NativeFrame] = {}
        self._read_waits()
        self._match_owners()

    # -- threads ---------------------------------------------------------------------------------------------

    def _problem(self, where: str, what: str, why: str) -> None:
        self._problems.append(Problem(where, what, why))

    def _fails(self, what: str, hint: str, *, told: bool = False) -> None:
        self.incomplete = self.incomplete or GdbextError(what, hint)
        if not told:
            self._problem("target", "not applicable", what)

    def _leave_out_wrong_files(self) -> bool:
        """Drop the modules of a core whose files are not those that it was made with; whether there are any.

        Their symbols, frame descriptions and read-only data would be those of another build.
        """
        starts: dict[str, list[int]] = {}
        for start, path in self._target.mapped_files():
            starts.setdefault(path.rpartition("/")[2], []).append(start)
        everywhere = [at for found in starts.values() for at in found]
        wrong = []
        for module in self._modules:
            if not module.sections:
                continue
            page = first_page(module)
            # a module may be known by a link's name (libz.so.1), the core has the file's (libz.so.1.2.13)
            named = starts.get(module.name) or [at for at in everywhere if abs(at - page) <= _NEARBY]
            if not named or not module.path.startswith("/"):  # the vdso comes from no file
                continue
            start = min(named, key=lambda at: abs(at - page))
            loaded, file = build_id_at(self._memory, start), self._target.file_build_id(module)
            if loaded is not None and file is not None and loaded != file:
                why = f"the core was made with build {loaded}, the file {module.path} is build {file}"
            elif page < start:  # a debugger shifts a file whose `.dynamic` is not where the process had it
                why = f"the file {module.path} does not fit where the core has it mapped"
            else:
                continue
            wrong.append(module)
            self._problem(module.name, "not applicable", why)
        if wrong:
            names = ", ".join(module.name for module in wrong[:3]) + (" and others" if len(wrong) > 3 else "")
            self._fails(f"{names}: not the files that the core was made with",
                        "use `set sysroot DIR` or `set solib-search-path DIR` before the core is loaded", told=True)
            self._modules = [module for module in self._modules if not any(module is other for other in wrong)]
        return bool(wrong)

    def _read_threads(self) -> None:
        for seen in self._threads:
            try:
                seen.registers = self._target.registers(seen.ref)
            except ThreadUnavailable as error:
                seen.unavailable = True
                self._problem(f"thread {seen.number}", "unreadable", str(error))
                continue
            seen.call = decode_syscall(seen.registers)
            seen.futex = decode_futex_wait(seen.call)
            seen.pthread = seen.registers.get("fs_base", 0)
            self._memory_prefetch(seen.registers["rsp"], _STACK_PREFETCH)
            if self._library.layouts is not None and seen.pthread:
                try:
                    seen.tid = read_tid(self._memory, self._library.layouts, seen.pthread) or None
                except GdbextError:
                    continue  # told below, together with the others
        if self._threads and all(seen.unavailable for seen in self._threads):
            raise ThreadUnavailable("no thread has registers: all of them run")
        self._match_tids()
        self._number_of_pthread = {seen.pthread: seen.number for seen in self._threads if seen.pthread}

    def _match_tids(self) -> None:
        """Which thread a TID in an owner field means."""
        self._number_of_tid = {seen.tid: seen.number for seen in self._threads if seen.tid}
        untold = sum(seen.tid is None for seen in self._threads)
        same_namespace = bool(self._number_of_tid) and all(seen.tid in (None, seen.ref.lwp) for seen in self._threads)
        if same_namespace:
            # the debugger's own numbers will do for the threads that do not tell theirs
            self._number_of_tid.update((seen.ref.lwp, seen.number) for seen in self._threads)
        elif untold and self._library.layouts is not None:
            self._problem("threads", "unreadable", f"{untold} of {len(self._threads)} threads do not tell their own "
                          "TID, so owners that are recorded as TIDs may not be found")
        self._all_tids_known = same_namespace or not untold

    def _memory_prefetch(self, address: int, size: int) -> None:
        prefetch = getattr(self._memory, "prefetch", None)
        if prefetch is not None:
            prefetch(address, size)

    def _native(self, seen: _Seen) -> list[tuple[int, int]]:
        """(pc, sp) of a thread's native frames."""
        if seen.native is None:
            registers = seen.registers
            try:
                seen.native = self._unwinder.unwind(registers["rip"], registers["rsp"], registers.get("rbp", 0),
                                                    MAX_NATIVE_FRAMES)
            except GdbextError:
                if self._foreign:  # the debugger would go by the wrong files
                    seen.native = [(registers["rip"], registers["rsp"])]
                    return seen.native
                try:
                    seen.native = self._target.unwind(seen.ref, MAX_NATIVE_FRAMES)
                except GdbextError as error:
                    self._problem(f"thread {seen.number}", "unreadable", f"its native stack: {error}")
                    seen.native = [(registers["rip"], registers["rsp"])]
        return seen.native

    # -- Python ----------------------------------------------------------------------------------------------

    def _read_runtimes(self) -> list[_Python]:
        try:
            runtimes, troubles = find_runtimes(
                self._memory, self._modules, self._target.architecture, set(self._number_of_pthread),
                self._target.debug_structs)
        except RuntimeNotFound:
            return []
        for trouble in troubles:
            self._fails(str(trouble), trouble.hint)
        pythons = []
        for runtime in runtimes:
            python = _Python(self._target, runtime)
            if runtime.note:
                self._notes.append(runtime.note)
            try:
                python.interpreters = list(iter_interpreters(self._memory, runtime))
            except GdbextError as error:
                self._problem(f"Python {runtime.version}", "unreadable", f"its interpreters: {error}")
            if not python.interpreters:
                self._problem(f"Python {runtime.version}", "not applicable",
                              "the runtime is not initialised, or already finalised")
            self._link_threads(python)
            python.finalizing = self._finalizing(python)
            pythons.append(python)
        return pythons

    def _finalizing(self, python: _Python) -> int | None:
        """The thread that shuts an interpreter down; the others then end or hang when they want the GIL."""
        try:
            tstate = python.runtime.finalizing(self._memory)
        except GdbextError:
            return None
        number = next((seen.number for seen in self._threads for _, other in seen.tstates
                       if other.address == tstate), None)
        if number is not None:
            self._notes.append(f"Python {python.runtime.version} is finalising, in thread {number}: threads that want "
                               "the GIL end or stand still on purpose")
        return number

    def _link_threads(self, python: _Python) -> None:
        by_pthread = {seen.pthread: seen for seen in self._threads if seen.pthread}
        for interpreter in python.interpreters:
            if interpreter.problem:
                self._problem(f"interpreter {interpreter.id}", "unreadable", interpreter.problem)
            for tstate in interpreter.threads:
                seen = by_pthread.get(tstate.thread_id)
                if seen is not None:
                    seen.tstates.append((python, tstate))
            try:
                names = thread_names(self._memory, python.runtime.layouts, python.objects, interpreter.address)
            except GdbextError as error:
                self._problem(f"interpreter {interpreter.id}", "unreadable", f"names of Python threads: {error}")
                continue
            for pthread, name in names.items():
                seen = by_pthread.get(pthread)
                if seen is not None and seen.python_name is None:
                    seen.python_name = name

    def _read_gils(self) -> list[_GilSeen]:
        found: dict[int, _GilSeen] = {}
        tstate_owner = {tstate.address: seen.number for seen in self._threads for _, tstate in seen.tstates}
        for python in self._pythons:
            for interpreter in python.interpreters:
                state = interpreter.gil
                if state is None or state.address in found:
                    continue
                gil = found[state.address] = _GilSeen(f"gil:{len(found)}", state, python)
                self._check_holder(gil)
                if state.holder is not None:
                    gil.holder = tstate_owner.get(state.holder)
                    if gil.holder is None:
                        known = any(tstate.address == state.holder for other in python.interpreters
                                    for tstate in other.threads)
                        gil.orphan = "thread exited" if known else None
                        if not known:
                            self._problem(gil.lock, "not recorded",
                                          f"the thread state {state.holder:#x} that holds it is in no list")
        for seen in self._threads:
            self._choose_tstate(seen, {gil.state.holder for gil in found.values()})
        return list(found.values())

    def _check_holder(self, gil: _GilSeen) -> None:
        # since 3.13 each thread state notes itself whether it holds the GIL
        noted = {tstate.address for interpreter in gil.python.interpreters for tstate in interpreter.threads
                 if tstate.holds_gil and interpreter.gil is not None and interpreter.gil.address == gil.state.address}
        if noted and gil.state.holder is not None and gil.state.holder not in noted:
            self._problem(gil.lock, "ambiguous", f"the GIL names the thread state {gil.state.holder:#x} as its holder, "
                          f"{', '.join(map(hex, sorted(noted)))} claims to hold it")

    @staticmethod
    def _choose_tstate(seen: _Seen, holders: Collection[int | None]) -> None:
        # a thread may have a state in several interpreters; the one it runs in holds the GIL or is attached
        if not seen.tstates:
            return
        chosen = next((pair for pair in seen.tstates if pair[1].address in holders), None)
        chosen = chosen or next((pair for pair in seen.tstates if pair[1].state == "attached"), seen.tstates[-1])
        seen.python, seen.tstate = chosen

    # -- waits and locks -------------------------------------------------------------------------------------

    def _read_waits(self) -> None:
        sleepers: dict[int, int] = {}
        for seen in self._threads:
            if seen.futex is not None:
                sleepers[seen.futex.address] = sleepers.get(seen.futex.address, 0) + 1
        self._sleepers = sleepers
        for seen in self._threads:
            if seen.futex is not None:
                if not self._waits_for_gil(seen, seen.futex):
                    self._read_lock(seen, seen.futex)
            elif seen.tstate is not None and (seen.call is None or not seen.call.blocked):
                self._between_gil_waits(seen)

    def _waits_for_gil(self, seen: _Seen, wait: FutexWait) -> bool:
        for gil in self._gils:
            if gil.holder == seen.number or gil.state.state == "disabled":
                continue
            if gil.state.is_waited_for(wait.address, wait.timed, self._static_name(gil, wait.address)):
                # its wait has a timeout, but the code only asks for the GIL again and repeats it
                gil.waiters.append(seen.number)
                seen.wait = Wait(gil.lock, EXCLUSIVE, False)
                return True
        return False

    def _between_gil_waits(self, seen: _Seen) -> None:
        """A thread that wants the GIL wakes every 5 ms, asks for it and waits again: it may be caught awake."""
        for gil in self._gils:
            if gil.state.state != "held" or gil.holder == seen.number:
                continue
            call = seen.call
            if seen.tstate is not None and seen.python is gil.python and seen.tstate.gil_requested:
                seen.wait = Wait(gil.lock, EXCLUSIVE, False)  # CPython 3.15 and later record it
            elif call is not None and call.name in ("futex", None):
                # the kernel has just let it go, and it has not run a single instruction since: it still waits
                address = call.arguments[0]
                if gil.state.is_waited_for(address, call.arguments[3] != 0, self._static_name(gil, address)):
                    seen.wait = Wait(gil.lock, EXCLUSIVE, False)
            elif call is None and seen.python is gil.python and self._in_take_gil(seen):
                seen.wait = Wait(gil.lock, EXCLUSIVE, False, DERIVED, "it runs take_gil, and another holds the GIL")
            if seen.wait is not None:
                gil.waiters.append(seen.number)
                return

    def _static_name(self, gil: _GilSeen, address: int) -> str | None:
        # CPython 3.6 keeps its GIL in static variables, which only symbols tell apart
        if not gil.state.shared or self._ranges.find(address) is not gil.python.runtime.module:
            return None
        return self._symbol(address, 0).function

    def _in_take_gil(self, seen: _Seen) -> bool:
        for i, (pc, _) in enumerate(self._native(seen)[:_LIBC_DEPTH + 2]):
            if self._interpreter_code[pc]:
                function = self._symbol(pc, i).function
                return function is not None and public_name(function) == "take_gil"
        return False

    def _context(self) -> Context | None:
        if self._library.layouts is None:
            return None
        return Context(self._memory, self._library.layouts, self._sleepers, self._number_of_pthread)

    def _read_lock(self, seen: _Seen, wait: FutexWait) -> None:
        context = self._context()
        if context is None:
            view = View("futex", wait.address, "waited for", why="the C library's locks are not decoded")
        else:
            view = self._recognised(context, wait, self._functions_on_top(seen))
        lock_id = f"{view.kind}:{view.address:#x}"
        self._views.setdefault(lock_id, view)
        seen.wait = Wait(lock_id, view.mode, wait.timed)

    def _recognised(self, context: Context, wait: FutexWait, functions: list[str]) -> View:
        key = (wait, *functions)
        view = self._view_of_wait.get(key)
        if view is None:
            view = self._view_of_wait[key] = recognise(context, wait, functions)
        return view

    def _functions_on_top(self, seen: _Seen) -> list[str]:
        """Public names of the C library's functions on top of a stack, as far as symbols tell."""
        top = tuple([pc for pc, _ in self._native(seen)[:_LIBC_DEPTH]])
        names = self._names_of_top.get(top)
        if names is None:
            names = self._names_of_top[top] = []
            for i, pc in enumerate(top):
                module = self._ranges.find(pc)
                if module is None or module not in self._library.modules:
                    break
                function = self._symbol(pc, i).function
                if function is not None:
                    names.append(public_name(function))
        return names

    def _match_owners(self) -> None:
        for lock_id, view in list(self._views.items()):
            self._locks[lock_id] = self._lock(lock_id, view)
        for gil in self._gils:
            holders = (Holder(gil.holder, EXCLUSIVE, RECORDED),) if gil.holder is not None else ()
            self._locks[gil.lock] = Lock(
                gil.lock, "gil", gil.state.address, None, gil.state.state, holders,
                tuple(Waiter(number, EXCLUSIVE) for number in gil.waiters), (), gil.orphan)
        for lock in self._locks.values():
            for holder in lock.holders:
                self._by_number[holder.thread].holds.append(Hold(lock.id, holder.mode, holder.evidence, holder.why))

    def _lock(self, lock_id: str, view: View) -> Lock:
        waiters = tuple(Waiter(seen.number, seen.wait.mode) for seen in self._threads
                        if seen.wait is not None and seen.wait.lock == lock_id)
        holders: tuple[Holder, ...] = ()
        candidates: tuple[int, ...] = ()
        orphan, why = None, view.why
        if view.owner_thread is not None:
            holders = (Holder(view.owner_thread, EXCLUSIVE, RECORDED),)
        elif view.owner is not None:
            number = self._number_of_tid.get(view.owner)
            if number is not None:
                holders = (Holder(number, EXCLUSIVE, RECORDED),)
            elif view.elsewhere:
                why = f"its owner has TID {view.owner}, which is no thread of this process; the lock is shared"
            elif self._all_tids_known:
                orphan = self._orphan(view.owner)
                why = f"its owner had TID {view.owner}"
            else:
                why = f"its owner has TID {view.owner}; not all threads tell theirs"
        elif view.readers:
            holders, candidates, why = self._readers(view, {waiter.thread for waiter in waiters})
        return Lock(lock_id, view.kind, view.address, self._lock_name(view, waiters), view.state, holders, waiters,
                    candidates, orphan, view.wait_for, why)

    def _orphan(self, owner: int) -> str:
        # a child of fork has the thread that called fork only; the locks of the others stay as they were
        status = self._target.read_host_file(f"/proc/{owner}/status", 4096) if self._target.kind == "live" else None
        if status is not None and f"\nTgid:\t{self._target.pid}\n".encode() not in status:
            return "left behind by fork"
        return "thread exited"

    def _readers(self, view: View, waiters: Collection[int]) -> tuple[tuple[Holder, ...], tuple[int, ...], str]:
        """Who may hold a lock that counts its readers and names none."""
        found = tuple(seen.number for seen in self._threads
                      if seen.number not in waiters and not seen.unavailable and self._mentions(seen, view.address))
        count = view.readers
        said = f"{count} reader{'s' if count != 1 else ''} counted, none recorded"
        if len(found) == count and all(not seen.unavailable for seen in self._threads):
            on_stack = "thread has" if count == 1 else "threads have"
            why = f"{said}; just {count} {on_stack} the lock's address on the stack"
            return tuple(Holder(number, SHARED, INFERRED, why) for number in found), (), why
        on_stack = "thread has" if len(found) == 1 else "threads have"
        return (), found, f"{said}; {len(found) or 'no'} {on_stack} the lock's address on the stack"

    def _mentions(self, seen: _Seen, address: int) -> bool:
        try:
            saved = self._target.registers(seen.ref, _CALLEE_SAVED)
        except GdbextError:
            saved = {}
        if address in saved.values():
            return True
        low = seen.registers["rsp"] & ~7
        high = min(self._native(seen)[-1][1] + 256, low + MAX_STACK_SCAN)
        wanted = address.to_bytes(8, "little")
        for at in range(low, high, 4096):
            try:
                data = self._memory.read(at, min(4096, high - at))
            except GdbextError:
                return False
            place = data.find(wanted)
            while place >= 0:
                if place & 7 == 0:
                    return True
                place = data.find(wanted, place + 1)
        return False

    def _symbol(self, address: int, index: int) -> Symbol:
        """What is at an address; of a caller (index above 0) it is the call before the return address that counts."""
        if self._foreign:
            module = self._ranges.find(address)
            if module is not None and not any(module is other for other in self._modules):
                return Symbol(None)
        return self._target.symbol(address if index == 0 else max(address - 1, 0))

    def _lock_name(self, view: View, waiters: Sequence[Waiter]) -> str | None:
        module = self._ranges.find(view.address)
        if module is not None:
            symbol = self._symbol(view.address, 0).function
            return f"{symbol} in {module.name}" if symbol else f"in {module.name}"
        if view.kind == "thread-exit":
            return None
        for waiter in waiters:
            for pc, _ in self._native(self._by_number[waiter.thread])[:_LIBC_DEPTH + 2]:
                module = self._ranges.find(pc)
                if module is not None and module not in self._library.modules:
                    return f"in {module.name}"
        return None

    # -- stacks ----------------------------------------------------------------------------------------------

    def stack(self, number: int) -> tuple[tuple[Frame, ...], str | None]:
        """The merged stack of a thread, innermost first, and why it could not be merged (None where it was)."""
        known = self._stacks.get(number)
        if known is None:
            known = self._stacks[number] = self._merged(self._by_number[number])
        return known

    def _merged(self, seen: _Seen) -> tuple[tuple[Frame, ...], str | None]:
        if seen.unavailable:
            return (), None
        native = self._native(seen)
        python = self._python_stack(seen)
        items, unmerged = merge(native, python, lambda pc: self._is_eval(seen, pc),
                                self._interpreter_code.__getitem__)
        frames: list[Frame] = []
        for item in items:
            frames.append(self._native_frame(native[item][0], item) if isinstance(item, int) else item)
        return tuple(frames), unmerged

    def _python_stack(self, seen: _Seen) -> PyStack:
        """The Python stack of a thread, in all interpreters that it is in: one may have called into another."""
        stacks = []
        for python, tstate in seen.tstates:
            try:
                stacks.append(python.frames.stack(tstate.address))
            except GdbextError as error:
                stacks.append(PyStack((), (), str(error)))
        if len(stacks) > 1:
            # the stack grows down, so the innermost call has the lowest anchor; without anchors the thread state
            # that runs now comes first
            order = [(0 if pair[1] is seen.tstate else 1) for pair in seen.tstates]
            stacks = [stack for _, stack in sorted(zip(order, stacks), key=lambda pair: (
                min((anchor for _, anchor in pair[1].calls if anchor is not None), default=0), pair[0]))]
        problems = [stack.problem for stack in stacks if stack.problem]
        if problems:
            self._problem(f"thread {seen.number}", "unreadable", f"its Python stack: {'; '.join(problems)}")
        return PyStack(tuple(frame for stack in stacks for frame in stack.frames),
                       tuple(call for stack in stacks for call in stack.calls), "; ".join(problems) or None)

    def native_top(self, number: int) -> NativeFrame | None:
        """The innermost native frame of a thread, the interpreter's own too."""
        seen = self._by_number[number]
        return None if seen.unavailable else self._native_frame(seen.registers["rip"], 0)

    def _native_frame(self, pc: int, index: int) -> NativeFrame:
        known = self._native_frames.get((pc, index == 0))
        if known is None:
            symbol = self._symbol(pc, index)
            function = public_name(symbol.function) if symbol.function else None
            module = self._ranges.find(pc)
            known = self._native_frames[(pc, index == 0)] = NativeFrame(
                function, module.name if module else None, pc, symbol.file, symbol.line)
        return known

    def _is_eval(self, seen: _Seen, pc: int) -> bool:
        python = seen.python
        if python is None:
            return False
        if python.eval_range is None:
            symbol = find_dynamic_symbol(self._memory, python.runtime.module, "_PyEval_EvalFrameDefault")
            python.eval_range = (symbol.address, symbol.address + symbol.size) if symbol else (0, 0)
        low, high = python.eval_range
        if low <= pc < high:
            return True
        # the part of it that the compiler thought to be run rarely lies elsewhere, and only .symtab names it
        return (self._ranges.find(pc) is python.runtime.module
                and (self._symbol(pc, 1).function or "").startswith("_PyEval_EvalFrameDefault"))

    # -- questions of the commands ---------------------------------------------------------------------------

    def numbers(self) -> list[int]:
        """Numbers of all threads, ascending."""
        return [seen.number for seen in self._threads]

    def gils(self) -> list[Lock]:
        """The distinct GILs of the process."""
        return [self._locks[gil.lock] for gil in self._gils]

    def locks(self) -> list[Lock]:
        """All locks that a thread waits for, and the GILs."""
        return list(self._locks.values())

    # -- the report ------------------------------------------------------------------------------------------

    def report(self, stacks: Callable[[Thread], bool]) -> Report:
        """All that was found out; only threads that `stacks` chooses come with their stacks."""
        threads = [self._thread(seen) for seen in self._threads]
        deadlocks = find_deadlocks(threads, self._locks.values())
        involved = {number for deadlock in deadlocks for number in (*deadlock.threads, *deadlock.stuck_behind)}
        filled = []
        for thread in threads:
            if thread.number in involved or stacks(thread):
                frames, unmerged = self.stack(thread.number)
                thread = replace(thread, stack=frames, unmerged=unmerged)
                if unmerged:
                    self._problem(f"thread {thread.number}", "not applicable",
                                  f"Python and native frames are not interleaved: {unmerged}")
            filled.append(thread)
        info = TargetInfo(self._target.kind, self._target.pid, self._target.executable, self._target.architecture,
                          self._library.name)
        return Report(info, tuple(self._runtime(python) for python in self._pythons), tuple(filled),
                      tuple(self._locks.values()), deadlocks, tuple(self._problems), tuple(self._notes),
                      self._no_verdict())

    def _no_verdict(self) -> str | None:
        if self.incomplete is not None:
            return str(self.incomplete)
        if self._library.layouts is None:
            return self._library.why
        unread = [seen.number for seen in self._threads if seen.unavailable]
        return f"{len(unread)} of {len(self._threads)} threads cannot be read" if unread else None

    def _thread(self, seen: _Seen) -> Thread:
        status, syscall = "unknown", None
        if not seen.unavailable:
            # a thread that only repeats its wait for the GIL is blocked also in the moment between two of them
            status = "blocked" if seen.wait is not None or (seen.call and seen.call.blocked) else "running"
            if seen.call is not None and status == "blocked":
                syscall = seen.call.name or ("futex" if seen.wait is not None else None)
        state = seen.tstate.state if seen.tstate is not None else None
        if seen.tstate is not None and state is None:
            holding = any(gil.state.holder == seen.tstate.address for gil in self._gils)
            state = "attached" if holding else "detached"
        return Thread(seen.number, seen.ref.lwp, seen.tid, seen.ref.name, seen.python_name,
                      seen.tstate.address if seen.tstate is not None else None, state, status, syscall,
                      tuple(seen.holds), seen.wait)

    def _runtime(self, python: _Python) -> Runtime:
        by_address = {gil.state.address: gil for gil in self._gils}
        number_of = {tstate.address: seen.number for seen in self._threads for _, tstate in seen.tstates}
        interpreters = []
        for interpreter in python.interpreters:
            seen = by_address.get(interpreter.gil.address) if interpreter.gil is not None else None
            if seen is None:
                gil = Gil("", 0, "unknown")
            else:
                gil = Gil(seen.lock, seen.state.address, seen.state.state, seen.holder, RECORDED,
                          tuple(seen.waiters), interpreter.drop_requested, seen.orphan)
            interpreters.append(Interpreter(interpreter.id, interpreter.address, gil,
                                            self._stop_the_world(interpreter, number_of)))
        runtime = python.runtime
        return Runtime(runtime.version, runtime.build, runtime.address, runtime.layouts.source, runtime.module.name,
                       tuple(interpreters), python.finalizing)

    @staticmethod
    def _stop_the_world(interpreter: InterpreterState, number_of: Mapping[int, int]) -> StopTheWorld:
        if interpreter.stop_the_world is None or not interpreter.stop_the_world[0]:
            return StopTheWorld(False)
        _, stopped, requester = interpreter.stop_the_world
        waiting = () if stopped else tuple(sorted(
            number_of[tstate.address] for tstate in interpreter.threads
            if tstate.state == "attached" and tstate.address != requester and tstate.address in number_of))
        return StopTheWorld(True, number_of.get(requester), waiting)

    def lock_at(self, address: int, kind: str | None = None) -> tuple[Lock | None, str | None]:
        """The lock at an address, or that has a member there, and what to tell the user about the address.

        :param kind: what the user takes it for, if they said.
        :raises MemoryUnreadable: the address is not readable.
        """
        self._memory.read(address, 4)
        layouts = self._library.layouts
        sizes = {"rwlock": "pthread_rwlock_t", "mutex": "pthread_mutex_t", "condvar": "pthread_cond_t",
                 "semaphore": "sem_t"}
        for lock in self._locks.values():
            size = 8
            if lock.kind == "gil":
                size = next(gil.state.size for gil in self._gils if gil.lock == lock.id)
            elif layouts is not None and lock.kind in sizes:
                size = layouts[sizes[lock.kind]].size
            if lock.address <= address < lock.address + size:
                note = None
                if address != lock.address:
                    note = (f"{address:#x} is {self._member(lock, address)} of the {lock.kind} at {lock.address:#x}")
                return lock, note
        context = self._context()
        if context is None:
            return None, None
        view, note = recognise_address(context, address, kind)
        if view is None:
            return None, note
        lock_id = f"{view.kind}:{view.address:#x}"
        self._views[lock_id] = view
        self._locks[lock_id] = self._lock(lock_id, view)
        return self._locks[lock_id], note

    def _member(self, lock: Lock, address: int) -> str:
        layouts = self._library.layouts
        names = {"rwlock": "pthread_rwlock_t", "mutex": "pthread_mutex_t"}
        if layouts is not None and lock.kind in names:
            for name, member in layouts[names[lock.kind]].fields.items():
                if lock.address + member.offset == address:
                    return name
        return f"byte {address - lock.address}"


class _InterpreterCode(dict[int, bool]):
    """Whether a program counter lies in the interpreter; a dict, since it is asked for each native frame."""

    def __init__(self, ranges: ModuleMap, modules: Sequence[Module], symbol: Callable[[int, int], Symbol]) -> None:
        super().__init__()
        self._ranges = ranges
        self._modules = modules
        self._symbol = symbol

    def __missing__(self, pc: int) -> bool:
        known = self[pc] = self._is_interpreter(pc)
        return known

    def _is_interpreter(self, pc: int) -> bool:
        module = self._ranges.find(pc)
        if module is None or not self._modules:
            return False
        if module.is_main and _PYTHON_PROGRAM.match(module.name):
            return True  # the whole interpreter, or the small program that only calls libpython
        if not any(module is other for other in self._modules):
            return False
        if not module.is_main:
            return True
        # a program that Python is linked into: its own functions are to be seen
        symbol = self._symbol(pc, 1)
        return (symbol.function is not None and _PYTHON_FUNCTION.match(symbol.function) is not None
                or symbol.file is not None and _PYTHON_SOURCE.search(symbol.file) is not None)
