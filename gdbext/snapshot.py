"""The snapshot of a target: all threads, what they hold and wait for, locks, runtimes, deadlocks, problems.

Each step uses the results of the steps before it: registers and thread descriptors, futex waits, the Python runtimes
and their GILs, native stacks of the waiting threads, locks, holders, the wait-for graph. Stacks are merged and named
last, and only those that the report shows.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import cast

from gdbext.cpython.values import DEFAULT_LIMITS, Limits
from gdbext.errors import GdbextError
from gdbext.glibc.version import find_c_library
from gdbext.holders.locks import FoundLocks, find_locks
from gdbext.inferior.budget import Budget, BudgetedTarget
from gdbext.inferior.launchers import identity_of
from gdbext.inferior.proc.status import living_task
from gdbext.inferior.protocol import Origin
from gdbext.inferior.signals import signal_name
from gdbext.libraries import LIBRARIES
from gdbext.locks.library_parts import LibraryRanks, ranks_of
from gdbext.locks.seen import SeenWait
from gdbext.model import (
    DERIVED,
    RECORDED,
    Crash,
    Deadlock,
    Greenlet,
    Group,
    Identity,
    Local,
    Lock,
    MixedStack,
    Operation,
    Part,
    Problem,
    PyFrame,
    Rank,
    Report,
    TargetInfo,
    Thread,
    ThreadStatus,
    Wait,
)
from gdbext.model.kinds import kind_of
from gdbext.model.known import KnownBug
from gdbext.model.reasons import Reason, because
from gdbext.proofs.known_code import KnownCode
from gdbext.runtimes.emulators import find_emulator
from gdbext.stacks.mixed import MixedStacks
from gdbext.tasks.asyncio_tasks import AsyncioTasks, find_tasks
from gdbext.tasks.greenlet_waits import find_greenlet_waits
from gdbext.tasks.greenlets import find_greenlets
from gdbext.threads.code import read_code
from gdbext.threads.findings import Findings
from gdbext.threads.gone import GoneOwners
from gdbext.threads.interrupted import restore_interrupted
from gdbext.threads.python_side import PythonSide, TargetWithTypes, read_python_side
from gdbext.threads.restarted import find_restarted_waits
from gdbext.threads.site import Sites
from gdbext.threads.threads import SeenThread, read_threads
from gdbext.verdict.ended_by import find_enders
from gdbext.verdict.explanations.tasks import TRIO, waits_inside
from gdbext.verdict.judge import judge
from gdbext.verdict.standstill import prove_standstill
from gdbext.verdict.task_cycles import find_greenlet_cycles, find_task_cycles
from gdbext.verdict.wait_for import find_deadlocks
from gdbext.waits.at_work import Place, find_work
from gdbext.waits.context import Context, read_context
from gdbext.waits.descriptors import MANY
from gdbext.waits.doubts import Doubts
from gdbext.waits.lock_kinds import member_of_lock, recognise_address, size_of_lock
from gdbext.waits.polling import find_polling
from gdbext.waits.recognisers import find_waits


def take_snapshot(target: TargetWithTypes, object_names: bool = True, budget: Budget | None = None,
                  known_code: KnownCode | None = None) -> Snapshot:
    """Read the threads, what each of them waits for, and which threads hold it.

    :param object_names: whether the objects that have locks are named by values of their attributes.
    :param budget: how long and how much the target may be read. Once it is spent, the snapshot has what was known.
    :param known_code: what earlier snapshots of the process have found out about its code.
    :raises GdbextError: all threads are running, or the architecture is not supported.
    """
    budget = budget or Budget()
    target = cast("TargetWithTypes", BudgetedTarget(target, budget))
    memory, findings = target.memory, Findings(budget)
    for where, what, why in target.problems():
        findings.problem(where, what, because("text", text=why))
    code = read_code(target, findings)
    library = find_c_library(memory, code.modules, target.architecture, lambda at: target.symbol(at).function)
    if not library.is_decoded:
        unknown = because("libraries-unlisted") if code.unlisted is not None else library.why
        findings.problem("C library", "not applicable", because("locks-not-decoded", why=unknown))
    musl = library.musl.module if library.musl is not None else None
    sites = Sites(memory, code, library.modules, musl)
    if musl is not None:
        code.scan_callers_of(musl)
    read = read_threads(target, library.layouts, findings, musl)
    threads = restored = findings.guard(
        "signal handlers", lambda: restore_interrupted(target, code, read, findings), read)
    if (layouts := library.layouts) is not None:
        threads = findings.guard("restarted system calls", lambda: find_restarted_waits(
            memory, layouts, code, restored, sites), restored)
    gone = GoneOwners(target, library.layouts, threads)
    python = findings.guard("Python", lambda: read_python_side(target, code, threads, gone, findings),
                            PythonSide(memory, code, findings, (), {}, ()))
    context = read_context(target, code, library, threads, sites, python, findings, object_names)
    waits = find_waits(context)
    return Snapshot(context, waits, find_locks(context, waits, gone, known_code or KnownCode()), gone)


class Snapshot:
    """What was found in a target, which must stay stopped meanwhile. Stacks are read on request."""

    def __init__(self, context: Context, waits: Mapping[int, SeenWait], locks: FoundLocks,
                 gone: GoneOwners) -> None:
        self._context = context
        self._target = context.target
        self._findings = context.findings
        self._code = context.code
        self._library = context.library
        self._threads = context.threads
        self._python = context.python
        self._waits = waits
        self._found = locks
        self._gone = gone
        self._mixed = MixedStacks(self._code, self._python.interpreter_code.__getitem__)
        self._stacks: dict[int, MixedStack] = {}
        #: How much of a variable is shown.
        self.limits = DEFAULT_LIMITS

    @property
    def incomplete(self) -> GdbextError | None:
        """Why the report is incomplete, where the user can do something about it."""
        return self._findings.incomplete or (None if self._findings.spent is None else GdbextError(
            "the snapshot was cut short before all was read", "give it more time: --max-pause SECONDS or --timeout "
            "SECONDS, in GDB `set gdbext max-pause SECONDS`"))

    @property
    def mistakes(self) -> Sequence[Exception]:
        """The exceptions of stages that have failed because of a mistake of gdbext."""
        return self._findings.mistakes

    @property
    def unlisted(self) -> str | None:
        """Why libraries, and a Python in them, are unknown although the executable is known; None if they are known."""
        return self._code.unlisted

    def numbers(self) -> list[int]:
        """Numbers of all threads, ascending."""
        return [seen.number for seen in self._threads]

    def gils(self) -> list[Lock]:
        """The distinct GILs of the process."""
        return [self._found.locks[gil.lock] for gil in self._python.gils]

    def locks(self) -> list[Lock]:
        """All locks that a thread waits for, and the GILs."""
        return list(self._found.locks.values())

    def lock_at(self, address: int, kind: str | None = None) -> tuple[Lock | None, Reason | None]:
        """Find the lock at an address, or the lock with a member there.

        :param kind: the kind that the user expects, None if any.
        :return: the lock if there is one, and a note about the address.
        :raises MemoryUnreadable: the address is not readable.
        """
        self._target.memory.read(address, 4)
        sizes = {gil.lock: gil.state.size for gil in self._python.gils}
        layouts = self._library.layouts
        for lock in self._found.locks.values():
            size = sizes.get(lock.id) or size_of_lock(layouts, lock.kind)
            if lock.address <= address < lock.address + size:
                note = None
                if address != lock.address:
                    note = because("address-inside", address=address, base=lock.address, structure=lock.kind,
                                   member=member_of_lock(layouts, lock, address))
                return lock, note
        free, note = self._context.python_locks.at(address) if kind is None else None, None
        if free is None and self._context.words is not None:
            free, note = recognise_address(self._context.words, address, kind)
        return self._found.find_more(free) if free is not None else None, note

    def mixed(self, number: int, limits: Limits | None = None) -> MixedStack:
        """The stack of a thread in all languages, with variables if `limits` are given."""
        seen = self._threads[number]
        if seen.unavailable is not None:
            return MixedStack()
        python, guard = self._python, self._findings.guard
        known = self._stacks.get(number)
        if known is None:
            known = self._stacks[number] = guard("stacks", lambda: self._mixed.stack(
                seen, python.thread(number), python.stack(seen)), MixedStack())
        if limits is None:
            return known
        return guard("values of variables", lambda: self._mixed.with_variables(
            seen, python.thread(number), python.stack(seen), self._target.memory,
            lambda index: [Local(*each) for each in self._target.variables(seen.ref, index)], limits), known,
            doubt=False)

    def crash(self, report: Report) -> Crash:
        """Find out why a thread died.

        :raises GdbextError: no thread was stopped by a signal that ends programs.
        """
        # no other command needs these modules, and importing them takes as long as a small snapshot
        from gdbext.crash.reader import CrashReader

        return CrashReader(self._target, self._code, self._threads, self._python, self._context.sites, self._mixed,
                           self._library.modules).read(report, self.limits)

    @functools.cached_property
    def tasks(self) -> AsyncioTasks:
        """Event loops and tasks of asyncio. A report made afterwards includes what could not be read of them."""
        return self._findings.guard("asyncio", lambda: find_tasks(
            self._target.memory, self._python.pythons, self._python.number_of_tstate, self._python.asyncio,
            self._findings), AsyncioTasks())

    @functools.cached_property
    def _rank(self) -> Rank | None:
        """Which rank of a job the process is, with its process groups."""
        identity = identity_of(self._origin.environment, self._origin.command_line)
        waiting = sorted((waiter.thread, lock.id) for lock in self._found.locks.values()
                         if kind_of(lock.kind).of_ranks for waiter in lock.waiters)
        if identity is None and not waiting:
            return None
        files = {module.name for module in self._code.modules}
        readers = [ranks_of(library)(self._target.memory, functools.partial(self._context.variables, library))
                   for library in LIBRARIES if library.has_ranks and library.may_be_in(files)]
        members = {name: ranks for reader in readers for python in self._python.pythons
                   for interpreter in python.interpreters
                   for name, ranks in reader.members(python.objects, interpreter.address).items()}
        groups = tuple([replace(group, members=group.members or members.get(group.name))
                        for reader in readers for group in reader.groups()])
        awaited = self._awaited_operation(*waiting[0], readers, groups) if waiting else self._polled_for(readers)
        return Rank(identity or Identity(), groups, awaited)

    def _polled_for(self, readers: Sequence[LibraryRanks]) -> Operation | None:
        """What the first thread waits for together with other ranks in a loop, which no lock shows."""
        first = self._context.threads.first
        stack = self.mixed(first) if first else MixedStack()
        return next(filter(None, (reader.operation(stack) for reader in readers)), None)

    def _awaited_operation(self, number: int, lock: str, readers: Sequence[LibraryRanks],
                           groups: Sequence[Group]) -> Operation:
        """What a thread waits for together with other ranks: as recorded if there is one such operation."""
        name = (self._found.locks[lock].name or "operation").partition(" #")[0]
        pending = [each for group in groups for each in group.pending if each.name == name]
        if len(pending) == 1:
            return pending[0]
        stack = self.mixed(number, DEFAULT_LIMITS)
        peer = next((found for reader in readers if (found := reader.peer(stack)) is not None), None)
        return Operation(name, None, is_pair=peer is not None, peer=peer)

    @functools.cached_property
    def _origin(self) -> Origin:
        return self._target.origin()

    @functools.cached_property
    def greenlets(self) -> tuple[Greenlet, ...]:
        """The greenlets of the package `greenlet`. A report made afterwards includes what could not be read of them."""
        return self._findings.guard("greenlets", lambda: find_greenlet_waits(
            self._context, find_greenlets(self._python, self._findings)), ())

    def judged_report(self, stacks: Callable[[Thread], bool], wanted: Sequence[int] = ()) -> Report:
        """Make the report with all that its verdict rests on: tasks, greenlets, stacks where no lock explains it.

        :param stacks: as in `report`.
        :param wanted: the addresses of locks that the report has although no thread may wait for them.
        """
        asyncio, greenlets = self.tasks, self.greenlets
        report = self.report(stacks if self._deadlocks else lambda thread: True)
        found = [self._findings.guard("locks", functools.partial(self.lock_at, address), (None, None))[0]
                 for address in wanted]
        more = [lock for lock in found if lock is not None and report.lock(lock.id) is None]
        whole = replace(report, locks=(*report.locks, *more), event_loops=asyncio.loops, tasks=asyncio.tasks,
                        task_cycles=find_task_cycles(asyncio.tasks), greenlets=greenlets,
                        greenlet_cycles=find_greenlet_cycles(greenlets))
        known = self._findings.guard("known bugs", lambda: self._known_bugs(whole), (), doubt=False)
        return replace(whole, known=known)

    def _known_bugs(self, report: Report) -> tuple[KnownBug, ...]:
        if not report.runtimes:
            return ()
        verdict = judge(report)
        if verdict.outcome in ("fine", "doubt"):
            return ()
        # most reports are of programs that do not hang
        from gdbext.known.match import known_bugs

        return known_bugs(report, verdict, self._installed)

    def _installed(self, files: Collection[str]) -> Iterable[tuple[str, str]]:
        """The packages that contain files, with their versions."""
        from gdbext.inferior.proc.installed import packages

        if self._target.proc is not None:
            return packages(files, f"/proc/{living_task(self._target.pid)}/root")
        return packages(files, "", self._origin.time) if self._target.kind == "core" else ()

    def with_lines(self, report: Report, add_lines: Callable[[Report], Report]) -> Report:
        """A report of this snapshot with source lines, and the parts that follow from the names found with them."""
        return self._extended("source lines", report, lambda: self._with_parts_again(report, add_lines(report)))

    def with_crash(self, report: Report) -> Report:
        """A report of this snapshot of a core, with the reason of the crash if there was one."""
        def read() -> Report:
            try:
                return replace(report, crash=self.crash(report))
            except GdbextError:  # no thread crashed
                return report

        return self._extended("crash", report, read)

    def with_variables(self, report: Report) -> Report:
        """A report of this snapshot with the variables of Python frames."""
        return self._extended("values of variables", report, lambda: replace(
            report, threads=tuple([self._with_variables(thread) for thread in report.threads])))

    def _with_variables(self, thread: Thread) -> Thread:
        seen, python = self._threads[thread.number], self._python
        if not any(isinstance(frame, PyFrame) for frame in thread.stack):
            return thread
        mixed = self._mixed.with_variables(seen, python.thread(thread.number), python.stack(seen), self._target.memory,
                                           lambda index: (), self.limits)
        if mixed.frames != thread.stack:  # without those that are too many
            return thread
        return replace(thread, variables=tuple([mixed.variables.get(index, ()) for index in range(len(thread.stack))]))

    def _extended(self, stage: str, report: Report, read: Callable[[], Report]) -> Report:
        """The report with the result of a late stage, or with the problem if that fails."""
        known = len(self._findings.problems)
        made = self._findings.guard(stage, read, report, doubt=False)
        return replace(made, problems=(*made.problems, *self._findings.problems[known:]))

    def _with_parts_again(self, before: Report, after: Report) -> Report:
        known: dict[int, tuple[Part, ...]] = {}  # threads may share a stack
        threads = []
        for old, new in zip(before.threads, after.threads):
            if new.stack is not old.stack:
                if id(old.stack) not in known:
                    known[id(old.stack)] = self._mixed.parts_again(old.stack, new.stack)
                new = replace(new, parts=known[id(old.stack)])
            threads.append(new)
        return replace(after, threads=tuple(threads))

    def report(self, stacks: Callable[[Thread], bool], looked_up: Lock | None = None) -> Report:
        """Make the report.

        :param stacks: chooses the threads whose stacks are included, besides those of deadlocked threads.
        :param looked_up: a lock from `lock_at`, which is included although no thread may wait for it.
        """
        locks = self._found.locks if looked_up is None else {**self._found.locks, looked_up.id: looked_up}
        threads, deadlocks = list(self._bare_threads), self._certain(self._deadlocks)
        involved = {number for deadlock in deadlocks for number in deadlock.involved}
        not_interleaved = []
        # deadlocked threads first: a report has so many frames at most
        for index in sorted(range(len(threads)), key=lambda each: threads[each].number not in involved):
            thread = threads[index]
            if thread.number in involved or stacks(thread):
                mixed = self.mixed(thread.number)
                if not self._findings.draw_frames(len(mixed.frames)):
                    continue
                threads[index] = replace(thread, stack=mixed.frames, parts=mixed.parts, unmerged=mixed.unmerged)
                if mixed.unmerged:
                    not_interleaved.append(Problem(f"thread {thread.number}", "not applicable",
                                                   because("not-interleaved", why=mixed.unmerged)))
        for why in (self._findings.spent, self._findings.left_out):
            if why is not None:
                self._findings.problem("target", "unreadable", why)
        target = self._target
        origin = self._origin
        kept, whole = target.core_kept() or (None, None)
        info = TargetInfo(target.kind, target.pid, target.executable, target.architecture, self._library.name,
                          origin.command_line, origin.host, origin.time, None, kept, whole, origin.stopped)
        waiters = {gil.id: [waiter.thread for waiter in gil.waiters] for gil in self.gils()}
        guard = self._findings.guard
        ended = guard("ended child processes", lambda: self._ended_children, (), doubt=False)
        runtimes = guard("runtimes", lambda: self._python.runtimes(waiters), ())
        emulator = find_emulator(target.executable, origin.command_line)
        unknown = None if deadlocks else guard("holders", self._doubts.why_unknown_holders, None)
        notes = (*self._findings.notes, *ended, *((emulator,) if emulator is not None else ()))
        return Report(info, runtimes, tuple(threads), tuple(locks.values()), deadlocks,
                      (*self._findings.problems, *not_interleaved), notes,
                      self._doubts.why_no_verdict() or unknown,
                      rank=self._findings.guard("rank of the job", lambda: self._rank, None, doubt=False))

    @functools.cached_property
    def _ended_children(self) -> tuple[Reason, ...]:
        """The child processes that are zombies, where a thread waits for what another process may do."""
        proc = self._target.proc
        if proc is None or not any(lock.waiters and (lock.is_outside or lock.shared)
                                   for lock in self._found.locks.values()):
            return ()
        ended = proc.ended_children()
        if not ended:
            return ()
        # those that were killed first
        ended = sorted(ended, key=lambda child: (child.signal is None, child.status is None, child.pid))
        names = self._names_of_children
        return (because("children-ended", count=len(ended), children=tuple([because(
            "child-ended", process=because("process", pid=child.pid, name=names.get(child.pid) or proc.name(child.pid)),
            signal=None if child.signal is None else signal_name(child.signal), status=child.status)
            for child in ended[:MANY]])),)

    @functools.cached_property
    def _names_of_children(self) -> dict[int, str]:
        """The names that `multiprocessing` has given to child processes, by PID."""
        def read() -> dict[int, str]:
            return {pid: name for python in self._python.pythons for interpreter in python.interpreters
                    for pid, name in self._context.python_locks.reader(python).pool_handlers.children(
                        interpreter.address).items()}

        return self._findings.guard("child processes", read, {}, doubt=False)

    @functools.cached_property
    def _bare_threads(self) -> list[Thread]:
        """The threads of a report, without stacks."""
        return [self._thread(seen) for seen in self._threads]

    @functools.cached_property
    def _deadlocks(self) -> tuple[Deadlock, ...]:
        locks, threads = self._found.locks, self._bare_threads
        found = find_deadlocks(threads, locks.values())
        if found:
            return found
        standstill = self._findings.guard("standstill", lambda: prove_standstill(
            threads, locks, self._context.threads.first, self._doubts, self._closed()), None)
        return () if standstill is None else (standstill,)

    def _closed(self) -> frozenset[int]:
        """The threads whose event loops watch nothing from outside and have no timer.

        Of a loop of asyncio in a process, /proc shows that. A loop of trio waits for a day if it has no timer.
        """
        timed = {number for number, wait in self._waits.items() if wait.timed}
        found = set()
        for loop in self.tasks.loops:
            # a task that runs may wait for anything itself
            tasks = [task for task in self.tasks.tasks if task.loop == loop.address]
            is_closed = (bool(tasks) and all(map(waits_inside, tasks)) if loop.kind == TRIO else
                         self._target.kind == "core" and loop.thread not in timed
                         and not any(task.state == "running" for task in tasks))
            if loop.thread is not None and loop.watched == 0 and is_closed:
                found.add(loop.thread)
        return frozenset(found)

    @functools.cached_property
    def _doubts(self) -> Doubts:
        return Doubts(self._context, self._waits, self._found.locks, self._gone)

    def _certain(self, deadlocks: tuple[Deadlock, ...]) -> tuple[Deadlock, ...]:
        """The deadlocks that do not rest on what may have been left out."""
        if self._findings.spent is None:
            return deadlocks
        return tuple(deadlock for deadlock in deadlocks if deadlock.evidence in (RECORDED, DERIVED)
                     and not deadlock.standstill and not deadlock.owner_gone)

    @functools.cached_property
    def _since(self) -> Mapping[int, float]:
        """How long ago threads ran; of many threads, of those that wait for locks or hold them."""
        sleepers = [seen for seen in self._threads if seen.call is not None and seen.call.blocked]
        order = sorted(sleepers, key=lambda seen: (
            seen.number not in self._found.holds, (wait := self._waits.get(seen.number)) is None or wait.lock is None))
        no_times: Mapping[int, float] = {}
        return self._findings.guard(
            "times", lambda: self._target.seconds_since_run([seen.ref for seen in order]), no_times, doubt=False)

    def _is_wanted(self, number: int) -> bool:
        """Whether a thread has a lock that others may want, besides its end and results."""
        kinds = (kind_of(self._found.locks[hold.lock].kind) for hold in self._found.holds.get(number, ())
                 if hold.lock in self._found.locks)
        return any(kind.behaviour != "thread-end" and not kind.is_event for kind in kinds)

    def _thread(self, seen: SeenThread) -> Thread:
        number, call = seen.number, seen.call
        wait, python = self._waits.get(number), self._python.thread(number)
        place = Place() if wait is None else self._findings.guard(
            "loops", lambda: find_work(seen, wait, self._context), Place(), doubt=False)
        lock = wait.lock if wait is not None else None
        status: ThreadStatus = "unknown"
        syscall = None
        if seen.unavailable is None and (wait is None or wait.is_known):
            # between two timed waits for the GIL a thread is blocked too
            sleeps = lock is not None and kind_of(lock.kind).waiters != "spin"
            status = "blocked" if sleeps or (call and call.blocked) else "running"
        if call is not None and status != "running":
            syscall = call.name or (wait.syscall if wait is not None and wait.text is not None else
                                    "futex" if lock is not None else None)
        waits = Wait(lock.id, wait.mode, wait.timed, wait.evidence, wait.why) if wait and lock else None
        blocked_on = wait.text if wait is not None else None
        return Thread(number, seen.ref.lwp, seen.tid, seen.ref.name, python.name,
                      python.tstate.address if python.tstate is not None else None, self._python.state(seen), status,
                      syscall, tuple(self._found.holds.get(number, ())),
                      waits, blocked_on=blocked_on, critical_sections=self._context.parked.sections(number),
                      ended_by=find_enders(waits, self._found.locks[lock.id] if lock is not None else None, blocked_on,
                                           wait.seconds if wait is not None else None),
                      since=self._since.get(number) if status == "blocked" else None,
                      polling=None if wait is None else self._findings.guard(
                          "loops", lambda: find_polling(seen, wait, self._context, self._is_wanted(number)), None,
                          doubt=False),
                      at_work=place.at_work, in_loop=place.in_loop, takes_next=place.takes_next,
                      ident=python.tstate.thread_id if python.tstate is not None else None)
