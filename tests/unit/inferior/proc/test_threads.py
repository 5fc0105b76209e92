"""Threads of a running process: from made-up files of /proc, and from this process."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from gdbext import arch
from gdbext.inferior.proc.threads import (
    Sleep,
    SystemCall,
    Task,
    listed,
    parse_switches,
    parse_system_call,
    read_asleep,
    read_runs,
    read_switches,
    read_tasks,
    read_times,
    robust_list,
)
from tests.support.fake_proc import FakeProc

FUTEX = "202 0x1000 0x80 0x0 0x0 0x0 0x0 0x7000 0x4000\n"
CALL = SystemCall(202, (0x1000, 0x80, 0, 0, 0, 0), 0x7000, 0x4000)
WRITE = "1 0x4 0x7f01 0x100000 0x0 0x0 0xa5b8e8 0x7ffe10 0x7f438f\n"
WRITES = SystemCall(1, (4, 0x7F01, 0x100000, 0, 0, 0xA5B8E8), 0x7FFE10, 0x7F438F)


@pytest.fixture
def fake(tmp_path: Path) -> FakeProc:
    return FakeProc(tmp_path)


def add(root: Path, tid: int, call: str = FUTEX, schedstat: str = "500 20 7\n", switches: int = 3,
        state: str = "S", flags: int = 0x400100) -> None:
    folder = root / "100" / "task" / str(tid)
    folder.mkdir(parents=True)
    (folder / "syscall").write_text(call)
    (folder / "schedstat").write_text(schedstat)
    (folder / "stat").write_text(f"{tid} (a worker) {state} 1 100 1 0 -1 {flags} 114 0\n")
    (folder / "status").write_text(f"State:\tS (sleeping)\nvoluntary_ctxt_switches:\t{switches}\n")


def read(root: Path, *only: int) -> dict[int, Task]:
    return read_tasks(100, only or None, str(root))


def test_call_name_and_number_of_runs_of_each_thread(tmp_path: Path) -> None:
    add(tmp_path, 102, "running\n")
    add(tmp_path, 100)
    assert read(tmp_path) == {100: Task(100, "a worker", CALL, 7), 102: Task(102, "a worker", None, 7)}
    assert list(read(tmp_path, 102)) == [102]


def test_thread_outside_of_a_system_call_has_a_negative_number(tmp_path: Path) -> None:
    add(tmp_path, 100, "-1 0x7000 0x4000\n")
    assert read(tmp_path)[100].call == SystemCall(-1, (), 0x7000, 0x4000)


def test_switches_serve_where_the_kernel_does_not_count_runs(tmp_path: Path) -> None:
    add(tmp_path, 100, schedstat="0 0 0\n", switches=41)
    assert read(tmp_path)[100].runs == 41


def test_counters_alone(tmp_path: Path) -> None:
    add(tmp_path, 100)
    add(tmp_path, 102, schedstat="0 0 0\n", switches=41)
    assert read_runs(100, (100, 101, 102), str(tmp_path)) == {100: 7, 102: 41}
    assert read_switches(100, (100, 101, 102), str(tmp_path)) == {100: 3, 102: 41}


def test_thread_that_has_ended_is_left_out(tmp_path: Path) -> None:
    add(tmp_path, 100)
    assert list(read(tmp_path, 100, 101)) == [100]


@pytest.mark.parametrize(("state", "flags"), [("Z", 0x400100), ("S", 0x404050), ("R", 0x404050)])
def test_thread_without_code_of_the_process_is_left_out(state: str, flags: int, tmp_path: Path) -> None:
    """A main thread that has ended while others live, and workers of io_uring."""
    add(tmp_path, 100)
    add(tmp_path, 101, state=state, flags=flags)
    assert list(read(tmp_path)) == [100]
    assert listed(100, (100,), str(tmp_path)) == {100}


def test_thread_that_began_is_listed(tmp_path: Path) -> None:
    add(tmp_path, 100)
    add(tmp_path, 101)
    assert listed(100, (100, 102), str(tmp_path)) == {100, 101}


def test_process_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read(tmp_path)


@pytest.mark.parametrize(("later", "expected"), [
    (Task(1, "", CALL, 7), True),
    (Task(1, "", CALL, 8), False),
    (Task(1, "", None, 7), False),
    (Task(1, "", SystemCall(202, (0x2000, 0x80, 0, 0, 0, 0), 0x7000, 0x4000), 7), False),
    (Task(1, "", CALL, None), False),
])
def test_thread_has_slept_if_it_sleeps_and_has_not_begun_to_run(later: Task, expected: bool) -> None:
    assert later.has_slept_since(Task(1, "", CALL, 7)) is expected
    assert not later.has_slept_since(None)


def test_thread_that_ran_before_has_not_slept() -> None:
    running = Task(1, "", None, 7)
    assert not Task(1, "", CALL, 7).has_slept_since(running)
    assert not running.has_slept_since(running)


def test_robust_list_is_that_of_the_thread() -> None:
    names = arch.of("x86_64").system_call_names()
    number = next(number for number, name in names.items() if name == "get_robust_list")
    assert robust_list(threading.get_native_id(), number)
    assert robust_list(1 << 30, number) is None


def found(fake: FakeProc, seconds: float = 10) -> dict[int, Sleep]:
    return read_asleep(100, {1, 44}, str(fake.root), seconds)


@pytest.mark.parametrize(("text", "call"), [
    (WRITE, WRITES), ("-1 0x7ffe10 0x7f438f\n", SystemCall(-1, (), 0x7FFE10, 0x7F438F))])
def test_parse_system_call(text: str, call: SystemCall) -> None:
    assert parse_system_call(text) == call


@pytest.mark.parametrize("text", ["", "\n", "running\n", "202", "202 0x1", "what is this", "202 0x1 0x2 zz"])
def test_parse_system_call_of_other_text_is_none(text: str) -> None:
    assert parse_system_call(text) is None


def test_parse_switches() -> None:
    assert parse_switches(b"State:\tS\nvoluntary_ctxt_switches:\t17\nnonvoluntary_ctxt_switches:\t3\n") == 17
    assert parse_switches(b"nonvoluntary_ctxt_switches:\t3\n") is None


def test_read_asleep_finds_threads_in_these_calls(fake: FakeProc) -> None:
    fake.asleep(100, WRITE, switches=7)
    fake.asleep(101, "44" + WRITE[1:], function="0")
    fake.asleep(102, "202" + WRITE[1:])
    fake.asleep(103, "running\n")
    fake.asleep(104, "-1 0x7ffe10 0x7f438f\n")
    assert found(fake) == {100: Sleep(WRITES, 7), 101: Sleep(SystemCall(44, *list_of(WRITES)), 5)}


def list_of(call: SystemCall) -> tuple[tuple[int, ...], int, int]:
    return call.arguments, call.stack_pointer, call.program_counter


@pytest.mark.parametrize("state", ["D (disk sleep)", "R (running)", "T (stopped)", "t (tracing stop)"])
def test_read_asleep_leaves_out_threads_that_a_signal_does_not_wake(fake: FakeProc, state: str) -> None:
    fake.asleep(100, WRITE, state=state)
    assert found(fake) == {}


@pytest.mark.parametrize("function", ["ptrace_stop", "do_signal_stop", "do_freezer_trap", "get_signal.isra.0"])
def test_read_asleep_leaves_out_threads_that_are_stopped(fake: FakeProc, function: str) -> None:
    fake.asleep(100, WRITE, function=function)
    assert found(fake) == {}


@pytest.mark.parametrize("missing", ["syscall", "status"])
def test_read_asleep_leaves_out_threads_that_cannot_be_read(fake: FakeProc, missing: str) -> None:
    fake.asleep(100, WRITE)
    fake.asleep(101, WRITE)
    os.unlink(fake.root / "100/task/101" / missing)
    assert list(found(fake)) == [100]


def test_read_asleep_does_not_need_the_function_of_the_kernel(fake: FakeProc) -> None:
    fake.asleep(100, WRITE)
    os.unlink(fake.root / "100/task/100/wchan")
    assert list(found(fake)) == [100]


def test_read_asleep_of_a_process_that_cannot_be_read_is_empty(fake: FakeProc) -> None:
    assert found(fake) == {}
    fake.asleep(100, WRITE)
    (fake.root / "100/task/100").rename(fake.root / "100/task/x")
    assert found(fake) == {}


def test_read_asleep_ends_in_time(fake: FakeProc) -> None:
    fake.asleep(100, WRITE)
    assert found(fake, seconds=-1) == {}


def test_slept_until_stopped(fake: FakeProc) -> None:
    fake.asleep(100, WRITE)
    asleep = found(fake)
    stopped = {"state": "t (tracing stop)", "function": "ptrace_stop"}
    for switches, expected in ((6, True), (7, False)):
        fake.asleep(100, WRITE, switches=switches, **stopped)
        assert fake.proc(asleep=asleep).slept_until_stopped(100, WRITES) is expected
    fake.asleep(100, WRITE, switches=6, **stopped)
    proc = fake.proc(asleep=asleep)
    assert not proc.slept_until_stopped(101, WRITES)
    assert not proc.slept_until_stopped(100, SystemCall(1, WRITES.arguments, 0x7FFE18, WRITES.program_counter))
    assert not fake.proc().slept_until_stopped(100, WRITES)
    os.unlink(fake.root / "100/task/100/status")
    assert not proc.slept_until_stopped(100, WRITES)


def test_times_when_kernel_lacks_schedstat(tmp_path: Path) -> None:
    add(tmp_path, 100)
    folder = tmp_path / "100" / "task" / "100"
    (folder / "schedstat").unlink()
    (folder / "stat").write_text("100 (a b) c) S " + "0 " * 10 + "3 4 0 0")
    assert read_times(100, str(tmp_path)) == {100: 7 * 1_000_000_000 // os.sysconf("SC_CLK_TCK")}
    assert read_times(101, str(tmp_path)) == {}


def test_times_of_threads(tmp_path: Path) -> None:
    add(tmp_path, 100)
    add(tmp_path, 101, schedstat="700 20 7\n")
    assert read_times(100, str(tmp_path)) == {100: 500, 101: 700}
