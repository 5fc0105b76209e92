"""A running process as a `Target`, read by /proc alone: long, since all that is read has to belong to one moment.

/proc has all that matters of a thread that sleeps: the system call, its arguments, the stack pointer and the program
counter. Other threads are stopped for a moment, if that is allowed. `ProcessTarget.changes` says whether what was read
belongs together: the threads that have run meanwhile must sleep in the same calls, and while they do, memory must have
the same contents.

The stacks of threads that do not sleep long enough for that are read at a moment when these threads sleep or are
stopped (`gdbext.targets.image`), and other pages that they change too. It does not matter what they do afterwards.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType

from gdbext import arch
from gdbext.elf.headers import Read, read_header
from gdbext.elf.link_map import linked_files
from gdbext.elf.mapped import mapped_modules
from gdbext.errors import CorruptStructure, GdbextError, NoTarget, ThreadUnavailable
from gdbext.inferior.address_space import AddressSpace, Region
from gdbext.inferior.cache import PAGE, CachedMemory, read_available
from gdbext.inferior.proc.descriptors import OpenFiles
from gdbext.inferior.proc.last_run import seconds_since_run
from gdbext.inferior.proc.maps import ProcessMemory
from gdbext.inferior.proc.process import Proc
from gdbext.inferior.proc.status import tracer_of
from gdbext.inferior.proc.stopped import read_stopped
from gdbext.inferior.proc.threads import Task, listed, read_runs, read_switches, read_tasks, robust_list
from gdbext.inferior.protocol import Memory, Module, Origin, SignalInfo, Symbol, ThreadRef
from gdbext.model import NativeFrame, Report, TargetKind
from gdbext.record import record
from gdbext.remembered import remembered
from gdbext.runtimes.names import with_symbol
from gdbext.targets.direct_target import DirectTarget, kernel_code, loaded_file, named_modules
from gdbext.targets.image import ImageMemory
from gdbext.targets.restarts import is_restarted, may_have_ended
from gdbext.targets.source_lines import SourceLines, with_frames
from gdbext.targets.stopping import StoppedThreads
from gdbext.targets.symbols import LoadedFile

#: Most frames that are compared to see whether a thread that has run in between is where it was.
_MAX_FRAMES = 1000
#: How often, and in which intervals in seconds, a thread is read that wakes up now and then, and one that seems to run.
_LOOKS, _LOOKS_AT_RUNNING, _INTERVAL = 4, 20, 0.0005
#: How long a thread sleeps at least that is not stopped while it sleeps, in seconds.
_TO_SLEEP = 0.005
#: How often threads are stopped before the memory is read: a process may begin new ones meanwhile.
_ROUNDS = 10
#: How often the image is taken until no thread has run meanwhile, and how long to wait in between, in seconds.
_IMAGES, _BETWEEN = 20, 0.0003
#: How often it is looked whether what was read belongs together.
_CHECKS = 2
#: The bytes of a stack that are part of the image: below the stack pointer, where a leaf function has data, and above.
_BELOW, _ABOVE = 128, 1 << 14


@record
class Way:
    """A way to read a process.

    `moving` are the threads that do not sleep long enough, by TID. Their stacks are read while they sleep or are
    stopped, and with them the `image`, which are pages at these addresses. If `stop`, all are stopped while the image
    is read, but not in a longer sleep that a stop would end; otherwise only those that never sleep. If `hold`, the
    moving threads are stopped until all is read, and if `everyone`, other threads too. Those that must not be stopped
    are left out instead: all that move if stops are not allowed, or else those `ended`, of which a stop has ended a
    system call, since that must happen once at most.
    """

    moving: frozenset[int] = frozenset()
    image: frozenset[int] = frozenset()
    stop: bool = False
    hold: bool = False
    everyone: bool = False
    ended: frozenset[int] = frozenset()


@record
class Changes:
    """What has changed since a process was read.

    `ran` are the threads that have run in between, by TID, and those that have begun or ended. Of these, `moved` are
    not where they were, or ran even while memory was compared; `came_or_went` have begun or ended. `pages` are the
    addresses of pages that differ.
    """

    ran: frozenset[int] = frozenset()
    moved: frozenset[int] = frozenset()
    pages: frozenset[int] = frozenset()
    came_or_went: frozenset[int] = frozenset()


@record
class _BriefStop:
    """A sleeping thread was stopped for its registers: how often it had slept, and whether it slept until then.

    `ran` is when it ran last before that, by `time.monotonic`; None if that is not known.
    """

    sleeps: int | None
    slept_until: bool
    ran: float | None


class ProcessTarget(DirectTarget):
    """A running process.

    :param may_stop: whether threads may be stopped for a moment.
    :param way: how to read it.
    :param lines: see `DirectTarget`.
    :raises NoTarget: the process does not exist.
    :raises PermissionError: we may not read it.
    """

    kind: TargetKind = "live"

    def __init__(self, pid: int, may_stop: bool = True, way: Way = Way(),  # noqa: B008  # a plain value
                 lines: SourceLines | None = None) -> None:
        super().__init__(lines)
        self.pid = pid
        self.architecture = os.uname().machine
        self._cpu = arch.of(self.architecture)
        self._call_names = self._cpu.system_call_names()
        self._is_stopped = read_stopped(pid)
        # another tracer's thread cannot be stopped once more, and one in a frozen cgroup only when it runs again
        is_out_of_reach = self._is_stopped is not None and self._is_stopped.by != "signal"
        self._may_stop = may_stop and not is_out_of_reach and tracer_of(pid) is None
        self.proc: Proc | None = Proc(pid, open_files=OpenFiles(arch.system_call_number))
        self._proc = self.proc
        self._raw = ProcessMemory(self._proc.task)
        self._image = ImageMemory(self._raw)
        self.memory: Memory = self._image
        self.stopped = StoppedThreads()
        # addresses of frames whose lines are not known yet
        self._without_lines: set[int] = set()
        # threads that were stopped for registers that /proc does not show, and then slept on
        self._brief_stops: dict[int, _BriefStop] = {}
        # threads that must not be stopped, and do not sleep long enough
        self._moving = {*(way.ended if self._may_stop else way.moving)} if way.hold else set[int]()
        # the registers of threads that were stopped for a moment
        self._at_stop: dict[int, Mapping[str, int]] = {}
        # threads that are part of the image
        self.imaged: frozenset[int] = frozenset()
        # the stacks of sleeping threads that are not stopped, once that was tried, and why some have no more frames
        self._has_unwound = False
        self._unwound: dict[int, list[tuple[int, int]]] = {}
        self._cut_short: dict[int, GdbextError] = {}
        try:
            self.executable: str | None = os.readlink(f"/proc/{self._proc.task}/exe")
            self._check_machine()
            # before memory is read: what a thread changes until it is stopped would contradict its registers
            self.tasks = self._tasks_of(way)
        except FileNotFoundError:
            raise NoTarget(f"there is no process {pid}") from None
        self._now: dict[int, Task] = {}
        self._numbers = dict(enumerate(self._ordered(), 1))
        self._robust_list = arch.system_call_number("get_robust_list")

    def _check_machine(self) -> None:
        """Check that the process is one of this machine's processor: a 32-bit process has other system calls.

        :raises GdbextError: it is not.
        """
        read = self._open_here(f"/proc/{self._proc.task}/exe")
        machine = None
        with contextlib.suppress(CorruptStructure):  # a 32-bit program
            machine = read_header(read).machine if read is not None else self._cpu.ELF_MACHINE
        if machine != self._cpu.ELF_MACHINE:
            raise GdbextError(f"the executable is not a 64-bit program for {self.architecture}",
                              "only such programs can be read without GDB")

    def _tasks_of(self, way: Way) -> Mapping[int, Task]:
        return self._held(way) if way.hold else self._at_one_moment(way)

    def _held(self, way: Way) -> Mapping[int, Task]:
        """Read the threads, and stop those that run, and all that are moving.

        A thread that sleeps in a call that a stop would end is not stopped, except in the last way if it has moved.
        """
        tasks = _settled_tasks(self.pid)
        for _ in range(_ROUNDS if self._may_stop else 0):
            # each of these is a reason, two are needed if a stop would end the call in which the thread sleeps
            wanted = {tid for tid, task in tasks.items() if task.call is None or
                      (tid in way.moving) + way.everyone > self._would_end(task)} - way.ended
            if wanted <= set(self.stopped.current):
                break
            self._stop(wanted)
            # also the threads that began meanwhile: one that nobody knows may end a wait, and be gone at the end
            tasks = _settled_tasks(self.pid)
        return tasks

    def _stop(self, threads: Collection[int]) -> Mapping[int, Mapping[str, int]]:
        """Stop threads; return the registers of those that are stopped now."""
        found = {}
        for tid in self.stopped.stop(threads) if threads else ():
            found[tid] = self._registers_of_stopped(tid)
            if may_have_ended(self._cpu.system_call(found[tid]), self._proc.descriptors.link):
                self.stopped.ended.add(tid)
        return found

    def _registers_of_stopped(self, tid: int) -> dict[str, int]:
        # x86-64 has the thread pointer among the registers
        area = self.stopped.thread_area(tid) if self._cpu.DESCRIPTOR_IS_BELOW else b""
        found = self._cpu.user_registers(self.stopped.registers(tid), area)
        return {**self._cpu.at_stop(self.memory, found)}

    def _at_one_moment(self, way: Way) -> Mapping[int, Task]:
        """Read the threads, and take the image when those that move sleep or are stopped."""
        tasks = _settled_tasks(self.pid, looks=_LOOKS_AT_RUNNING)
        always_running = {tid for tid, task in tasks.items() if task.call is None}
        runs = read_runs(self.pid, tasks)
        moved = {*way.moving, *(tid for tid, task in tasks.items() if runs.get(tid) != task.runs)}
        for attempt in range(_IMAGES):
            if attempt and tasks.keys() != listed(self.pid, tasks):
                tasks = read_tasks(self.pid)
            moving = {tid for tid, task in tasks.items() if task.call is None or tid in moved}
            if not moving and not way.image:
                break
            with self.stopped:
                tasks.update(read_tasks(self.pid, moving))
                always_running = {tid for tid in always_running if tid in tasks and tasks[tid].call is None}
                if self._may_stop:
                    wanted = self._not_asleep(tasks, moving) if way.stop else always_running
                    self._at_stop.update(self._stop(wanted - way.ended - self.stopped.ended))
                # what a thread changes until it is stopped contradicts what was read before
                tasks.update(read_tasks(self.pid, moving - self._at_stop.keys()))
                if not self._may_stop and attempt >= _IMAGES // 2:
                    self._moving = {tid for tid in moving if tasks[tid].call is None}
                    moving -= self._moving
                if self._take_image(tasks, moving, way.image):
                    self.imaged = frozenset(moving)
                    break
            self._at_stop.clear()
            self._image.drop()
            time.sleep(_BETWEEN)
        return tasks

    def _not_asleep(self, tasks: Mapping[int, Task], threads: Collection[int]) -> set[int]:
        """Those threads that may be stopped for a moment: all but those that now sleep in a call that it would end."""
        asleep = {tid for tid in threads if self._would_end(tasks[tid])}
        if asleep:
            time.sleep(_TO_SLEEP)
        return {*threads} - {tid for tid in asleep if self._have_slept(tasks, (tid,))}

    def _take_image(self, tasks: Mapping[int, Task], moving: set[int], pages: Collection[int]) -> bool:
        """Take the image; return whether no thread has begun, ended or run meanwhile."""
        asleep = moving - self._at_stop.keys()
        if any(tasks[tid].call is None for tid in asleep):
            return False
        stacks = [*(registers.get(self._cpu.STACK_POINTER, 0) for registers in self._at_stop.values()),
                  *(call.stack_pointer for call in (tasks[tid].call for tid in asleep) if call is not None)]
        self._image.take({*pages, *(page for stack in stacks if stack
                                    for page in range((stack - _BELOW) & -PAGE, stack + _ABOVE, PAGE))})
        if not self._have_slept(tasks, asleep):
            return False
        # if nothing but the image counts, it must show the other threads at the same moment
        return not pages or self._have_slept(tasks, tasks.keys() - moving - self._moving) and (
            tasks.keys() == listed(self.pid, tasks))

    def _have_slept(self, tasks: Mapping[int, Task], tids: Collection[int]) -> bool:
        runs = read_runs(self.pid, tids)
        return all(tasks[tid].runs is not None and runs.get(tid) == tasks[tid].runs for tid in tids)

    def _ordered(self) -> list[int]:
        """The threads in a debugger's order: the main thread first, then as they were created."""
        return sorted(self.tasks, key=lambda lwp: lwp != self.pid)

    def frame_symbol(self, address: int) -> Symbol:
        """As `symbol`: threads may be stopped, so lines are found later (`add_lines`)."""
        _, loaded = self._at(address)
        if loaded is not None and loaded.has_lines:
            self._without_lines.add(address)
        return self.symbol(address)

    def add_lines(self, report: Report) -> Report:
        """Add the source lines and inlined calls of native frames to the report of this process."""
        def with_lines(frame: NativeFrame) -> NativeFrame:
            # the frame of a caller has the address after its call
            address = next((at for at in (frame.pc, frame.pc - 1) if at in self._without_lines), None)
            return with_symbol(frame, self._with_lines(address)) if address is not None else frame

        return with_frames(report, with_lines) if self._without_lines else report

    def close(self) -> None:
        """Close the process's memory and files; then it can no longer be read."""
        self._raw.close()
        super().close()

    # -- threads -------------------------------------------------------------------------------------------------

    def threads(self) -> list[ThreadRef]:
        return [ThreadRef(number, lwp, self.tasks[lwp].name) for number, lwp in self._numbers.items()]

    def registers(self, thread: ThreadRef, names: Sequence[str] = ()) -> dict[str, int]:
        task = self.tasks[thread.lwp]
        asleep = self._asleep(task)
        if asleep is not None and not set(names) - self._cpu.OF_SLEEPERS:
            return asleep
        stopped = self._registers(thread)
        return {name: stopped[name] for name in names or self._cpu.AT_STOP if name in stopped}

    def known_registers(self, thread: ThreadRef) -> Mapping[str, int]:
        asleep = self._asleep(self.tasks[thread.lwp])
        if asleep is not None:
            return asleep
        is_stopped = thread.lwp in self._at_stop or thread.lwp in self.stopped.current
        return self._registers(thread) if is_stopped else {}

    def _asleep(self, task: Task) -> dict[str, int] | None:
        """The registers that /proc shows of a thread that sleeps."""
        if (task.call is None or task.tid in self.stopped.current or task.tid in self._at_stop
                or task.tid in self._moving):
            return None
        return self._cpu.sleeping_registers(task.call)

    def _registers(self, thread: ThreadRef) -> dict[str, int]:
        """All registers of a thread, which is stopped for that.

        :raises ThreadUnavailable: it cannot be stopped.
        """
        known = self._at_stop.get(thread.lwp)
        if known:
            return dict(known)
        task = self.tasks[thread.lwp]
        if not self._may_stop or task.tid in self._moving:
            raise ThreadUnavailable("the thread runs" if task.call is None or task.tid in self._moving else
                                    "/proc does not show all registers of the thread")
        if thread.lwp in self.stopped.current:
            found = self._registers_of_stopped(thread.lwp)
        else:
            if self._would_end(task):
                raise ThreadUnavailable("a stop would end the thread's system call, and /proc does not show all "
                                        "registers")
            self._stop_briefly((thread.lwp,))
            found = dict(self._at_stop.get(thread.lwp, ()))
        if not found:
            raise ThreadUnavailable("the thread could not be stopped")
        return found

    def _stop_briefly(self, threads: Collection[int]) -> None:
        """Read all registers of threads, which are stopped together for that, and go on.

        :raises ThreadUnavailable: they cannot be stopped.
        """
        # a stop is one sleep more, and also another thread's turn may be one run more
        sleeps, runs = read_switches(self.pid, threads), read_runs(self.pid, threads)
        begin, rested = time.monotonic(), seconds_since_run(self.pid, threads)
        try:
            stopped = self._stop(threads)
            now = read_switches(self.pid, stopped)
            for tid, found in stopped.items():
                task, before, after = self.tasks[tid], sleeps.get(tid), now.get(tid)
                self._image.ignore(*self.stopped.kernel_area(tid))
                self._at_stop[tid] = found
                slept = (task.call is not None and task.runs is not None and runs.get(tid) == task.runs
                         and before is not None and after is not None and after - before <= 1
                         and all(found.get(name) == value
                                 for name, value in self._cpu.sleeping_registers(task.call).items()
                                 if name != self._cpu.RESULT))
                self._brief_stops[tid] = _BriefStop(before, slept, begin - rested[tid] if tid in rested else None)
        except OSError as error:
            raise ThreadUnavailable(f"the thread cannot be stopped: {error.strerror}") from None
        finally:
            self.stopped.resume(threads)

    def robust_list(self, thread: ThreadRef) -> int | None:
        return robust_list(thread.lwp, self._robust_list) if self._robust_list is not None else None

    def unwind(self, thread: ThreadRef, limit: int) -> list[tuple[int, int]]:
        if not self._has_unwound and self._asleep(self.tasks[thread.lwp]) is not None:
            self._has_unwound = True
            self._unwind_sleepers(limit)
        frames = self._unwound.get(thread.lwp)
        if frames is None:
            return super().unwind(thread, limit)
        if thread.lwp in self._cut_short:
            self._left_out.add("unstopped")
            raise ThreadUnavailable(f"cut short after frame {len(frames) - 1}: {self._cut_short[thread.lwp]}")
        return frames

    def _unwind_sleepers(self, limit: int) -> None:
        """Unwind the stacks of all threads that sleep, and stop those together that lack a register for it."""
        lacking = set()
        for tid, task in self.tasks.items():
            asleep = self._asleep(task)
            if asleep is None:
                continue
            # the frames of signal handlers need no stop
            frames, error = self._unwind(asleep, limit)
            if error is not None and not self._would_end(task):
                lacking.add(tid)
                continue
            self._unwound[tid] = frames
            if error is not None:
                self._cut_short[tid] = error
        if self._may_stop and lacking:
            self._stop_briefly(lacking)

    def selected(self) -> int | None:
        return None

    def signal(self, thread: ThreadRef) -> SignalInfo | None:
        return None

    def frame_registers(self, thread: ThreadRef, index: int) -> Mapping[str, int]:
        asleep = self._asleep(self.tasks[thread.lwp])
        if asleep is not None:
            # what an inner frame has saved is known without a stop
            found = self._unwinder.frame_registers(asleep, index)
            if (not self._may_stop or found.keys() >= {*self._cpu.CALLEE_SAVED}
                    or self._would_end(self.tasks[thread.lwp])):
                return found
        return super().frame_registers(thread, index)

    def _would_end(self, task: Task) -> bool:
        """Whether a stop would end the system call in which a thread sleeps."""
        return task.call is not None and task.call.number >= 0 and not is_restarted(
            self._call_names.get(task.call.number), task.call.arguments, self._proc.descriptors.link)

    # -- what has changed ----------------------------------------------------------------------------------------

    def changes(self) -> Changes:
        """What has changed since the process was read, so that the reads may not belong together."""
        # the registers of these threads belong to another moment
        moved = frozenset(tid for tid, stop in self._brief_stops.items() if not stop.slept_until)
        if moved:
            return Changes(moved, moved)
        found = Changes()
        for _ in range(_CHECKS):
            try:
                found = self._compare()
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE):
                    raise
                # the process has ended
                return Changes(frozenset(self.tasks), frozenset(self.tasks))
            if not found.moved and not found.pages:
                break
        return found

    def _compare(self) -> Changes:
        now = self._now = _settled_tasks(self.pid, known=self.tasks)
        sleeps = read_switches(self.pid, self._brief_stops)
        apart = self._moving | set(self.stopped.current)
        came_or_went = now.keys() ^ self.tasks.keys()
        ran = came_or_went | {tid for tid, task in now.items() if tid not in came_or_went and tid not in apart
                              and not task.has_slept_since(self.tasks[tid])
                              and not self._has_slept_but_for_a_stop(task, sleeps.get(tid))}
        if self.is_whole:
            ran -= self.imaged
            return Changes(frozenset(ran), frozenset(ran), came_or_went=frozenset(came_or_went))
        if not ran:
            return Changes()
        pages = self._image.changed(self._may_change) if not self._moving else set[int]()
        runs = read_runs(self.pid, now)
        asleep = now.keys() - apart - self.imaged - came_or_went
        moved = came_or_went | {tid for tid in asleep if now[tid].runs is None or runs.get(tid) != now[tid].runs
                                or tid in ran and now[tid].call != self.tasks[tid].call}
        return Changes(frozenset(ran), frozenset(moved), frozenset(pages), frozenset(came_or_went))

    def _has_slept_but_for_a_stop(self, task: Task, sleeps: int | None) -> bool:
        """Whether a thread that was stopped briefly has slept before, and sleeps in the same call again."""
        stop, before, now = self._brief_stops.get(task.tid), self.tasks[task.tid].call, task.call
        if stop is None or stop.sleeps is None or before is None or now is None or sleeps is None:
            return False
        if self._call_names.get(now.number) == "restart_syscall":  # its own number is lost
            now = replace(now, number=before.number)
        # one sleep was the stop
        return now == before and sleeps - stop.sleeps <= 2

    @property
    def has_image(self) -> bool:
        """Whether the image could be taken."""
        return self._image.is_taken

    @property
    def is_whole(self) -> bool:
        """Whether all memory that may change was read with the image."""
        return self._image.is_taken and not any(
            self._may_change(page) for page in self._image.later() if not self._is_unmapped(page))

    def _may_change(self, page: int) -> bool:
        region = self._space.find(page)
        return region is None or region.allows("w") is not False

    def _is_unmapped(self, page: int) -> bool:
        """Whether a page was not mapped and still is not: a wild pointer led there."""
        return self._space.find(page) is None and self._image.is_still_missing(page)

    @property
    def pages(self) -> frozenset[int]:
        """The addresses of the pages that were read."""
        return frozenset(self._image.used)

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
                    return unwinder.unwind(registers, _MAX_FRAMES) == self._unwinder.unwind(registers, _MAX_FRAMES)
                except GdbextError:
                    return False
            time.sleep(_INTERVAL)
            with contextlib.suppress(OSError):
                self._now.update(read_tasks(self.pid, (tid,)))
        return False

    # -- files ---------------------------------------------------------------------------------------------------

    @cached_property
    def _loaded(self) -> list[tuple[Module, LoadedFile | None]]:  # type: ignore[override]  # read on first use
        auxiliary = self._proc.auxiliary()
        found = [*mapped_modules(self.memory, self.regions(), (), self._open),
                 *kernel_code(self.memory, auxiliary)]
        names: dict[str, str] = {}
        space = AddressSpace(self.regions())
        for file in linked_files(self._read_some, auxiliary):
            region = space.find(file.dynamic)
            if region is not None and region.path is not None and file.name:
                names.setdefault(region.path, file.name)
        return named_modules(
            [(Module(each.module.path, each.module.sections, each.module.path == self.executable, each.file is None),
              loaded_file(each, each.module.path, self._open)) for each in found], names, None)

    def _read_some(self, address: int, size: int) -> bytes:
        return read_available(self.memory, address, size)

    def _open(self, path: str) -> Read | None:
        """Open a regular file of the process's file system, or of this machine's if the first cannot be read."""
        return self._open_here(self._proc.mapped_file(path)) or self._open_here(path)

    def has_file(self, path: str) -> bool:
        return self._open(path) is not None

    def reaches(self, path: str, offset: int) -> bool | None:
        read = self._open(path)
        return None if read is None else bool(read(offset, 1))

    def mapped_files(self) -> Sequence[tuple[int, str]]:
        return ()

    def file_build_id(self, module: Module) -> str | None:
        loaded = self._file_of(module)
        return loaded.build_id if loaded is not None else None

    # -- the process ---------------------------------------------------------------------------------------------

    @remembered
    def regions(self) -> Sequence[Region]:
        return self._proc.regions()

    def seconds_since_run(self, threads: Sequence[ThreadRef]) -> Mapping[int, float]:
        # a stop for registers does not end a wait
        found = {tid: time.monotonic() - stop.ran for tid, stop in self._brief_stops.items()
                 if stop.slept_until and stop.ran is not None}
        found.update(seconds_since_run(self.pid, [thread.lwp for thread in threads if thread.lwp not in found]))
        return {thread.number: found[thread.lwp] for thread in threads if thread.lwp in found}

    def core_kept(self) -> tuple[int, int] | None:
        return None

    def origin(self) -> Origin:
        return Origin(self._proc.command_line(), socket.gethostname(), int(time.time()), self._is_stopped,
                      self._proc.environment())


def _settled_tasks(pid: int, looks: int = _LOOKS, known: Mapping[int, Task] = MappingProxyType({})) -> dict[int, Task]:
    """Read the threads of a process; those that run are read again, since many of them only wake up for a moment."""
    tasks = read_tasks(pid, known=known)
    for _ in range(looks):
        running = [tid for tid, task in tasks.items() if task.call is None]
        if not running:
            break
        time.sleep(_INTERVAL)
        tasks.update(read_tasks(pid, running))
    return tasks
