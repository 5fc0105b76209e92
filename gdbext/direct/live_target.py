"""A running process as a `Target`, read by /proc alone: it is not stopped.

Threads that sleep have all that matters in /proc: the system call with its arguments, the stack pointer and the program
counter. The others are stopped for a moment each, if that is allowed. `LiveTarget.moved` says which threads have run while
the process was read.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Collection, Iterable, Mapping, Sequence

from gdbext import arch
from gdbext.arch.protocol import Unwinder
from gdbext.direct.process_memory import ProcessMemory
from gdbext.direct.robust_list import robust_list
from gdbext.direct.stopping import StoppedThreads
from gdbext.direct.tasks import Task, read_tasks
from gdbext.elf.headers import Read, opened_file
from gdbext.elf.mapped import MappedModule, mapped_modules
from gdbext.errors import GdbextError, NoTarget, ThreadUnavailable
from gdbext.inferior.address_space import Region
from gdbext.inferior.cache import CachedMemory
from gdbext.inferior.modules import ModuleMap
from gdbext.inferior.proc import Proc
from gdbext.inferior.protocol import Memory, Module, Origin, SignalInfo, Symbol, ThreadRef
from gdbext.layout.table import Struct
from gdbext.model import ProblemKind, TargetKind
from gdbext.remembered import remembered

#: Most frames that are compared to see whether a thread that has run in between is where it was.
_MAX_FRAMES = 1000
#: How often, and in which intervals in seconds, a thread is looked at that wakes up now and then.
_LOOKS, _INTERVAL = 4, 0.0005
#: How often threads are stopped before the memory is read: a process may begin new ones meanwhile.
_ROUNDS = 10


class LiveTarget:
    """A running process.

    :param may_stop: whether threads may be stopped for a moment.
    :param moving: threads that do not sleep long enough to be read, by TID; None for all.
    :raises NoTarget: the process does not exist.
    :raises PermissionError: we may not read it.
    """

    kind: TargetKind = "live"

    def __init__(self, pid: int, may_stop: bool = True, moving: Collection[int] | None = ()) -> None:
        self.pid = pid
        self.architecture = os.uname().machine
        self._cpu = arch.of(self.architecture)
        self._may_stop = may_stop
        self._raw = ProcessMemory(pid)
        self.memory: Memory = CachedMemory(self._raw)
        self.proc: Proc | None = Proc(pid)
        self.stopped = StoppedThreads()
        # threads that slept until they were stopped, for registers that /proc does not show, or did not
        self._kept: dict[int, bool] = {}
        try:
            self.executable: str | None = os.readlink(f"/proc/{pid}/exe")
            # before memory is read: what a thread changes until it is stopped would contradict its registers
            self.tasks = self._settled(moving)
        except FileNotFoundError:
            raise NoTarget(f"there is no process {pid}") from None
        self._now: dict[int, Task] = {}
        self._numbers = {number: lwp for number, lwp in enumerate(self._ordered(), 1)}
        self._mapped: list[MappedModule] | None = None
        names = self._cpu.system_call_names()
        self._robust_list = next((number for number, name in names.items() if name == "get_robust_list"), None)

    def _settled(self, moving: Collection[int] | None) -> Mapping[int, Task]:
        """Read the threads, and stop those that run, and all that are `moving`."""
        tasks = _settled_tasks(self.pid)
        for _ in range(_ROUNDS if self._may_stop else 0):
            wanted = {tid for tid, task in tasks.items() if task.call is None or moving is None or tid in moving}
            if wanted <= set(self.stopped.current):
                break
            self.stopped.stop(wanted)
            # also the threads that began meanwhile
            tasks = _settled_tasks(self.pid, tasks if moving is not None else None)
        return tasks

    def _ordered(self) -> list[int]:
        """The threads in a debugger's order: the main thread first, then as they were created."""
        return sorted(self.tasks, key=lambda lwp: (lwp != self.pid, lwp))

    # -- threads -------------------------------------------------------------------------------------------------

    def threads(self) -> list[ThreadRef]:
        return [ThreadRef(number, lwp, self.tasks[lwp].name) for number, lwp in self._numbers.items()]

    def registers(self, thread: ThreadRef, names: Sequence[str] = ()) -> dict[str, int]:
        task = self.tasks[thread.lwp]
        if task.call is not None and thread.lwp not in self.stopped.current and not set(names) - self._cpu.OF_SLEEPERS:
            return self._cpu.sleeping_registers(task.call)
        stopped = self._stopped_registers(thread, task)
        return {name: stopped[name] for name in names or self._cpu.AT_STOP if name in stopped}

    def _stopped_registers(self, thread: ThreadRef, task: Task) -> dict[str, int]:
        """Stop a thread and read its registers.

        :raises ThreadUnavailable: it cannot be stopped.
        """
        if not self._may_stop:
            raise ThreadUnavailable("the thread runs")
        try:
            is_late = thread.lwp not in self.stopped.current
            if thread.lwp not in self.stopped.stop((thread.lwp,)):
                raise ThreadUnavailable("the thread could not be stopped")
            if is_late:
                self._kept[thread.lwp] = self._slept_until_stopped(task)
        except OSError as error:
            raise ThreadUnavailable(f"the thread cannot be stopped: {error.strerror}") from None
        found = self._cpu.user_registers(self.stopped.registers(thread.lwp))
        if not found:
            raise ThreadUnavailable("the thread has ended")
        return found

    def _slept_until_stopped(self, task: Task) -> bool:
        """Whether a thread has slept since it was read, until it was stopped; the stop itself makes it run once."""
        now = read_tasks(self.pid, (task.tid,)).get(task.tid)
        return (task.call is not None and task.runs is not None and now is not None and now.runs is not None
                and now.runs - task.runs <= 1)

    def robust_list(self, thread: ThreadRef) -> int | None:
        return robust_list(thread.lwp, self._robust_list) if self._robust_list is not None else None

    def unwind(self, thread: ThreadRef, limit: int) -> list[tuple[int, int]]:
        registers = self._stopped_registers(thread, self.tasks[thread.lwp])
        return self._unwinder().unwind(registers, limit)

    @remembered
    def _unwinder(self) -> Unwinder:
        return self._cpu.unwinder(self.memory, self.modules())

    def variables(self, thread: ThreadRef, index: int) -> list[tuple[str, str, str]]:
        return []

    def selected(self) -> int | None:
        return None

    def signal(self, thread: ThreadRef) -> SignalInfo | None:
        return None

    def frame_registers(self, thread: ThreadRef, index: int) -> dict[str, int]:
        return {}

    # -- what has changed ----------------------------------------------------------------------------------------

    def moved(self) -> set[int]:
        """The threads that have run since they were read and are not stopped, by TID; also those that began or ended."""
        try:
            self._now = read_tasks(self.pid)
        except OSError:  # the process has ended
            return set(self.tasks)
        same = {tid for tid, task in self._now.items() if tid in self.tasks and (
            self._kept.get(tid, True) if tid in self.stopped.current else task.has_slept_since(self.tasks[tid]))}
        return (set(self._now) | set(self.tasks)) - same

    def waits_again(self, tid: int) -> bool:
        """Whether a thread that has moved is in the same call with the same callers again."""
        unwinder = self._cpu.unwinder(CachedMemory(self._raw), self.modules())
        before = self.tasks[tid].call if tid in self.tasks else None
        for _ in range(_LOOKS):
            now = self._now.get(tid)
            if before is None or now is None or now.call not in (before, None):
                return False
            if now.call == before:
                registers = self._cpu.sleeping_registers(before)
                try:
                    return unwinder.unwind(registers, _MAX_FRAMES) == self._unwinder().unwind(registers, _MAX_FRAMES)
                except GdbextError:
                    return False
            time.sleep(_INTERVAL)
            with contextlib.suppress(OSError):
                self._now.update(read_tasks(self.pid, (tid,)))
        return False

    # -- files ---------------------------------------------------------------------------------------------------

    def modules(self) -> Sequence[Module]:
        return [found.module for found in self._modules()]

    def _modules(self) -> list[MappedModule]:
        if self._mapped is None:
            self._mapped = list(mapped_modules(self.memory, self.regions(), (), self._open))
        return self._mapped

    def _open(self, path: str) -> Read | None:
        for place in (f"/proc/{self.pid}/root{path}", path):
            try:
                file = open(place, "rb", buffering=0)
                return opened_file(file)
            except (OSError, ValueError):
                continue
        return None

    def has_file(self, path: str) -> bool:
        return self._open(path) is not None

    def mapped_files(self) -> list[tuple[int, str]]:
        return []

    def file_build_id(self, module: Module) -> str | None:
        return None

    def debug_structs(self, module: Module) -> dict[str, Struct]:
        return {}

    @remembered
    def _module_map(self) -> ModuleMap:
        return ModuleMap(self.modules())

    @remembered
    def symbol(self, address: int) -> Symbol:
        module = self._module_map().find(address)
        found = next((each for each in self._modules() if each.module is module), None)
        try:
            return Symbol(found.symbol(address) if found is not None else None)
        except GdbextError:
            return Symbol(None)

    def regions(self) -> tuple[Region, ...]:
        assert self.proc is not None
        return self.proc.regions()

    def core_kept(self) -> tuple[int, int] | None:
        return None

    def origin(self) -> Origin:
        assert self.proc is not None
        return Origin(self.proc.command_line(), socket.gethostname(), int(time.time()))

    def disassemble(self, low: int, high: int) -> list[tuple[int, int, str]]:
        return []

    def demangle(self, name: str) -> str:
        return name

    def read_host_file(self, path: str, limit: int) -> bytes | None:
        read = self._open(path) if os.path.isabs(path) else None
        return (read(0, limit) or None) if read is not None else None

    def problems(self) -> tuple[tuple[str, ProblemKind, str], ...]:
        return ()


def _settled_tasks(pid: int, only: Iterable[int] | None = None) -> dict[int, Task]:
    """Read the threads of a process; those that run are read again, since many of them only wake up for a moment."""
    tasks = read_tasks(pid, only)
    for _ in range(_LOOKS):
        running = [tid for tid, task in tasks.items() if task.call is None]
        if not running:
            break
        time.sleep(_INTERVAL)
        tasks.update(read_tasks(pid, running))
    return tasks
