"""The system calls that threads sleep in, from a fake /proc."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gdbext.inferior.asleep import Sleep, SystemCall, parse_switches, parse_system_call, read_asleep
from tests.support.fake_proc import FakeProc

WRITE = "1 0x4 0x7f01 0x100000 0x0 0x0 0xa5b8e8 0x7ffe10 0x7f438f\n"
CALL = SystemCall(1, (4, 0x7F01, 0x100000, 0, 0, 0xA5B8E8), 0x7FFE10, 0x7F438F)


@pytest.fixture
def fake(tmp_path: Path) -> FakeProc:
    return FakeProc(tmp_path)


def found(fake: FakeProc, seconds: float = 10) -> dict[int, Sleep]:
    return read_asleep(100, {1, 44}, str(fake.root), seconds)


@pytest.mark.parametrize(("text", "call"), [
    (WRITE, CALL), ("-1 0x7ffe10 0x7f438f\n", SystemCall(-1, (), 0x7FFE10, 0x7F438F))])
def test_parse_system_call(text: str, call: SystemCall) -> None:
    assert parse_system_call(text) == call


@pytest.mark.parametrize("text", ["", "\n", "running\n", "202", "202 0x1", "what is this", "202 0x1 0x2 zz"])
def test_parse_system_call_of_other_text_is_none(text: str) -> None:
    assert parse_system_call(text) is None


def test_parse_switches() -> None:
    assert parse_switches("State:\tS\nvoluntary_ctxt_switches:\t17\nnonvoluntary_ctxt_switches:\t3\n") == 17
    assert parse_switches("nonvoluntary_ctxt_switches:\t3\n") is None


def test_read_asleep_finds_threads_in_these_calls(fake: FakeProc) -> None:
    fake.asleep(100, WRITE, switches=7)
    fake.asleep(101, "44" + WRITE[1:], function="0")
    fake.asleep(102, "202" + WRITE[1:])
    fake.asleep(103, "running\n")
    fake.asleep(104, "-1 0x7ffe10 0x7f438f\n")
    assert found(fake) == {100: Sleep(CALL, 7), 101: Sleep(SystemCall(44, *list_of(CALL)), 5)}


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
        assert fake.proc(asleep=asleep).slept_until_stopped(100, CALL) is expected
    fake.asleep(100, WRITE, switches=6, **stopped)
    proc = fake.proc(asleep=asleep)
    assert not proc.slept_until_stopped(101, CALL)
    assert not proc.slept_until_stopped(100, SystemCall(1, CALL.arguments, 0x7FFE18, CALL.program_counter))
    assert not fake.proc().slept_until_stopped(100, CALL)
    os.unlink(fake.root / "100/task/100/status")
    assert not proc.slept_until_stopped(100, CALL)
