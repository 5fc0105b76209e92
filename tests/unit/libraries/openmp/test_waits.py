from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pytest

from gdbext.arch import x86_64
from gdbext.arch.protocol import Syscall
from gdbext.glibc.futex import FutexWait
from gdbext.inferior.protocol import Module, Section, Symbol, ThreadRef
from gdbext.layout.select import libgomp_layouts
from gdbext.libraries.openmp.waits import OpenMP
from gdbext.locks.seen import SeenLock
from gdbext.narrate.reasons import explain
from gdbext.threads.threads import SeenThread
from tests.support.fake_elf import fake_elf
from tests.support.fake_memory import Builder
from tests.support.reasons import said, text
from tests.support.scenes import scene_of

LAYOUTS = libgomp_layouts("x86_64")
STACK, POINTERS, STEP = 0x7F00_0000_0000, 0x7F10_0000_0000, 0x1_0000
# functions of 0x100 bytes each
APP, LIBC, LIBOMP, GOMP_FILE = 0x40_0000, 0x60_0000, 0x70_0000, 0x50_0000
GOMP = GOMP_FILE + 0x2000
SLOT = GOMP_FILE + 0x8000
NUM_THREADS, THREAD_NUM, STARTS, ENDS, NAMED_STARTS, NAMED_ENDS, PARALLEL, POOL_START, WAIT, OTHER, IN_FINAL = (
    GOMP + 0x100 * i for i in range(11))
EXPORTS = {"omp_get_num_threads": NUM_THREADS, "omp_get_thread_num": THREAD_NUM, "GOMP_critical_start": STARTS,
           "GOMP_critical_end": ENDS, "GOMP_critical_name_start": NAMED_STARTS, "GOMP_critical_name_end": NAMED_ENDS,
           "GOMP_parallel": PARALLEL, "omp_in_final": IN_FINAL}
#: How far from its thread pointer each thread has its team, and its number in it.
TEAM, NUMBER = -0x78, -0x60
#: And where it has the task that it runs.
TASK = -0x30
TOTAL = 4


class Process:
    """Threads in teams of libgomp; the parts of `Target`, `Code` and `Threads` that `OpenMP` uses."""

    architecture = "x86_64"
    cpu = x86_64
    pid = 101

    def __init__(self, *, tells: bool = True) -> None:
        self.memory, gomp = fake_elf(
            GOMP_FILE, {name: (at - GOMP_FILE, 0x100) for name, at in EXPORTS.items()}, "/lib/libgomp.so.1",
            (Section(".text", GOMP, GOMP + 0x1000),))
        self.modules = (gomp, *(Module(path, (Section(".text", at, at + 0x8000),), path == "/app/server")
                                for path, at in (("/app/server", APP), ("/lib/libc.so.6", LIBC),
                                                 ("/lib/libomp.so.5", LIBOMP))))
        for at in (APP, LIBC, LIBOMP, GOMP):
            self.memory.map(at, b"\x90" * (0x1000 if at == GOMP else 0x8000))
        self.memory.u64(SLOT, (TEAM - 0x10) & (1 << 64) - 1)
        for at, load in ((NUM_THREADS, b"\x64\x48\x8b\x50\x10"), (THREAD_NUM, b"\x64\x8b\x40\x28"),
                         (IN_FINAL, b"\x64\x48\x8b\x40\x58")):
            if tells:
                self.memory.write(at, b"\x48\x8b\x05" + (SLOT - at - 7).to_bytes(4, "little", signed=True) + load)
        self.build = Builder(self.memory, LAYOUTS, 0x5555_0000_0000)
        self.seen: list[SeenThread] = []
        self.frames: dict[int, list[tuple[int, int]]] = {}
        self.names = dict(EXPORTS)
        self.look: OpenMP | None = None

    # -- building --

    def team(self, total: int = TOTAL, missing: int = 1, **members: int) -> int:
        """A team whose barrier waits for some of its threads."""
        team = self.build.new("gomp_team", nthreads=total, **members)
        self.barrier(team + LAYOUTS["gomp_team"].offset("barrier"), total=total, awaited=missing, awaited_final=total)
        return team

    def barrier(self, address: int, **members: int) -> int:
        return self.build.put("gomp_barrier_t", address, **members)

    def thread(self, pcs: Sequence[int], team: int = 0, number: int = 0, words: Mapping[int, int] | None = None) -> int:
        """A thread with a frame for each program counter, maybe in a team."""
        index = len(self.seen) + 1
        low, pointer = STACK + index * STEP, POINTERS + index * STEP
        self.memory.map(low, bytes(0x1000))
        for offset, word in (words or {}).items():
            self.memory.u64(low + offset, word)
        self.memory.map(pointer - 0x100, bytes(0x200))
        self.memory.u64(pointer + TEAM, team)
        self.memory.u32(pointer + NUMBER, number)
        self.seen.append(SeenThread(ThreadRef(index, 100 + index, None), x86_64,
                                    {"rip": pcs[0], "rsp": low, "fs_base": pointer}, pointer))
        self.frames[index] = [(pc, low + 64 * i) for i, pc in enumerate(pcs)]
        return index

    def sleep(self, thread: int, word: int, expected: int = 0) -> int:
        """Let a thread sleep on a word, in the library of its innermost frame."""
        self.change(thread, futex=FutexWait(word, 0x80, expected, False),
                    call=Syscall(202, "futex", (word, 0x80, expected), True))
        return thread

    def change(self, thread: int, **values: object) -> None:
        self.seen[thread - 1] = replace(self[thread], **values)  # type: ignore[arg-type]

    def asleep(self, pcs: Sequence[int], word: int, expected: int = 0, team: int = 0, number: int = 0,
               words: Mapping[int, int] | None = None) -> int:
        return self.sleep(self.thread([WAIT + 8, *pcs], team, number, words), word, expected)

    def call(self, at: int, target: int, argument: int | None = None) -> int:
        """Write a call, with a constant argument; its return address."""
        if argument is not None:
            self.memory.write(at, b"\x48\x8d\x3d" + (argument - at - 7).to_bytes(4, "little", signed=True))
            at += 7
        self.memory.write(at, b"\xe8" + (target - at - 5).to_bytes(4, "little", signed=True))
        return at + 5

    # -- looking --

    def view(self, thread: int) -> SeenLock | None:
        if self.look is None:
            self.look = OpenMP(scene_of(self))
        futex = self[thread].futex
        assert futex is not None
        return self.look.find_lock(self[thread], futex)

    def wait(self, thread: int) -> SeenLock:
        found = self.view(thread)
        assert found is not None
        return found

    # -- what a Target, a Code and Threads offer --

    def registers(self, thread: ThreadRef, names: Sequence[str] = ()) -> Mapping[str, int]:
        return {}

    def unwind(self, thread: ThreadRef, registers: Mapping[str, int]) -> list[tuple[int, int]]:
        return self.frames[thread.number]

    def module(self, address: int) -> Module | None:
        return next((module for module in self.modules if module.contains(address)), None)

    def function_range(self, pc: int) -> tuple[int, int] | None:
        return (pc & ~0xFF, (pc & ~0xFF) + 0x100) if self.module(pc) else None

    def symbol(self, address: int, index: int = 0) -> Symbol:
        return Symbol(next((name for name, at in self.names.items() if at == address & ~0xFF), None))

    @property
    def all_available(self) -> bool:
        return all(seen.unavailable is None for seen in self.seen)

    def __iter__(self) -> Iterator[SeenThread]:
        return iter(self.seen)

    def __getitem__(self, number: int) -> SeenThread:
        return self.seen[number - 1]


def holders(lock: SeenLock) -> tuple[int, ...]:
    return tuple(holder.thread for holder in lock.holders)


@pytest.fixture
def process() -> Process:
    return Process()


READ, CLONE = LIBC + 0x110, LIBC + 0x210
MASTER = [PARALLEL + 0x20, APP + 0x20, CLONE]
WORKER = [POOL_START + 0x30, CLONE]
BODY = APP + 0x120


def word_of(team: int) -> int:
    return team + LAYOUTS["gomp_team"].offset("barrier") + LAYOUTS["gomp_barrier_t"].offset("generation")


def barrier_of(team: int) -> int:
    return team + LAYOUTS["gomp_team"].offset("barrier")


# -- waiting threads -------------------------------------------------------------------------------------------

def test_waits_outside_libgomp_are_not_read(process: Process) -> None:
    thread = process.sleep(process.thread([READ, BODY]), process.build.alloc(8))
    assert process.view(thread) is None
    assert process.memory.reads == []


def test_wait_of_another_operation(process: Process) -> None:
    team = process.team(2)
    thread = process.asleep(MASTER, word_of(team), 0, team)
    futex = process[thread].futex
    assert futex is not None
    process.change(thread, futex=replace(futex, op=0x89))
    assert process.view(thread) is None
    process.change(thread, futex=futex)
    assert process.view(thread) is not None


def test_word_that_makes_no_sense(process: Process) -> None:
    assert process.view(process.asleep(WORKER, process.build.alloc(256) + 64)) is None
    assert process.view(process.asleep(WORKER, 0xDEAD_0000)) is None


def test_barrier_of_several_threads_is_read_once(process: Process) -> None:
    team = process.team(missing=1)
    sleepers = [process.asleep(WORKER, word_of(team), 0, team, i) for i in (1, 2, 3)]
    first = process.wait(sleepers[0])
    process.memory.reads.clear()
    assert process.wait(sleepers[1]) is first
    assert process.memory.reads == []


# -- barriers --------------------------------------------------------------------------------------------------

def test_the_missing_hold_up_the_others(process: Process) -> None:
    team = process.team(missing=2)
    waits = process.asleep(MASTER, word_of(team), 0, team, 0)
    missing = tuple(process.thread([READ, BODY, *WORKER], team, i) for i in (1, 2))
    process.asleep([BODY, *WORKER], word_of(team), 0, team, 3)
    process.thread([READ, APP + 0x20])
    wait = process.wait(waits)
    assert (wait.kind, wait.address, wait.state) == ("openmp-barrier", barrier_of(team), "2 of 4 arrived")
    assert (holders(wait), wait.candidates, wait.as_lock(()).orphan) == (missing, (), None)
    assert wait.why is not None
    assert "2 threads have not arrived" in explain(wait.why)


def test_end_of_a_region(process: Process) -> None:
    team = process.team(missing=TOTAL)
    process.barrier(barrier_of(team), total=TOTAL, awaited=TOTAL, awaited_final=1, generation=16)
    master = process.thread([READ, BODY, *MASTER], team)
    waits = [process.asleep(WORKER, word_of(team), 16, team, i) for i in (1, 2, 3)]
    assert (holders(process.wait(waits[0])), process.wait(waits[0]).state) == ((master,), "3 of 4 arrived")


def test_one_more_than_counted_is_elsewhere(process: Process) -> None:
    team = process.team(missing=1)
    waits = process.asleep(MASTER, word_of(team), 0, team, 0)
    elsewhere = tuple(process.thread([READ, BODY, *WORKER], team, i) for i in (1, 2))
    process.asleep(WORKER, word_of(team), 0, team, 3)
    wait = process.wait(waits)
    assert (holders(wait), wait.candidates) == ((), elsewhere)


def test_member_that_is_not_seen_as_one(process: Process) -> None:
    team = process.team(missing=1)
    waits = process.asleep(MASTER, word_of(team), 0, team, 0)
    elsewhere = process.thread([READ, BODY, *WORKER], team, 1)
    process.asleep(WORKER, word_of(team), 0, team, 2)
    process.thread([READ, BODY, *WORKER])
    wait = process.wait(waits)
    assert (holders(wait), wait.candidates, wait.as_lock(()).orphan) == ((), (elsewhere,), None)


def test_thread_that_spins_in_the_library_has_arrived(process: Process) -> None:
    team = process.team(missing=1)
    waits = process.asleep(MASTER, word_of(team), 0, team, 0)
    missing = process.thread([READ, BODY, *WORKER], team, 1)
    process.thread([WAIT + 8, *WORKER], team, 2)
    process.asleep(WORKER, word_of(team), 0, team, 3)
    assert holders(process.wait(waits)) == (missing,)


def test_thread_that_sleeps_elsewhere_in_the_library_is_missing(process: Process) -> None:
    team = process.team(2, missing=1)
    waits = process.asleep(MASTER, word_of(team), 0, team, 0)
    missing = process.asleep([BODY, *WORKER], process.build.alloc(8), 0xFFFFFFFF, team, 1)
    assert holders(process.wait(waits)) == (missing,)


def test_member_that_cannot_be_read(process: Process) -> None:
    team = process.team(missing=1)
    waits = process.asleep(MASTER, word_of(team), 0, team, 0)
    process.change(process.thread([READ, BODY, *WORKER], team, 1), unavailable=text("it runs"))
    for i in (2, 3):
        process.asleep(WORKER, word_of(team), 0, team, i)
    wait = process.wait(waits)
    assert (holders(wait), wait.candidates, wait.as_lock(()).orphan) == ((), (), None)


def test_nested_teams(process: Process) -> None:
    outer = process.team(2, missing=1)
    inner = process.team(2, missing=1, prev_team=outer, prev_team_id=1)
    first = process.asleep(MASTER, word_of(outer), 0, outer, 0)
    second = process.asleep([BODY, *WORKER], word_of(inner), 0, inner, 0)
    third = process.thread([READ, BODY, *WORKER], inner, 1)
    assert holders(process.wait(first)) == (second,)
    assert holders(process.wait(second)) == (third,)


def test_two_teams(process: Process) -> None:
    teams = [process.team(2, missing=1) for _ in range(2)]
    waits = [process.asleep(MASTER, word_of(team), 0, team, 0) for team in teams]
    missing = [process.thread([READ, BODY, *WORKER], team, 1) for team in teams]
    assert [holders(process.wait(thread)) for thread in waits] == [(thread,) for thread in missing]


def test_tasks_are_left(process: Process) -> None:
    team = process.team(3, missing=3)
    process.barrier(barrier_of(team), total=3, awaited=3, awaited_final=3, generation=2)
    waits = process.asleep([BODY, *MASTER], word_of(team), 0, team, 0)
    runs = process.thread([READ, APP + 0x220, WAIT + 0x20, BODY, *WORKER], team, 1)
    process.asleep([BODY, *WORKER], word_of(team), 2, team, 2)
    wait = process.wait(waits)
    assert (holders(wait), wait.state) == ((runs,), "3 of 3 arrived, tasks left")


def test_tasks_left_without_a_thread_to_run_them(process: Process) -> None:
    team = process.team(2, missing=2)
    process.barrier(barrier_of(team), total=2, awaited=2, awaited_final=2, generation=2)
    waits = process.asleep([BODY, *MASTER], word_of(team), 0, team, 0)
    process.asleep([BODY, *WORKER], word_of(team), 0, team, 1)
    wait = process.wait(waits)
    assert (holders(wait), wait.candidates) == ((), ())
    assert said(wait.why) == "some tasks are unfinished, and the threads that run them are not recorded"


def test_barrier_that_has_ended(process: Process) -> None:
    team = process.team(2, missing=2)
    process.barrier(barrier_of(team), total=2, awaited=1, awaited_final=2, generation=8)
    waits = process.asleep([BODY, *MASTER], word_of(team), 0, team, 0)
    process.thread([READ, BODY, *WORKER], team, 1)
    wait = process.wait(waits)
    assert (holders(wait), wait.candidates, wait.as_lock(()).orphan) == ((), (), None)


# -- pools -----------------------------------------------------------------------------------------------------

def dock(process: Process, awaited: int = 1) -> int:
    """The barrier of a pool of four."""
    return process.barrier(process.build.alloc(512) + 256, total=TOTAL, awaited=awaited, awaited_final=TOTAL)


def test_idle_pool(process: Process) -> None:
    last = process.team()
    at = dock(process)
    sleepers = [process.asleep(WORKER, at + 4, 0, last, i) for i in (1, 2, 3)]
    process.thread([READ, APP + 0x20])
    wait = process.wait(sleepers[0])
    assert (wait.kind, wait.address, wait.state) == ("openmp-barrier", at, "idle")
    assert (holders(wait), wait.candidates, wait.as_lock(()).orphan) == ((), (), None)


def test_region_that_waits_for_its_pool(process: Process) -> None:
    waits = process.asleep(MASTER, dock(process, 2) + 4, 0, process.team())
    process.thread([CLONE])  # a thread that is just being started
    wait = process.wait(waits)
    assert (wait.state, wait.holders, wait.as_lock(()).orphan) == ("2 of 4 arrived", (), None)


# -- a child of fork ---------------------------------------------------------------------------------------------

def test_team_left_behind_by_fork(process: Process) -> None:
    team = process.team(missing=3)
    waits = process.asleep(MASTER, word_of(team), 0, team, 0)
    process.thread([READ, APP + 0x20, CLONE])
    wait = process.wait(waits)
    assert (wait.state, wait.holders, said(wait.as_lock(()).orphan)) == ("1 of 4 arrived", (), "left behind by fork")
    assert wait.why is not None
    assert "3 of its 4 threads" in explain(wait.why)


def test_pool_left_behind_by_fork(process: Process) -> None:
    waits = process.asleep(MASTER, dock(process, 2) + 4, 0, process.team())
    process.thread([READ, APP + 0x20, CLONE])
    assert said(process.wait(waits).as_lock(()).orphan) == "left behind by fork"


def test_new_threads_in_the_place_of_a_pool_left_behind(process: Process) -> None:
    """They have the memory that the pool's had, into which libgomp writes as if they were the pool."""
    team = process.team(missing=3)
    waits = process.asleep(MASTER, word_of(team), 0, team, 0)
    for i in (1, 2, 3):
        process.thread([READ, APP + 0x20, CLONE], team, i)
    wait = process.wait(waits)
    assert (holders(wait), wait.candidates, said(wait.as_lock(()).orphan)) == ((), (), "left behind by fork")


def test_members_that_ended(process: Process) -> None:
    team = process.team(missing=1)
    waits = [process.asleep(WORKER, word_of(team), 0, team, i) for i in (1, 2, 3)]
    process.thread([READ, APP + 0x20, CLONE])
    assert said(process.wait(waits[0]).as_lock(()).orphan) == "thread exited"


@pytest.mark.parametrize("pcs", [[CLONE], [READ, APP + 0x20, *WORKER], [READ, APP + 0x20]],
                         ids=["starting", "inside libgomp", "stack is cut off"])
def test_thread_that_may_yet_come(process: Process, pcs: list[int]) -> None:
    team = process.team(2, missing=1)
    waits = process.asleep(MASTER, word_of(team), 0, team, 0)
    process.thread(pcs)
    wait = process.wait(waits)
    assert (holders(wait), wait.as_lock(()).orphan) == ((), None)


# -- a libgomp whose code is not understood ----------------------------------------------------------------------

def test_stacks_tell_the_only_team() -> None:
    process = Process(tells=False)
    team = process.team(missing=1)
    waits = process.asleep(MASTER, word_of(team))
    missing = process.thread([READ, BODY, *WORKER])
    for _ in range(2):
        process.asleep(WORKER, word_of(team))
    process.thread([READ, APP + 0x20])
    assert holders(process.wait(waits)) == (missing,)


def test_stacks_do_not_tell_two_teams_apart() -> None:
    process = Process(tells=False)
    teams = [process.team(2, missing=1) for _ in range(2)]
    waits = [process.asleep(MASTER, word_of(team)) for team in teams]
    missing = tuple(process.thread([READ, BODY, *WORKER]) for _ in teams)
    wait = process.wait(waits[0])
    assert wait.holders == ()
    assert set(missing) <= set(wait.candidates)


def test_stacks_tell_an_idle_pool() -> None:
    process = Process(tells=False)
    at = dock(process)
    sleepers = [process.asleep(WORKER, at + 4) for _ in range(3)]
    process.thread([READ, APP + 0x20])
    assert process.wait(sleepers[0]).state == "idle"


# -- critical sections -------------------------------------------------------------------------------------------

HELD, NAME, OTHER_NAME = 0xFFFFFFFF, APP + 0x4000, APP + 0x4040


def test_critical_section(process: Process) -> None:
    enter = process.call(BODY, STARTS)
    process.call(BODY + 0x40, ENDS)
    waits = process.asleep([enter, *MASTER], GOMP_FILE + 0x8100, HELD)
    also = process.asleep([enter, *WORKER], GOMP_FILE + 0x8100, HELD)
    inside = process.thread([READ, BODY + 0x20, *WORKER])
    process.thread([READ, BODY + 0x60, *WORKER])  # behind it
    process.thread([READ, BODY - 0x10, *WORKER])  # before it
    wait = process.wait(waits)
    assert (wait.kind, wait.address, wait.state) == ("openmp-lock", GOMP_FILE + 0x8100, "locked")
    assert (holders(wait), wait.candidates) == ((inside,), ())
    assert process.wait(also) is wait


def test_thread_that_runs_inside(process: Process) -> None:
    enter = process.call(BODY, STARTS)
    process.call(BODY + 0x40, ENDS)
    waits = process.asleep([enter, *MASTER], GOMP_FILE + 0x8100, HELD)
    inside = process.thread([enter, *WORKER])  # at the first instruction of the section
    process.thread([BODY + 0x45, *WORKER])  # at the first behind it
    assert holders(process.wait(waits)) == (inside,)


def test_thread_that_is_about_to_leave(process: Process) -> None:
    enter = process.call(BODY, STARTS)
    leave = process.call(BODY + 0x40, ENDS)
    waits = process.asleep([enter, *MASTER], GOMP_FILE + 0x8100, HELD)
    inside = process.thread([WAIT + 8, leave, *WORKER])
    assert holders(process.wait(waits)) == (inside,)


def test_two_that_seem_to_be_inside(process: Process) -> None:
    enter = process.call(BODY, STARTS)
    waits = process.asleep([enter, *MASTER], GOMP_FILE + 0x8100, HELD)
    inside = tuple(process.thread([READ, BODY + 0x20, *WORKER]) for _ in range(2))
    wait = process.wait(waits)
    assert (holders(wait), wait.candidates) == ((), inside)


def test_nobody_is_inside(process: Process) -> None:
    word = process.build.alloc(8)
    enter = process.call(BODY, STARTS)
    process.call(BODY + 0x10, ENDS)
    waits = process.asleep([enter, *MASTER], word, HELD)
    mentions = process.thread([READ, BODY + 0x60, *WORKER], words={0x80: word})
    wait = process.wait(waits)
    assert (holders(wait), wait.candidates) == ((), (mentions,))


def test_thread_that_cannot_be_read_may_be_inside(process: Process) -> None:
    enter = process.call(BODY, STARTS)
    waits = process.asleep([enter, *MASTER], GOMP_FILE + 0x8100, HELD)
    inside = process.thread([READ, BODY + 0x20, *WORKER])
    process.change(process.thread([READ, BODY + 0x20, *WORKER]), unavailable=text("it runs"))
    wait = process.wait(waits)
    assert (holders(wait), wait.candidates) == ((), (inside,))


def test_sections_of_other_names(process: Process) -> None:
    enter = process.call(BODY, NAMED_STARTS, NAME)
    process.call(BODY + 0x80, NAMED_ENDS, NAME)
    elsewhere = APP + 0x220
    process.call(elsewhere, NAMED_STARTS, NAME)
    process.call(elsewhere + 0x80, NAMED_ENDS, NAME)
    other = APP + 0x320
    process.call(other, NAMED_STARTS, OTHER_NAME)
    process.call(other + 0x80, NAMED_ENDS, OTHER_NAME)
    waits = process.asleep([enter, *MASTER], NAME, HELD)
    inside = process.thread([READ, elsewhere + 0x40, *WORKER])
    process.thread([READ, other + 0x40, *WORKER])
    process.thread([READ, other + 0x40, *WORKER])
    assert holders(process.wait(waits)) == (inside,)


def test_section_whose_name_the_code_does_not_show(process: Process) -> None:
    enter = process.call(BODY, NAMED_STARTS)
    process.call(BODY + 0x80, NAMED_ENDS)
    elsewhere = APP + 0x220
    process.call(elsewhere, NAMED_STARTS)
    waits = process.asleep([enter, *MASTER], NAME, HELD)
    inside = process.thread([READ, BODY + 0x40, *WORKER])
    process.thread([READ, elsewhere + 0x40, *WORKER])
    # it is also unknown whether its end is the end of this section
    process.thread([READ, BODY - 0x10, *WORKER])
    assert holders(process.wait(waits)) == (inside,)


def test_section_inside_another(process: Process) -> None:
    process.call(BODY, NAMED_STARTS, NAME)
    inner = process.call(BODY + 0x20, NAMED_STARTS, OTHER_NAME)
    process.call(BODY + 0x40, NAMED_ENDS, OTHER_NAME)
    process.call(BODY + 0x80, NAMED_ENDS, NAME)
    enter = process.call(APP + 0x220, NAMED_STARTS, NAME)
    waits = process.asleep([enter, *MASTER], NAME, HELD)
    behind_inner = process.thread([READ, BODY + 0x60, *WORKER])
    wants_inner = process.asleep([inner, *WORKER], OTHER_NAME, HELD)
    assert holders(process.wait(wants_inner)) == ()
    assert process.wait(waits).candidates == (behind_inner, wants_inner)


def test_section_entered_again_by_the_thread_that_is_inside(process: Process) -> None:
    process.call(BODY, NAMED_STARTS, NAME)
    process.call(BODY + 0x80, NAMED_ENDS, NAME)
    again = process.call(APP + 0x220, NAMED_STARTS, NAME)
    waits = process.asleep([again, BODY + 0x40, *MASTER], NAME, HELD)
    assert holders(process.wait(waits)) == (waits,)


def test_waiter_is_not_inside_what_it_waits_for(process: Process) -> None:
    process.call(BODY - 0x10, STARTS)
    enter = process.call(BODY, STARTS)
    waits = process.asleep([enter, *MASTER], GOMP_FILE + 0x8100, HELD)
    wait = process.wait(waits)
    assert (holders(wait), wait.candidates) == ((), ())


# -- locks, turns, tasks -----------------------------------------------------------------------------------------

def test_lock(process: Process) -> None:
    word = process.build.alloc(8)
    process.names["omp_set_lock"] = OTHER
    taken = process.call(BODY, OTHER)
    waits = process.asleep([taken, *MASTER], word, HELD, words={0x80: word})
    holds = process.thread([READ, BODY + 0x20, *WORKER], words={0x80: word})
    wait = process.wait(waits)
    assert (wait.kind, wait.state, wait.holders, wait.candidates) == ("openmp-lock", "locked", (), (holds,))


def nest_lock(process: Process, count: int, owner: int) -> int:
    at = process.build.alloc(16)
    process.memory.u32(at, HELD, count)
    process.memory.u64(at + 8, owner)
    process.names["omp_set_nest_lock"] = OTHER
    return at


@pytest.mark.parametrize(("tasks", "found"), [((0x5000, 0x6000), (1,)), ((0x4000, 0x6000), ()), ((0x5000, 0x5010), ())])
def test_nested_lock_names_a_task(process: Process, tasks: tuple[int, int], found: tuple[int, ...]) -> None:
    word = nest_lock(process, 2, 0x5098)
    for task in tasks:
        number = process.thread([READ, BODY + 0x20, *WORKER])
        process.memory.u64(process[number].pthread + TASK, task)
    waits = process.asleep([process.call(BODY, OTHER), *MASTER], word, HELD)
    assert (process.wait(waits).kind, holders(process.wait(waits))) == ("openmp-lock", found)


def test_nested_lock_that_is_about_to_be_taken(process: Process) -> None:
    word = nest_lock(process, 0, 0x5098)
    number = process.thread([READ, BODY + 0x20, *WORKER])
    process.memory.u64(process[number].pthread + TASK, 0x5000)
    waits = process.asleep([process.call(BODY, OTHER), *MASTER], word, HELD)
    assert holders(process.wait(waits)) == ()


def test_lock_on_a_pointer(process: Process) -> None:
    word = process.build.alloc(256) + 64
    waits = process.asleep([BODY, *WORKER], word, 2)
    assert (process.wait(waits).kind, holders(process.wait(waits))) == ("openmp-lock", ())


@pytest.mark.parametrize(("function", "kind", "state", "why"), [
    ("GOMP_ordered_start", "openmp-lock", "locked", "ordered section"),
    ("GOMP_taskwait", "openmp-barrier", "tasks left", "tasks are unfinished"),
    ("GOMP_taskgroup_end", "openmp-barrier", "tasks left", "tasks are unfinished"),
    ("GOMP_whatever", "openmp-lock", "locked", "semaphore"),
])
def test_turns_and_tasks(process: Process, function: str, kind: str, state: str, why: str) -> None:
    team = process.team(3)
    process.names[function] = OTHER
    waits = process.asleep([process.call(BODY, OTHER), *MASTER], process.build.alloc(8), 0x80000000, team, 0)
    awake = process.thread([READ, BODY + 0x20, *WORKER], team, 1)
    process.asleep([BODY, *WORKER], word_of(team), 0, team, 2)
    process.thread([READ, BODY + 0x20, *WORKER])
    wait = process.wait(waits)
    assert (wait.kind, wait.state, wait.holders, wait.candidates) == (kind, state, (), (awake,))
    assert why in (said(wait.why) or "")


# -- LLVM's OpenMP -----------------------------------------------------------------------------------------------

COND_WAIT, SUSPEND = LIBC + 0x310, LIBOMP + 0x120


@pytest.mark.parametrize(("pcs", "expected"), [
    ([COND_WAIT, SUSPEND, LIBOMP + 0x220, CLONE], "idle OpenMP worker of libomp.so.5"),
    ([COND_WAIT, LIBOMP + 0x20, BODY, LIBOMP + 0x420, CLONE], "OpenMP worker of libomp.so.5 in __kmpc_barrier"),
    # the body of the region has jumped to the barrier
    ([COND_WAIT, SUSPEND, LIBOMP + 0x20, LIBOMP + 0x420, CLONE], "OpenMP worker of libomp.so.5 in __kmpc_barrier"),
    ([COND_WAIT, SUSPEND, LIBOMP + 0x520, BODY], "OpenMP worker of libomp.so.5"),
    ([COND_WAIT, BODY, LIBOMP + 0x420, CLONE], None),
    ([COND_WAIT, SUSPEND], None),
    ([BODY], None),
])
def test_waits_of_llvm(process: Process, pcs: list[int], expected: str | None) -> None:
    process.names["__kmpc_barrier"] = LIBOMP
    look = OpenMP(scene_of(process))
    assert said(look.describe_condvar_wait(process[process.thread(pcs)])) == expected


def test_name_by_which_llvm_is_called(process: Process) -> None:
    process.names["__kmpc_critical"] = LIBOMP + 0x700
    call = process.call(BODY, LIBOMP + 0x700)
    look = OpenMP(scene_of(process))
    thread = process[process.thread([COND_WAIT, SUSPEND, call])]
    assert said(look.describe_condvar_wait(thread)) == "OpenMP worker of libomp.so.5 in __kmpc_critical"

