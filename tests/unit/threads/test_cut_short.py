"""Writes that the stop of a thread has cut short."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from gdbext.inferior.proc.threads import read_asleep
from gdbext.model import DERIVED, EXCLUSIVE, RECORDED, Thread, Wait
from gdbext.model.reasons import because
from tests.support.blocked_threads import look, put, rendered
from tests.support.fake_proc import FakeProc
from tests.support.fake_target import FakeTarget
from tests.support.reasons import said

WORD = (1 << 64) - 1
WRITE, WRITEV, SENDTO, SENDMSG, SENDMMSG, SENDFILE, RECVFROM, SPLICE = 1, 20, 44, 46, 307, 40, 45, 275
RECVMSG, IO_URING_ENTER = 47, 426
VECTOR, MESSAGE = "a vector", "a message"
#: Calls on descriptor 5 that are to write 100 bytes (sendmmsg: 100 messages).
WRITES = {"write": (WRITE, 0, 100), "sendto": (SENDTO, 0, 100, 0), "writev": (WRITEV, VECTOR, 2),
          "sendmsg": (SENDMSG, MESSAGE, 0), "sendmmsg": (SENDMMSG, 0, 100, 0)}
UNSURE = "was in {} when it was stopped; whether it was blocked there is not known"


@pytest.fixture
def fake(tmp_path: Path) -> FakeProc:
    return FakeProc(tmp_path)


@pytest.fixture
def live(fake: FakeProc) -> FakeTarget:
    target = FakeTarget()
    target.proc = fake.proc()
    return target


@pytest.fixture
def core() -> FakeTarget:
    return FakeTarget("core")


def returned(target: FakeTarget, result: int, *call: int | str) -> Thread:
    """The only thread of a target, stopped as a call on descriptor 5 returns."""
    vector = put(target, struct.pack("<QQQQ", 0, 60, 0, 40))
    places = {VECTOR: vector, MESSAGE: put(target, struct.pack("<16xQQ", vector, 2))}
    number, *values = [places[each] if isinstance(each, str) else each for each in call]
    target.blocked(target.thread(), number, 5, *values, rax=result)
    return look(target)[0][0]


@pytest.mark.parametrize("call", WRITES)
@pytest.mark.parametrize("link", ["pipe:[7]", "socket:[7]", "/dev/pts/3"])
def test_part_written_to_a_stream_that_blocks_is_a_wait(live: FakeTarget, fake: FakeProc, call: str,
                                                        link: str) -> None:
    fake.open(5, link, os.O_RDWR)
    thread = returned(live, 99, *WRITES[call])
    assert (thread.status, thread.syscall) == ("blocked", call)
    assert thread.waits == Wait("descriptor:0x5", EXCLUSIVE, False, DERIVED, because("wrote-a-part"))
    assert look(live)[1]["descriptor:0x5"].state == "waiting to write"


@pytest.mark.parametrize("call", WRITES)
def test_part_written_to_what_does_not_block_is_not_a_wait(live: FakeTarget, fake: FakeProc, call: str) -> None:
    fake.open(5, "pipe:[7]", os.O_WRONLY | os.O_NONBLOCK)
    assert returned(live, 99, *WRITES[call]).status == "running"


@pytest.mark.parametrize("call", [(SENDTO, 0, 100, 0x40), (SENDMSG, MESSAGE, 0x40), (SENDMMSG, 0, 100, 0x40)])
def test_part_sent_by_a_call_that_does_not_block_is_not_a_wait(live: FakeTarget, fake: FakeProc,
                                                               call: tuple[int, ...]) -> None:
    fake.open(5, "socket:[7]", os.O_RDWR)
    assert returned(live, 99, *call).status == "running"


@pytest.mark.parametrize("call", WRITES)
@pytest.mark.parametrize("result", [0, 100, WORD, WORD - 10])
def test_whole_write_and_error_are_not_a_wait(live: FakeTarget, fake: FakeProc, call: str, result: int) -> None:
    fake.open(5, "pipe:[7]", os.O_WRONLY)
    assert returned(live, result, *WRITES[call]).status == "running"


@pytest.mark.parametrize("call", WRITES)
def test_part_written_in_a_core_is_not_known(core: FakeTarget, call: str) -> None:
    thread = returned(core, 99, *WRITES[call])
    assert (thread.status, thread.syscall, thread.waits) == ("unknown", call, None)
    assert said(thread.blocked_on) == UNSURE.format(call)
    text = rendered(core)
    assert f"\nUNKNOWN: thread 1 {UNSURE.format(call)}.\n" in text
    assert f"\nThread 1 (LWP {thread.lwp}) (see above)\n" in text


@pytest.mark.parametrize(("call", "arguments", "name"), [
    (WRITE, (0, 100), "write"),  # to a file, or a named pipe
    (SENDFILE, (6, 0, 100), "sendfile"), (SPLICE, (0, 6, 0, 100), "splice"), (RECVFROM, (0, 100, 0x100), "recvfrom"),
    (RECVMSG, (MESSAGE, 0x100), "recvmsg"), (IO_URING_ENTER, (101, 1, 1), "io_uring_enter")])
def test_part_that_may_be_all_is_not_known(live: FakeTarget, fake: FakeProc, call: int,
                                           arguments: tuple[int | str, ...], name: str) -> None:
    fake.open(5, "/tmp/some", os.O_RDWR)
    thread = returned(live, 99, call, *arguments)
    assert (thread.status, said(thread.blocked_on)) == ("unknown", UNSURE.format(name))


@pytest.mark.parametrize(("at", "count"), [(VECTOR, 0), (VECTOR, 1 << 40), (0xDEAD000, 2)])
def test_part_of_a_vector_that_makes_no_sense(live: FakeTarget, fake: FakeProc, at: int | str, count: int) -> None:
    fake.open(5, "pipe:[7]", os.O_WRONLY)
    assert returned(live, 99, WRITEV, at, count).status == "running"


@pytest.mark.parametrize("call", [
    (RECVFROM, 0, 100, 0), (RECVMSG, MESSAGE, 0), (RECVMSG, MESSAGE, 0x140), (IO_URING_ENTER, 1, 1, 0),
    (IO_URING_ENTER, 1, 0, 1)])
def test_part_received_by_a_call_that_does_not_wait_for_all_is_not_a_wait(
        live: FakeTarget, fake: FakeProc, call: tuple[int | str, ...]) -> None:
    fake.open(5, "socket:[7]", os.O_RDWR)
    assert returned(live, 99, *call).status == "running"


# -- with what the kernel recorded before the stop ---------------------------------------------------------------

def recorded(fake: FakeProc, result: int, *call: int | str, moved: str | None = None, link: str = "/tmp/some",
             flags: int = os.O_RDWR, state: str = "S (sleeping)", function: str = "pipe_write") -> Thread:
    """The only thread, which slept in a call on descriptor 5 before it was stopped.

    :param moved: a register that had another value then.
    :param state: its state then.
    :param function: the function of the kernel in which it slept.
    """
    fake.open(5, link, flags)
    target = FakeTarget()
    returned(target, result, *call)
    lwp, registers = target.fakes[0].ref.lwp, dict(target.fakes[0].registers)
    if moved is not None:
        registers[moved] += 8
    names = ("rdi", "rsi", "rdx", "r10", "r8", "r9", "rsp", "rip")
    fake.asleep(lwp, " ".join([str(registers["orig_rax"]), *(hex(registers[name]) for name in names)]),
                state=state, function=function)
    asleep = read_asleep(fake.pid, {registers["orig_rax"]}, str(fake.root))
    fake.asleep(lwp, "running", switches=6)
    target.proc = fake.proc(asleep=asleep)
    return look(target)[0][0]


#: Calls that were perhaps complete when they returned 99.
UNCERTAIN: dict[str, tuple[int | str, ...]] = {
    "write": (WRITE, 0, 100), "sendfile": (SENDFILE, 6, 0, 100), "splice": (SPLICE, 0, 6, 0, 100),
    "recvfrom": (RECVFROM, 0, 100, 0x100), "recvmsg": (RECVMSG, MESSAGE, 0x100),
    "io_uring_enter": (IO_URING_ENTER, 100, 1, 1)}


@pytest.mark.parametrize("call", UNCERTAIN)
def test_thread_that_slept_until_the_stop_is_blocked(fake: FakeProc, call: str) -> None:
    thread = recorded(fake, 99, *UNCERTAIN[call])
    assert (thread.status, thread.syscall) == ("blocked", call)
    assert thread.waits == Wait("descriptor:0x5", EXCLUSIVE, False, RECORDED, because("interrupted-by-the-pause"))


def test_record_is_better_evidence_than_the_result(fake: FakeProc) -> None:
    thread = recorded(fake, 99, WRITE, 0, 100, link="pipe:[7]")
    assert thread.waits is not None
    assert thread.waits.evidence == RECORDED


@pytest.mark.parametrize("moved", ["orig_rax", "rdi", "rdx", "r9", "rsp", "rip"])
def test_thread_that_was_in_another_call_before_the_stop_may_have_run(fake: FakeProc, moved: str) -> None:
    thread = recorded(fake, 99, WRITE, 0, 100, moved=moved)
    assert (thread.status, said(thread.blocked_on)) == ("unknown", UNSURE.format("write"))


@pytest.mark.parametrize("result", [100, 0, WORD - 10])
def test_call_that_is_complete_is_not_a_wait_although_the_thread_slept_in_it(fake: FakeProc, result: int) -> None:
    assert recorded(fake, result, WRITE, 0, 100).status == "running"


def test_call_that_does_not_block_is_not_a_wait_although_the_thread_slept_in_it(fake: FakeProc) -> None:
    """It may have slept for another reason, such as a mutex of the kernel."""
    assert recorded(fake, 99, WRITE, 0, 100, link="pipe:[7]", flags=os.O_RDWR | os.O_NONBLOCK).status == "running"


@pytest.mark.parametrize(("state", "function"), [
    ("D (disk sleep)", "pipe_write"), ("T (stopped)", "do_signal_stop"), ("S (sleeping)", "do_freezer_trap")])
def test_thread_that_did_not_sleep_in_the_call_may_have_run(fake: FakeProc, state: str, function: str) -> None:
    assert recorded(fake, 99, WRITE, 0, 100, state=state, function=function).status == "unknown"
