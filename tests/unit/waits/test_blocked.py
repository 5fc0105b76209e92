"""Waits for other things than locks, with fake registers, memory and /proc. tests/gdb/test_blocked.py has real ones."""

from __future__ import annotations

import os
import random
import struct
import time
from collections.abc import Callable

import pytest

from gdbext.arch import x86_64
from gdbext.arch.protocol import Syscall
from gdbext.arch.x86_64.system_calls import system_call
from gdbext.errors import MemoryUnreadable
from gdbext.glibc.futex import FUTEX_WAIT, PRIVATE, FutexWait, decode_futex_waits
from gdbext.inferior.protocol import ThreadRef
from gdbext.model import EXCLUSIVE, Lock, Thread, Wait, Waiter
from gdbext.narrate.reasons import explain
from gdbext.threads.code import read_code
from gdbext.threads.findings import Findings
from gdbext.threads.site import Sites
from gdbext.threads.threads import SeenThread
from gdbext.waits.blocked import Blocked
from tests.support.blocked_threads import look, on, one, put, rendered, words
from tests.support.fake_memory import FakeMemory, NoiseMemory
from tests.support.fake_proc import FakeProc
from tests.support.fake_target import (
    ERESTART_RESTARTBLOCK,
    ERESTARTSYS,
    LIBC_TEXT,
    POLL,
    READ,
    RESTART_SYSCALL,
    FakeTarget,
)
from tests.support.reasons import said

WORD = (1 << 64) - 1
WRITE, IOCTL, PREAD64, PAUSE, NANOSLEEP, CONNECT, ACCEPT, WAIT4, FSYNC = 1, 16, 17, 34, 35, 42, 43, 61, 74
CLONE, VFORK, CLONE3 = 56, 58, 435
SEMOP, MSGSND, MSGRCV, FCNTL, FLOCK, SIGTIMEDWAIT, SIGSUSPEND, SELECT = 65, 69, 70, 72, 73, 128, 130, 23
IO_GETEVENTS, SEMTIMEDOP, CLOCK_NANOSLEEP, EPOLL_WAIT, MQ_TIMEDRECEIVE, WAITID, OPEN, OPENAT = (
    208, 220, 230, 232, 243, 247, 2, 257)
PSELECT6, PPOLL, SPLICE, RECVMMSG, URING, EPOLL_PWAIT2, WAITV, FUTEX_WAIT_CALL = 270, 271, 275, 299, 426, 441, 449, 455
GETPID = 39
EINTR = WORD + 1 - 4
SETLK = 6


@pytest.fixture
def core() -> FakeTarget:
    return FakeTarget("core")


def timespec(target: FakeTarget, seconds: int, nanoseconds: int = 0) -> int:
    return put(target, struct.pack("<qq", seconds, nanoseconds))


def polled(target: FakeTarget, *fds: int, events: int = 1) -> int:
    return put(target, b"".join([struct.pack("<ihh", fd, events, 0) for fd in fds]))


# -- descriptors ----------------------------------------------------------------------------------------------

def test_read_from_a_pipe_of_another_process(live: FakeTarget, fake: FakeProc) -> None:
    fake.open(5, "pipe:[7]")
    fake.process(88, "sh")
    fake.open(4, "pipe:[7]", os.O_WRONLY, pid=88)
    thread, lock = one(live, READ, 5)
    assert thread.syscall == "read"
    assert thread.waits == Wait("descriptor:0x5", EXCLUSIVE, False)
    assert lock is not None
    assert lock == Lock("descriptor:0x5", "descriptor", 5, "fd 5, pipe:[7]", "waiting to read", waiters=(
        Waiter(1, EXCLUSIVE),), wait_for="any", why=lock.why)
    assert said(lock.why) == 'the other end is fd 4 of process 88 "sh"'


@pytest.mark.parametrize(("call", "state"), [
    (READ, "waiting to read"), (PREAD64, "waiting to read"), (RECVMMSG, "waiting to read"),
    (MQ_TIMEDRECEIVE, "waiting to read"), (WRITE, "waiting to write"), (ACCEPT, "waiting for a connection"),
    (EPOLL_WAIT, "waiting for events"), (FSYNC, "waiting for the disk"), (URING, "waiting for completions"),
    (IOCTL, "waiting in ioctl")])
def test_states(core: FakeTarget, call: int, state: str) -> None:
    lock = on(core, call, 5)
    assert (lock.id, lock.name, lock.state) == ("descriptor:0x5", "fd 5", state)
    assert lock.why is not None
    assert explain(lock.why).startswith("a core does not record what it referred to")


@pytest.mark.parametrize("fd", [0xFFFFFFFF, 1 << 31])
def test_what_can_be_no_descriptor(live: FakeTarget, fd: int) -> None:
    assert one(live, READ, fd) == (Thread(1, 100, 100, None, status="blocked", syscall="read"), None)


def test_only_half_of_the_register_is_the_descriptor(core: FakeTarget) -> None:
    assert on(core, READ, 0xDEAD_BEEF_0000_0005).address == 5


def test_call_that_is_not_known(live: FakeTarget) -> None:
    assert one(live, GETPID, 5)[0].blocked_on is None


def test_call_that_has_returned(live: FakeTarget) -> None:
    live.blocked(live.thread(), READ, 5, rax=1)
    (thread,), locks = look(live)
    assert (thread.status, thread.blocked_on, locks) == ("running", None, {})


def test_threads_that_wait_for_one_descriptor_in_several_ways(live: FakeTarget, fake: FakeProc) -> None:
    fake.open(5, "/dev/ttyS0", os.O_RDWR)
    for call, argument in ((READ, 0), (WRITE, 0), (READ, 0), (IOCTL, 0x5401), (IOCTL, 0x540B)):
        live.blocked(live.thread(), call, 5, argument)
    threads, locks = look(live)
    lock, = locks.values()
    assert lock.state == "waiting to read or waiting to write or waiting in ioctl"
    assert said(lock.why) == "request 0x5401; request 0x540b"
    assert [waiter.thread for waiter in lock.waiters] == [1, 2, 3, 4, 5]
    assert {said(thread.blocked_on) for thread in threads} == {"fd 5, /dev/ttyS0"}


# -- several descriptors --------------------------------------------------------------------------------------

def test_poll_of_one(core: FakeTarget) -> None:
    lock = on(core, POLL, polled(core, -1, 5), 2, 0xFFFFFFFF)
    assert (lock.id, lock.name, lock.state) == ("descriptor:0x5", "fd 5", "waiting for events")


def test_poll_of_several(live: FakeTarget, fake: FakeProc) -> None:
    fake.open(5, "pipe:[7]")
    fake.open(6, "pipe:[7]", os.O_WRONLY)
    array = polled(live, 5, 6, 5)
    lock = on(live, POLL, array, 3, WORD)
    assert (lock.id, lock.address) == (f"descriptor:{array:#x}", array)
    assert lock.name == "fd 5, pipe:[7]; fd 6, pipe:[7]"
    assert said(lock.why) == ("of fd 5, only this process has the other end: fd 6; "
                              "of fd 6, only this process has the other end: fd 5")


def test_poll_of_a_pipe_and_of_what_the_kernel_writes(live: FakeTarget, fake: FakeProc) -> None:
    fake.open(5, "pipe:[7]")
    fake.open(6, "pipe:[7]", os.O_WRONLY)
    fake.open(7, "anon_inode:inotify")
    lock = on(live, POLL, polled(live, 7, 5), 2, WORD)
    assert said(lock.why) == ("of fd 5, only this process has the other end: fd 6; "
                              "of 1 other descriptor, no process with another end is known")


def test_poll_of_many(core: FakeTarget) -> None:
    lock = on(core, POLL, polled(core, *range(10, 20)), 10, WORD)
    assert lock.name == "fd 10; fd 11; fd 12; fd 13; 6 more"
    assert said(lock.why) == "a core does not record what it referred to"


@pytest.mark.parametrize("count", [2, 1 << 30, 0xFFFFFFFF])
def test_poll_that_cannot_be_read(core: FakeTarget, count: int) -> None:
    lock = on(core, POLL, 0xDEAD_0000, count, WORD)
    assert (lock.id, lock.name) == ("descriptor:0xdead0000", f"{count} descriptors")


@pytest.mark.parametrize(("fds", "lock_id", "name"), [
    ((5,), "descriptor:0x5", "fd 5"), ((5, 64), None, "fd 5; fd 64"), ((0, 7, 63), None, "fd 0; fd 7; fd 63")])
def test_select(core: FakeTarget, fds: tuple[int, ...], lock_id: str | None, name: str) -> None:
    reads, writes = (put(core, sum(1 << fd for fd in part).to_bytes(128, "little")) for part in (fds[:1], fds[1:]))
    core.ram.write(writes + 16, b"\xff")  # beyond the first 65
    lock = on(core, SELECT, 65, reads, writes)
    assert (lock.id, lock.name) == (lock_id or f"descriptor:{reads:#x}", name)


@pytest.mark.parametrize("count", [65, 0x7FFFFFFF])
def test_select_that_cannot_be_read(core: FakeTarget, count: int) -> None:
    lock = on(core, PSELECT6, count, 0, 0xDEAD_0000)
    assert (lock.id, lock.name) == ("descriptor:0xdead0000", "several descriptors")


def test_select_on_no_set_with_any_count(core: FakeTarget) -> None:
    start = time.process_time()
    assert words(core, SELECT, 0x7FFFFFFF, 0, 0, 0, 0) == "waits for a signal"
    assert time.process_time() - start < 5


def test_epoll(live: FakeTarget, fake: FakeProc) -> None:
    fake.open(5, "pipe:[7]")
    fake.open(6, "pipe:[8]")
    watched = [(5, 7), (6, 9), *((fd, fd) for fd in range(10, 14))]
    fake.open(4, "anon_inode:[eventpoll]", os.O_RDWR, more="".join(
        [f"tfd: {fd:8} events: 19 data: 0  pos:0 ino:{inode:x} sdev:f\n" for fd, inode in watched]))
    lock = on(live, EPOLL_WAIT, 4, 0, 1, WORD)
    assert (lock.name, lock.state) == ("fd 4, eventpoll", "waiting for events")
    # what fd 6 was when it was added is not what it is now
    assert said(lock.why) == "it watches fd 5, pipe:[7], the former fd 6, fd 10, fd 11 and 2 more"


def test_epoll_of_nothing(live: FakeTarget, fake: FakeProc) -> None:
    fake.open(4, "anon_inode:[eventpoll]", os.O_RDWR)
    assert said(on(live, EPOLL_WAIT, 4).why) == "it watches nothing"


def test_splice(live: FakeTarget, fake: FakeProc) -> None:
    fake.open(5, "pipe:[7]")
    fake.open(6, "/tmp/x", os.O_WRONLY)
    lock = on(live, SPLICE, 5, 0, 6)
    assert lock.state == "waiting to copy"
    assert said(lock.why) == "no process has the other end open; it copies to fd 6, /tmp/x"


# -- timeouts -------------------------------------------------------------------------------------------------

@pytest.mark.parametrize(("call", "argument", "value", "timed"), [
    (READ, 2, 1, False), (EPOLL_WAIT, 3, 0xFFFFFFFF, False), (EPOLL_WAIT, 3, 100, True),
    (EPOLL_PWAIT2, 3, 0, False), (EPOLL_PWAIT2, 3, 0x1000, True), (MQ_TIMEDRECEIVE, 4, 0x1000, True),
    (RECVMMSG, 4, 0x1000, False), (URING, 3, 1, False)])
def test_timed(core: FakeTarget, call: int, argument: int, value: int, timed: bool) -> None:
    arguments = [5, 0, 0, 0, 0, 0]
    arguments[argument] = value
    thread, _ = one(core, call, *arguments)
    assert thread.waits == Wait("descriptor:0x5", EXCLUSIVE, timed)


@pytest.mark.parametrize(("timeout", "timed"), [(0, True), (100, True), (0xFFFFFFFF, False), (WORD, False)])
def test_timed_poll(core: FakeTarget, timeout: int, timed: bool) -> None:
    thread, _ = one(core, POLL, polled(core, 5), 1, timeout)
    assert thread.waits == Wait("descriptor:0x5", EXCLUSIVE, timed)


@pytest.mark.parametrize("at", [0, 0x1000])
def test_timed_completion(core: FakeTarget, at: int) -> None:
    extended = put(core, struct.pack("<QIIQ", 0, 8, 0, at))
    thread, _ = one(core, URING, 5, 0, 1, 1 | 8, extended, 24)
    assert thread.waits == Wait("descriptor:0x5", EXCLUSIVE, at != 0)


# -- connections, files ---------------------------------------------------------------------------------------

INET = struct.pack("<H", 2) + struct.pack(">H", 5000) + bytes([127, 0, 0, 1]) + bytes(8)
INET6 = struct.pack("<H", 10) + struct.pack(">HI", 5000, 0) + bytes(15) + b"\1" + bytes(4)


@pytest.mark.parametrize(("address", "place"), [
    (INET, "127.0.0.1:5000"), (INET6, "[::1]:5000"), (b"\1\0/run/x\0junk", "/run/x"), (b"\1\0\0abstract", "@abstract")])
def test_connect_in_a_core(core: FakeTarget, address: bytes, place: str) -> None:
    lock = on(core, CONNECT, 5, put(core, address), len(address))
    assert (lock.state, said(lock.why)) == ("connecting", f"a core does not record what it referred to; to {place}")


@pytest.mark.parametrize("address", [b"", b"\1\0", INET[:7], INET6[:20], b"\x63\0" + bytes(20)])
def test_connect_to_nowhere(core: FakeTarget, address: bytes) -> None:
    lock = on(core, CONNECT, 5, put(core, address), len(address))
    assert said(lock.why) == "a core does not record what it referred to"


@pytest.mark.parametrize(("listens", "told"), [
    ("0100007F:1388", True), ("00000000:1388", True), ("0200007F:1388", False), ("00000000:1389", False)])
def test_connect_to_this_host(live: FakeTarget, fake: FakeProc, listens: str, told: bool) -> None:
    fake.open(5, "socket:[7]", os.O_RDWR)
    fake.process(88, "server")
    fake.open(3, "socket:[8]", os.O_RDWR, pid=88)
    fake.internet("tcp", "0100007F:A86A", "0100007F:1388", 7, state=2)
    fake.internet("tcp", listens, "00000000:0000", 8, state=10)
    lock = on(live, CONNECT, 5, put(live, INET), len(INET))
    assert lock.name == "fd 5, socket 127.0.0.1:43114 -> 127.0.0.1:5000 (TCP)"
    assert said(lock.why) == "to 127.0.0.1:5000" + (', where fd 3 of process 88 "server" listens' if told else "")


def test_connect_to_another_host_is_not_to_a_wildcard_here(live: FakeTarget, fake: FakeProc) -> None:
    fake.open(5, "socket:[7]", os.O_RDWR)
    fake.open(6, "socket:[8]", os.O_RDWR)
    fake.internet("tcp", "00000000:1388", "00000000:0000", 8, state=10)
    address = INET[:4] + bytes([10, 0, 0, 5]) + bytes(8)
    assert said(on(live, CONNECT, 5, put(live, address), len(address)).why) == "to 10.0.0.5:5000"


def test_fcntl_that_takes_no_lock(core: FakeTarget) -> None:
    assert one(core, FCNTL, 5, SETLK) == (Thread(1, 100, 100, None, status="blocked", syscall="fcntl"), None)


# -- no descriptor --------------------------------------------------------------------------------------------

@pytest.mark.parametrize(("seconds", "nanoseconds", "text"), [
    (100, 0, "sleeps for 100 s"), (0, 5_000_000, "sleeps for 0.005 s"), (1, 500_000_000, "sleeps for 1.5 s"),
    (-1, 0, "sleeps"), (1, 10 ** 9, "sleeps")])
def test_sleep(core: FakeTarget, seconds: int, nanoseconds: int, text: str) -> None:
    assert words(core, NANOSLEEP, timespec(core, seconds, nanoseconds)) == text


def test_sleep_by_a_clock(core: FakeTarget) -> None:
    relative, absolute, unreadable = core.thread(), core.thread(), core.thread()
    core.blocked(relative, CLOCK_NANOSLEEP, 1, 0, timespec(core, 7))
    core.blocked(absolute, CLOCK_NANOSLEEP, 1, 1, timespec(core, 7))
    core.blocked(unreadable, CLOCK_NANOSLEEP, 1, 0, 0xDEAD_0000)
    threads, _ = look(core)
    assert [said(thread.blocked_on) for thread in threads] == ["sleeps for 7 s", "sleeps until a set time", "sleeps"]


@pytest.mark.parametrize(("left", "text"), [(999_990, "sleeps for 9999"), (-5, "sleeps for 0 s more")])
def test_sleep_until_a_time(live: FakeTarget, left: int, text: str) -> None:
    until = int(time.clock_gettime(time.CLOCK_MONOTONIC)) + left
    said = words(live, CLOCK_NANOSLEEP, time.CLOCK_MONOTONIC, 1, timespec(live, max(until, 0)))
    assert said is not None
    assert said.startswith(text)
    assert said.endswith(" s more")


@pytest.mark.parametrize(("call", "arguments", "text"), [
    (POLL, (0, 0, 1500), "sleeps for 1.5 s"), (POLL, (0, 0, WORD), "waits for a signal"),
    (PPOLL, (0, 0, 0), "waits for a signal"), (SELECT, (0, 0, 0, 0, 0), "waits for a signal"),
    (PAUSE, (), "waits for a signal"), (SIGSUSPEND, (0x1000, 8), "waits for a signal"),
    (SEMOP, (3,), "waits for System V semaphore set 3"),
    (SEMTIMEDOP, (3, 0, 1, 0x1000), "waits for System V semaphore set 3, with a timeout"),
    (MSGRCV, (4,), "waits for a message in System V queue 4"), (MSGSND, (4,), "waits for room in System V queue 4"),
    (IO_GETEVENTS, (0x1000, 1, 1, 0x2000, 0), "waits for asynchronous I/O"),
    (WAIT4, (88,), "waits for child process 88"), (WAIT4, (WORD,), "waits for any child process"),
    (WAIT4, (0,), "waits for any child process of its own group"),
    (WAIT4, (0xFFFFFFFE,), "waits for any child process of group 2"), (WAITID, (0, 5), "waits for any child process"),
    (WAITID, (1, 88), "waits for child process 88"), (WAITID, (2, 9), "waits for any child process of group 9"),
    (WAITID, (3, 6), "waits for the child process of fd 6")])
def test_words(core: FakeTarget, call: int, arguments: tuple[int, ...], text: str) -> None:
    assert words(core, call, *arguments) == text


@pytest.mark.parametrize("call", [SELECT, PSELECT6, PPOLL])
def test_sleep_in_a_call_that_writes_what_is_left(core: FakeTarget, call: int) -> None:
    left = timespec(core, 99, 876_543_210)
    arguments = (0, 0, left) if call == PPOLL else (0, 0, 0, 0, left)
    assert words(core, call, *arguments) == "sleeps for 99.9 s more"


@pytest.mark.parametrize(("numbers", "timeout", "text"), [
    ((10,), 0, "waits for SIGUSR1"), ((10, 12), 0, "waits for SIGUSR1 or SIGUSR2"),
    ((10,), 0x1000, "waits for SIGUSR1, with a timeout"), ((40,), 0, "waits for signal 40"),
    (range(1, 65), 0, "waits for a signal"), ((), 0, "waits for a signal")])
def test_signals(core: FakeTarget, numbers: tuple[int, ...], timeout: int, text: str) -> None:
    mask = put(core, sum(1 << number - 1 for number in numbers).to_bytes(8, "little"))
    assert words(core, SIGTIMEDWAIT, mask, 0, timeout, 8, rax=EINTR) == text


@pytest.mark.parametrize(("flags", "text"), [
    (0, "opens /tmp/fifo to read"), (0o101, "opens /tmp/fifo to write"), (2, "opens /tmp/fifo to read and write")])
def test_open(core: FakeTarget, flags: int, text: str) -> None:
    path = put(core, b"/tmp/fifo\0")
    assert words(core, OPENAT, 0xFFFFFF9C, path, flags) == text
    assert words(FakeTarget("core"), OPEN, 0xDEAD_0000, flags) is None


def test_children(live: FakeTarget, fake: FakeProc) -> None:
    fake.children({88: "sh", 89: "cat"})
    fake.open(6, "anon_inode:[pidfd]", os.O_RDWR, more="Pid:\t89\n")
    fake.open(7, "anon_inode:[pidfd]", os.O_RDWR, more="Pid:\t-1\n")
    for arguments in ((WAIT4, 88), (WAIT4, WORD), (WAIT4, 77), (WAITID, 3, 6), (WAITID, 3, 7)):
        live.blocked(live.thread(), *arguments)
    threads, _ = look(live)
    assert [said(thread.blocked_on) for thread in threads] == [
        'waits for child process 88 "sh"', 'waits for any child: process 88 "sh" and process 89 "cat"',
        "waits for child process 77", 'waits for child process 89 "cat"', "waits for the child process of fd 7"]


def flags_for(number: int, flags: int) -> tuple[FakeTarget, int]:
    """A core, and the first argument of a system call that makes a process."""
    target = FakeTarget("core")
    return target, put(target, flags.to_bytes(8, "little")) if number == CLONE3 else flags


@pytest.mark.parametrize("number", [VFORK, CLONE, CLONE3])
def test_child_that_uses_the_same_memory(number: int) -> None:
    target, argument = flags_for(number, 0x4111)
    assert words(target, number, argument) == "waits until a child process calls execve"
    target, argument = flags_for(number, 0x1200011)
    assert (words(target, number, argument) is None) is (number != VFORK)


def test_flags_that_cannot_be_read() -> None:
    assert words(FakeTarget("core"), CLONE3, 0xDEAD_0000) is None


@pytest.mark.parametrize(("children", "child"), [
    ({}, "a child process calls execve"), ({88: "sh"}, 'child process 88 "sh" calls execve'),
    ({88: "sh", 89: "cat"}, 'one of its children calls execve: process 88 "sh" and process 89 "cat"')])
def test_which_child_uses_the_same_memory(live: FakeTarget, fake: FakeProc, children: dict[int, str],
                                          child: str) -> None:
    fake.children(children)
    assert words(live, VFORK) == f"waits until {child}"


def test_child_in_a_pid_namespace(live: FakeTarget, fake: FakeProc) -> None:
    fake.write("100/status", "Name:\tserver\nNSpid:\t100\t1\n")
    fake.process(88, "sh", 100, [88, 2])
    assert words(live, WAIT4, 2) == 'waits for child process 2, which is process 88 "sh" here'


# -- futex calls ----------------------------------------------------------------------------------------------

def waiters(*words: int, flags: int = 0x82) -> bytes:
    return b"".join([struct.pack("<QQII", 9, word, flags, 0) for word in words])


def test_any_of_several_futex_words(core: FakeTarget) -> None:
    array = put(core, waiters(*range(0x1000, 0x1018, 4)))
    text = "waits for any of the futex words 0x1000, 0x1004, 0x1008, 0x100c and 2 more"
    assert words(core, WAITV, array, 6) == text
    again = FakeTarget("core")
    assert words(again, WAITV, put(again, waiters(0x1000, 0x1004)), 2, 0, 0x5000) == (
        "waits for any of the futex words 0x1000, 0x1004, with a timeout")


def waits(memory: FakeMemory, number: int, *arguments: int) -> tuple[FutexWait, ...]:
    names = ("rdi", "rsi", "rdx", "r10", "r8", "r9")
    registers = {"orig_rax": number, "rax": ERESTARTSYS, **dict(zip(names, arguments))}
    return decode_futex_waits(memory, system_call(registers))


def test_newer_futex_calls() -> None:
    memory = FakeMemory({0x5000: waiters(0x1000), 0x6000: waiters(0x1000, flags=2), 0x7000: waiters(0x1000, 0x1002)})
    private, shared = (FutexWait(0x1000, FUTEX_WAIT | flag, 9, False) for flag in (PRIVATE, 0))
    assert waits(memory, WAITV, 0x5000, 1) == (private,)
    assert waits(memory, WAITV, 0x6000, 1) == (shared,)
    assert waits(memory, WAITV, 0x5000, 1, 0, 0x9000) == (FutexWait(0x1000, FUTEX_WAIT | PRIVATE, 9, True),)
    assert waits(memory, WAITV, 0x7000, 2) == (), "one is not aligned"
    assert waits(memory, WAITV, 0x5000, 0) == ()
    assert waits(memory, WAITV, 0x5000, 1 << 20) == ()
    with pytest.raises(MemoryUnreadable):
        waits(memory, WAITV, 0x5000, 2)
    assert waits(memory, FUTEX_WAIT_CALL, 0x1000, 9, 0xFFFFFFFF, 0x82) == (private,)
    assert waits(memory, FUTEX_WAIT_CALL, 0x1000, 9, 0xFFFFFFFF, 0x81) == (), "words of two bytes"
    assert waits(memory, 202, 0x1000, PRIVATE, 9) == (private,)
    assert waits(memory, READ, 0x1000) == ()


# -- restarted calls ------------------------------------------------------------------------------------------

def restarted(target: FakeTarget, function: str | None, *arguments: int) -> tuple[str | None, str | None]:
    """What a thread is blocked on whose call lost its number, and the call."""
    if function is not None:
        target.name(LIBC_TEXT + 0x100, function)
    thread, _ = one(target, RESTART_SYSCALL, *arguments, rax=ERESTART_RESTARTBLOCK)
    return said(thread.blocked_on), thread.syscall


@pytest.mark.parametrize("function", ["poll", "__poll", "__GI___poll", "__poll_chk", None])
def test_restarted_poll(core: FakeTarget, function: str | None) -> None:
    array = polled(core, 5, 6)
    assert restarted(core, function, array, 2, 0xFFFFFFFF) == ("fd 5; fd 6", "poll")


@pytest.mark.parametrize("function", ["poll", None])
def test_restarted_poll_of_nothing(core: FakeTarget, function: str | None) -> None:
    assert restarted(core, function, 0, 0, 2000) == ("sleeps for 2 s", "poll")


@pytest.mark.parametrize("function", ["clock_nanosleep", "__GI___clock_nanosleep", "nanosleep", "sleep", None])
def test_restarted_sleep(core: FakeTarget, function: str | None) -> None:
    assert restarted(core, function, 1, 0, timespec(core, 9)) == ("sleeps for 9 s", "clock_nanosleep")


@pytest.mark.parametrize(("function", "rest"), [("nanosleep", 0), ("__nanosleep", 0x9000), (None, 0x9000)])
def test_restarted_sleep_of_old_libraries(core: FakeTarget, function: str | None, rest: int) -> None:
    assert restarted(core, function, timespec(core, 9), rest) == ("sleeps for 9 s", "nanosleep")


@pytest.mark.parametrize("function", [None, "__pthread_cond_timedwait"])
@pytest.mark.parametrize("second", [0, 9])
def test_restarted_call_without_evidence_is_unknown(core: FakeTarget, function: str | None, second: int) -> None:
    """It may be a sleep, or a futex wait whose word others may share."""
    word = put(core, bytes(256))
    assert restarted(core, function, word, second, 3, timespec(core, 9)) == ("is in a timed wait", None)


# -- text -----------------------------------------------------------------------------------------------------

def test_text(live: FakeTarget, fake: FakeProc) -> None:
    fake.open(5, "pipe:[7]")
    fake.open(6, "pipe:[7]", os.O_WRONLY)
    fake.open(7, "/dev/x", os.O_RDWR)
    for call, *arguments in ((READ, 5), (READ, 7), (WRITE, 7), (NANOSLEEP, timespec(live, 100)),
                             (EPOLL_WAIT, 8, 0, 0, 100), (GETPID,)):
        live.blocked(live.thread(), call, *arguments)
    live.waits_for_mutex(live.thread(), live.mutex(100))
    text = rendered(live)
    for line in ("Thread 1 (LWP 100) waits to read from fd 5, pipe:[7]; only this process has the other end: fd 6\n",
                 "Thread 2 (LWP 101) is in read on fd 7, /dev/x\n", "Thread 3 (LWP 102) is in write on fd 7, /dev/x\n",
                 "Thread 4 (LWP 103) sleeps for 100 s\n",
                 "Thread 5 (LWP 104) waits for events of fd 8, with a timeout; what it refers to cannot be read\n",
                 "Thread 6 (LWP 105) is in the system call getpid\n",
                 "7 threads: 1 waits for a lock or event, 6 are in other system calls, 0 run."):
        assert line in text


def test_text_of_others_is_escaped(live: FakeTarget, fake: FakeProc) -> None:
    fake.open(5, "pipe:[7]\x1b[2J\n")
    fake.process(88, "\x1b]0;x\x07")
    fake.open(4, "pipe:[7]\x1b[2J\n", os.O_WRONLY, pid=88)
    path = put(live, b"/tmp/\x1b[31m\n\0")
    live.blocked(live.thread(), READ, 5)
    live.blocked(live.thread(), OPENAT, 0xFFFFFF9C, path)
    live.blocked(live.thread(), WAIT4, 88)
    text = rendered(live)
    assert all(char == "\n" or char.isprintable() for char in text)
    assert "\\x1b]0;x\\x07" in text
    assert "opens /tmp/\\x1b[31m\\x0a to read" in text


# -- bounds ---------------------------------------------------------------------------------------------------

@pytest.mark.slow
def test_five_thousand_threads_in_read(live: FakeTarget, fake: FakeProc) -> None:
    """Each on a pipe of its own; 0.2 s on a machine that does nothing else."""
    threads = []
    for number in range(5000):
        fake.open(2 * number, f"pipe:[{number}]")
        fake.open(2 * number + 1, f"pipe:[{number}]", os.O_WRONLY)
        call = Syscall(READ, "read", (2 * number, 0, 0, 0, 0, 0), True)
        threads.append(SeenThread(ThreadRef(number, number, None), x86_64, call=call))
    code = read_code(live, Findings())
    locks = []
    begin = time.process_time()
    blocked = Blocked(live, code, Sites(live.memory, code, ()))
    for seen in threads:
        found = blocked.find(seen)
        assert found is not None
        assert found.lock is not None
        locks.append(found.lock)
    spent = time.process_time() - begin
    assert len(locks) == 5000
    assert said(locks[0].why) == "only this process has the other end: fd 1"
    assert spent < 1


def test_a_process_without_such_waits_costs_nothing(fake: FakeProc, monkeypatch: pytest.MonkeyPatch) -> None:
    target = FakeTarget()
    target.proc = fake.proc()
    holder = target.thread()
    target.waits_for_mutex(target.thread(), target.mutex(holder.ref.lwp))

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("/proc is read")

    for name in ("open", "readlink", "listdir"):
        monkeypatch.setattr(os, name, refuse)
    look(target)


@pytest.mark.parametrize("seed", range(20))
def test_noise(seed: int, fake: FakeProc) -> None:
    """With any arguments and memory, each thread has a status and the snapshot ends soon."""
    chooser = random.Random(seed)
    target = FakeTarget("live" if seed % 2 else "core")
    if seed % 2:
        target.proc = fake.proc()
        fake.open(5, "pipe:[7]")
    noise = NoiseMemory(seed)
    ram = target.ram

    class Mixed:
        def read(self, address: int, size: int) -> bytes:
            return (noise if 0x10000 <= address < 0x20000 else ram).read(address, size)

    target.memory = Mixed()
    calls = [READ, POLL, SELECT, PSELECT6, PPOLL, CONNECT, FCNTL, FLOCK, WAIT4, WAITID, NANOSLEEP, CLOCK_NANOSLEEP,
             SIGTIMEDWAIT, SEMTIMEDOP, OPENAT, SPLICE, URING, EPOLL_WAIT, WAITV, RESTART_SYSCALL, FUTEX_WAIT_CALL]
    choices: list[Callable[[], int]] = [lambda: chooser.randrange(0x10000, 0x20000), lambda: chooser.randrange(12),
                                        lambda: chooser.getrandbits(64), lambda: WORD, lambda: 5]
    for call in calls:
        for _ in range(4):
            arguments = [chooser.choice(choices)() for _ in range(6)]
            target.blocked(target.thread(), call, *arguments, rax=ERESTART_RESTARTBLOCK)
    start = time.process_time()
    text = rendered(target)
    assert text.partition("Threads:")[2].count("Thread ") == 4 * len(calls)
    assert time.process_time() - start < 20
