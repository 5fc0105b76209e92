"""Threads of a running process: from made-up files of /proc, and from this process."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from gdbext import arch
from gdbext.direct.tasks import Task, listed, read_runs, read_switches, read_tasks, robust_list
from gdbext.inferior.asleep import SystemCall

FUTEX = "202 0x1000 0x80 0x0 0x0 0x0 0x0 0x7000 0x4000\n"
CALL = SystemCall(202, (0x1000, 0x80, 0, 0, 0, 0), 0x7000, 0x4000)


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
