"""Waits that are no locks, from registers, fake memory and a fake /proc; tests/gdb/test_blocked.py has real ones."""

from __future__ import annotations

import os
import random
import struct
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gdbext.errors import MemoryUnreadable
from gdbext.glibc.futex import FUTEX_WAIT, PRIVATE, FutexWait, Syscall, decode_futex_waits, decode_syscall
from gdbext.inferior.protocol import ThreadRef
from gdbext.model import DERIVED, EXCLUSIVE, Lock, Thread, Wait, Waiter
from gdbext.render.style import Style
from gdbext.render.text import TextRenderer
from gdbext.snapshot import Snapshot
from gdbext.threads.code import Code
from gdbext.threads.findings import Findings
from gdbext.threads.site import Sites
from gdbext.threads.threads import SeenThread
from gdbext.waits import descriptors
from gdbext.waits.blocked import Blocked
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

WORD = (1 << 64) - 1
WRITE, IOCTL, PREAD64, PAUSE, NANOSLEEP, CONNECT, ACCEPT, WAIT4, FSYNC = 1, 16, 17, 34, 35, 42, 43, 61, 74
SEMOP, MSGSND, MSGRCV, FCNTL, FLOCK, SIGTIMEDWAIT, SIGSUSPEND, SELECT = 65, 69, 70, 72, 73, 128, 130, 23
IO_GETEVENTS, SEMTIMEDOP, CLOCK_NANOSLEEP, EPOLL_WAIT, MQ_TIMEDRECEIVE, WAITID, OPEN, OPENAT = (
    208, 220, 230, 232, 243, 247, 2, 257)
PSELECT6, PPOLL, SPLICE, RECVMMSG, URING, EPOLL_PWAIT2, WAITV, FUTEX_WAIT_CALL = 270, 271, 275, 299, 426, 441, 449, 455
GETPID = 39
EINTR = WORD + 1 - 4


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


def look(target: FakeTarget) -> tuple[list[Thread], dict[str, Lock]]:
    report = Snapshot(target).report(lambda thread: False)
    assert report.deadlocks == ()
    return list(report.threads), {lock.id: lock for lock in report.locks}


def one(target: FakeTarget, call: int, *arguments: int, rax: int = ERESTARTSYS) -> tuple[Thread, Lock | None]:
    """The only thread of a target, blocked in a call, and the descriptor that it waits for."""
    target.blocked(target.thread(), call, *arguments, rax=rax)
    (thread,), locks = look(target)
    assert thread.status == "blocked"
    return thread, locks[thread.waits.lock] if thread.waits is not None else None


def on(target: FakeTarget, call: int, *arguments: int) -> Lock:
    """The descriptor that the only thread of a target waits for."""
    thread, lock = one(target, call, *arguments)
    assert lock is not None
    assert thread.blocked_on == lock.name
    return lock


def words(target: FakeTarget, call: int, *arguments: int, rax: int = ERESTARTSYS) -> str | None:
    """What the only thread of a target is blocked on that is no descriptor."""
    thread, lock = one(target, call, *arguments, rax=rax)
    assert lock is None
    return thread.blocked_on


def put(target: FakeTarget, data: bytes) -> int:
    """The address of bytes in the target."""
    at = target.build.alloc(max(len(data), 1))
    target.ram.write(at, data)
    return at


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
    assert lock == Lock("descriptor:0x5", "descriptor", 5, "fd 5, pipe:[7]", "waiting to read", waiters=(
        Waiter(1, EXCLUSIVE),), wait_for="any", why='the other end is fd 4 of process 88 "sh"')


@pytest.mark.parametrize(("call", "state"), [
    (READ, "waiting to read"), (PREAD64, "waiting to read"), (RECVMMSG, "waiting to read"),
    (MQ_TIMEDRECEIVE, "waiting to read"), (WRITE, "waiting to write"), (ACCEPT, "waiting for a connection"),
    (EPOLL_WAIT, "waiting for events"), (FSYNC, "waiting for the disk"), (URING, "waiting for completions"),
    (IOCTL, "waiting in ioctl"), (FLOCK, "waiting for a file lock")])
def test_states(core: FakeTarget, call: int, state: str) -> None:
    lock = on(core, call, 5)
    assert (lock.id, lock.name, lock.state) == ("descriptor:0x5", "fd 5", state)
    assert lock.why is not None
    assert lock.why.startswith("what it was is not kept in a core")


def test_a_process_on_another_machine() -> None:
    assert on(FakeTarget(), READ, 5).why == "what it is cannot be seen from here"


def test_descriptor_that_cannot_be_read(live: FakeTarget) -> None:
    lock = on(live, READ, 5)
    assert (lock.name, lock.why) == ("fd 5", "what it is cannot be read")


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


# -- writes that the stop has cut short -----------------------------------------------------------------------

WRITEV, SENDTO, SENDMSG, SENDMMSG, SENDFILE, RECVFROM = 20, 44, 46, 307, 40, 45
VECTOR, MESSAGE = "a vector", "a message"
#: Calls on descriptor 5 that are to write 100 bytes (sendmmsg: 100 messages).
WRITES = {"write": (WRITE, 0, 100), "sendto": (SENDTO, 0, 100, 0), "writev": (WRITEV, VECTOR, 2),
          "sendmsg": (SENDMSG, MESSAGE, 0), "sendmmsg": (SENDMMSG, 0, 100, 0)}
UNSURE = "was in {} when it was stopped; whether it was blocked there is not known"


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
    assert thread.waits == Wait("descriptor:0x5", EXCLUSIVE, False, DERIVED,
                                "the call has written only a part: the stop of the thread has ended it")
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
    assert thread.blocked_on == UNSURE.format(call)
    assert rendered(core).startswith(f"Thread 1 (LWP {thread.lwp}) {UNSURE.format(call)}\n")


@pytest.mark.parametrize(("call", "arguments", "name"), [
    (WRITE, (0, 100), "write"),  # to a file, or a named pipe
    (SENDFILE, (6, 0, 100), "sendfile"), (SPLICE, (0, 6, 0, 100), "splice"), (RECVFROM, (0, 100, 0x100), "recvfrom")])
def test_part_that_may_be_all_is_not_known(live: FakeTarget, fake: FakeProc, call: int, arguments: tuple[int, ...],
                                           name: str) -> None:
    fake.open(5, "/tmp/some", os.O_RDWR)
    thread = returned(live, 99, call, *arguments)
    assert (thread.status, thread.blocked_on) == ("unknown", UNSURE.format(name))


@pytest.mark.parametrize(("at", "count"), [(VECTOR, 0), (VECTOR, 1 << 40), (0xDEAD000, 2)])
def test_part_of_a_vector_that_makes_no_sense(live: FakeTarget, fake: FakeProc, at: int | str, count: int) -> None:
    fake.open(5, "pipe:[7]", os.O_WRONLY)
    assert returned(live, 99, WRITEV, at, count).status == "running"


def test_only_this_process_has_the_other_end(live: FakeTarget, fake: FakeProc) -> None:
    fake.open(5, "pipe:[7]")
    fake.open(6, "pipe:[7]", os.O_WRONLY)
    fake.open(8, "pipe:[7]")
    assert on(live, READ, 5).why == "only this process has the other end: fd 6"


def test_full_pipe(live: FakeTarget, fake: FakeProc) -> None:
    fake.open(5, "pipe:[7]")
    fake.open(6, "pipe:[7]", os.O_WRONLY)
    fake.open(7, "pipe:[7]", os.O_WRONLY)
    assert on(live, WRITE, 6).why == "only this process has the other end: fd 5"


def test_nobody_has_the_other_end(live: FakeTarget, fake: FakeProc) -> None:
    fake.open(5, "pipe:[7]")
    assert on(live, READ, 5).why == "nobody has the other end open"


@pytest.mark.parametrize(("pid", "where"), [
    (None, "fd 4 of this process"), (88, 'fd 4 of process 88 "web"'), (0, "a listening socket that was not found")])
def test_connection_in_the_queue_of_a_listener(live: FakeTarget, fake: FakeProc, pid: int | None, where: str) -> None:
    fake.process(88, "web")
    fake.open(5, "socket:[3]")
    if pid != 0:
        fake.open(4, "socket:[1]", pid=pid)
    fake.internet("tcp", "00000000:1388", "00000000:0000", 1, state=10)
    fake.internet("tcp", "0100007F:1388", "0100007F:A86A", 0)
    fake.internet("tcp", "0100007F:A86A", "0100007F:1388", 3)
    assert on(live, READ, 5).why == f"no process has accepted the connection yet; it is in the queue of {where}"


@pytest.mark.parametrize(("own", "why"), [
    (False, "nobody was found who has the other end open; not every process could be looked at"),
    (True, "the other end is fd 6 of this process")])
def test_not_everybody_was_looked_at(fake: FakeProc, own: bool, why: str) -> None:
    target = FakeTarget()
    target.proc = fake.proc(seconds=-1)
    fake.process(88, "sh")
    fake.open(5, "pipe:[7]")
    if own:
        fake.open(6, "pipe:[7]", os.O_WRONLY)
    assert on(target, READ, 5).why == why


def test_many_have_the_other_end(live: FakeTarget, fake: FakeProc) -> None:
    fake.open(5, "pipe:[7]")
    fake.open(6, "pipe:[7]", os.O_WRONLY)
    for pid in range(201, 207):
        fake.process(pid, "sh")
        fake.open(1, "pipe:[7]", os.O_WRONLY, pid=pid)
    why = on(live, READ, 5).why
    assert why == "the other end is " + ", ".join(
        [f'fd 1 of process {pid} "sh"' for pid in (201, 202, 203, 204)]) + " and 3 more"


def test_named_pipe(live: FakeTarget, fake: FakeProc) -> None:
    fake.open(5, "/tmp/fifo", inode=3)
    fake.process(88, "sh")
    fake.open(4, "/tmp/fifo", os.O_WRONLY, pid=88, inode=3)
    fake.open(5, "/tmp/fifo", os.O_WRONLY, pid=88, inode=4)  # another file by now, or in another mount namespace
    fake.open(6, "/tmp/fifo", os.O_WRONLY, pid=88, inode=3, mount=9)
    fake.open(7, "/tmp/fifo", os.O_RDONLY, pid=88, inode=3)
    lock = on(live, READ, 5)
    assert (lock.name, lock.why) == ("fd 5, /tmp/fifo", 'the other end is fd 4 of process 88 "sh"')


@pytest.mark.parametrize(("link", "mount"), [("/dev/pts/0", 22), ("/pts/0", 21), ("/0", 5), ("/tmp/file", 22)])
def test_what_has_no_other_end(live: FakeTarget, fake: FakeProc, link: str, mount: int) -> None:
    """A terminal, a file of the kernel's, one of a mount that is not the process's, and one that nobody else has."""
    fake.open(5, link, os.O_RDWR, mount=mount)
    if link != "/tmp/file":
        fake.process(88, "sh")
        fake.open(1, link, os.O_RDWR, mount=mount, pid=88)
    assert on(live, READ, 5).why is None


def test_tcp(live: FakeTarget, fake: FakeProc) -> None:
    fake.open(5, "socket:[7]", os.O_RDWR)
    fake.process(88, "server")
    fake.open(9, "socket:[8]", os.O_RDWR, pid=88)
    fake.internet("tcp", "0100007F:1388", "0100007F:A86A", 7)
    fake.internet("tcp", "0100007F:A86A", "0100007F:1388", 8)
    lock = on(live, READ, 5)
    assert lock.name == "fd 5, socket 127.0.0.1:5000 -> 127.0.0.1:43114 (TCP)"
    assert lock.why == 'the other end is fd 9 of process 88 "server"'


def test_other_sockets(live: FakeTarget, fake: FakeProc) -> None:
    for fd, inode in ((4, 6), (5, 7), (6, 8), (7, 9)):
        fake.open(fd, f"socket:[{inode}]", os.O_RDWR)
    fake.local(6)
    fake.local(7, "/run/server")
    fake.local(8, "/run/server", listening=True)
    fake.peers = {6: 7, 7: 6}
    for fd in (4, 5, 6, 7):
        live.blocked(live.thread(), READ, fd)
    _, locks = look(live)
    assert {lock.name: lock.why for lock in locks.values()} == {
        "fd 4, socket:[6] (unix)": "only this process has the other end: fd 5",
        "fd 5, socket /run/server (unix)": "only this process has the other end: fd 4",
        "fd 6, socket /run/server (unix, listening)": None,
        "fd 7, socket:[9]": None,
    }


@pytest.mark.parametrize(("link", "name"), [
    ("anon_inode:[eventfd]", "eventfd"), ("anon_inode:seccomp notify", "seccomp notify"), ("/dev/pts/0", "/dev/pts/0")])
def test_other_files(live: FakeTarget, fake: FakeProc, link: str, name: str) -> None:
    fake.open(5, link, os.O_RDWR)
    lock = on(live, READ, 5)
    assert (lock.name, lock.why) == (f"fd 5, {name}", None)


def test_threads_that_wait_for_one_descriptor_in_several_ways(live: FakeTarget, fake: FakeProc) -> None:
    fake.open(5, "/dev/ttyS0", os.O_RDWR)
    for call, argument in ((READ, 0), (WRITE, 0), (READ, 0), (IOCTL, 0x5401), (IOCTL, 0x540B)):
        live.blocked(live.thread(), call, 5, argument)
    threads, locks = look(live)
    lock, = locks.values()
    assert lock.state == "waiting to read or waiting to write or waiting in ioctl"
    assert lock.why == "request 0x5401; request 0x540b"
    assert [waiter.thread for waiter in lock.waiters] == [1, 2, 3, 4, 5]
    assert {thread.blocked_on for thread in threads} == {"fd 5, /dev/ttyS0"}


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
    assert lock.why == ("of fd 5, only this process has the other end: fd 6; "
                        "of fd 6, only this process has the other end: fd 5")


def test_poll_of_many(core: FakeTarget) -> None:
    lock = on(core, POLL, polled(core, *range(10, 20)), 10, WORD)
    assert lock.name == "fd 10; fd 11; fd 12; fd 13; 6 more"
    assert lock.why == "what it was is not kept in a core"


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
    start = time.monotonic()
    assert words(core, SELECT, 0x7FFFFFFF, 0, 0, 0, 0) == "waits for a signal"
    assert time.monotonic() - start < 5


def test_epoll(live: FakeTarget, fake: FakeProc) -> None:
    fake.open(5, "pipe:[7]")
    fake.open(6, "pipe:[8]")
    watched = [(5, 7), (6, 9), *((fd, fd) for fd in range(10, 14))]
    fake.open(4, "anon_inode:[eventpoll]", os.O_RDWR, more="".join(
        [f"tfd: {fd:8} events: 19 data: 0  pos:0 ino:{inode:x} sdev:f\n" for fd, inode in watched]))
    lock = on(live, EPOLL_WAIT, 4, 0, 1, WORD)
    assert (lock.name, lock.state) == ("fd 4, eventpoll", "waiting for events")
    # what fd 6 was when it was added is not what it is now
    assert lock.why == "it watches fd 5, pipe:[7], what was fd 6, fd 10, fd 11 and 2 more"


def test_epoll_of_nothing(live: FakeTarget, fake: FakeProc) -> None:
    fake.open(4, "anon_inode:[eventpoll]", os.O_RDWR)
    assert on(live, EPOLL_WAIT, 4).why == "it watches nothing"


def test_splice(live: FakeTarget, fake: FakeProc) -> None:
    fake.open(5, "pipe:[7]")
    fake.open(6, "/tmp/x", os.O_WRONLY)
    lock = on(live, SPLICE, 5, 0, 6)
    assert lock.state == "waiting to copy"
    assert lock.why == "nobody has the other end open; it copies to fd 6, /tmp/x"


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
    assert (lock.state, lock.why) == ("connecting", f"what it was is not kept in a core; to {place}")


@pytest.mark.parametrize("address", [b"", b"\1\0", INET[:7], INET6[:20], b"\x63\0" + bytes(20)])
def test_connect_to_nowhere(core: FakeTarget, address: bytes) -> None:
    assert on(core, CONNECT, 5, put(core, address), len(address)).why == "what it was is not kept in a core"


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
    assert lock.why == "to 127.0.0.1:5000" + (', where fd 3 of process 88 "server" listens' if told else "")


def test_connect_to_another_host_is_not_to_a_wildcard_here(live: FakeTarget, fake: FakeProc) -> None:
    fake.open(5, "socket:[7]", os.O_RDWR)
    fake.open(6, "socket:[8]", os.O_RDWR)
    fake.internet("tcp", "00000000:1388", "00000000:0000", 8, state=10)
    address = INET[:4] + bytes([10, 0, 0, 5]) + bytes(8)
    assert on(live, CONNECT, 5, put(live, address), len(address)).why == "to 10.0.0.5:5000"


LOCK_SH, LOCK_EX = 1, 2
SETLK, SETLKW, OFD_SETLKW = 6, 7, 38
RDLCK, WRLCK = 0, 1


def flock(kind: int, start: int, length: int, whence: int = 0) -> bytes:
    return struct.pack("<hhxxxxqqixxxx", kind, whence, start, length, 0)


def locked(fake: FakeProc) -> None:
    """A file that this process has open as fd 5, and process 88 as fd 3."""
    fake.open(5, "/tmp/x", os.O_RDWR, inode=55)
    fake.process(88, "sh")


@pytest.mark.parametrize(("mode", "operation", "why"), [
    ("WRITE", LOCK_EX, 'locked by process 88 "sh"'), ("WRITE", LOCK_SH, 'locked by process 88 "sh"'),
    ("READ", LOCK_EX, 'locked by process 88 "sh"'), ("READ", LOCK_SH, "who has it locked is not recorded")])
def test_flock(live: FakeTarget, fake: FakeProc, mode: str, operation: int, why: str) -> None:
    locked(fake)
    fake.lock("FLOCK", mode, 88, 55)
    fake.lock("FLOCK", mode, 89, 56)
    fake.lock("POSIX", mode, 90, 55)
    fake.lock("FLOCK", mode, 91, 55, waits=True)
    lock = on(live, FLOCK, 5, operation)
    assert (lock.name, lock.state, lock.why) == ("fd 5, /tmp/x", "waiting for a file lock", why)


def test_flock_held_by_this_process(live: FakeTarget, fake: FakeProc) -> None:
    locked(fake)
    fake.lock("FLOCK", "WRITE", 100, 55)
    assert on(live, FLOCK, 5, LOCK_EX).why == "locked by this very process"


def test_flock_held_by_a_process_that_is_gone(live: FakeTarget, fake: FakeProc) -> None:
    locked(fake)
    fake.lock("FLOCK", "WRITE", 77, 55)
    assert on(live, FLOCK, 5, LOCK_EX).why == "locked by process 77"


@pytest.mark.parametrize(("wanted", "span", "mode", "conflict"), [
    (flock(WRLCK, 100, 10), "105 105", "WRITE", True), (flock(WRLCK, 100, 10), "110 120", "WRITE", False),
    (flock(WRLCK, 100, 0), "500 EOF", "READ", True), (flock(RDLCK, 100, 0), "500 EOF", "READ", False),
    (flock(WRLCK, 100, -10), "90 90", "WRITE", True), (flock(WRLCK, 100, -10), "100 100", "WRITE", False),
    (flock(WRLCK, 0, 1, whence=1), "500 501", "WRITE", True)])
def test_fcntl(live: FakeTarget, fake: FakeProc, wanted: bytes, span: str, mode: str, conflict: bool) -> None:
    locked(fake)
    fake.lock("POSIX", mode, 88, 55, span)
    fake.lock("POSIX", mode, 100, 55, span)  # never in the way of the process itself
    fake.lock("FLOCK", mode, 89, 55)
    why = 'locked by process 88 "sh"' if conflict else "who has it locked is not recorded"
    assert on(live, FCNTL, 5, SETLKW, put(live, wanted)).why == why


def test_lock_of_an_open_file(live: FakeTarget, fake: FakeProc) -> None:
    locked(fake)
    line = fake.lock("OFDLCK", "WRITE", -1, 55)
    fake.open(3, "/tmp/x", os.O_RDWR, pid=88, inode=55, more=line)
    fake.open(4, "/tmp/x", os.O_RDWR, pid=88, inode=55)
    fake.lock("POSIX", "READ", 100, 55)
    why = on(live, FCNTL, 5, OFD_SETLKW, put(live, flock(WRLCK, 0, 0))).why
    assert why == 'locked by this very process and fd 3 of process 88 "sh"'


def test_lock_of_an_open_file_that_has_a_lesser_one_itself(live: FakeTarget, fake: FakeProc) -> None:
    own = fake.lock("OFDLCK", "READ", -1, 55)
    other = fake.lock("OFDLCK", "READ", -1, 55, "10 20")
    fake.open(5, "/tmp/x", os.O_RDWR, inode=55, more=own)
    fake.process(88, "sh")
    fake.open(3, "/tmp/x", os.O_RDWR, pid=88, inode=55, more=other)
    why = on(live, FCNTL, 5, OFD_SETLKW, put(live, flock(WRLCK, 0, 0))).why
    assert why == 'locked by fd 3 of process 88 "sh"'


def test_file_that_the_kernel_does_not_name(live: FakeTarget, fake: FakeProc) -> None:
    locked(fake)
    fake.write("100/fdinfo/5", "pos:\t0\nflags:\t02\nmnt_id:\t22\n")
    assert on(live, FLOCK, 5, LOCK_EX).why == "who has it locked cannot be told"


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
    assert [thread.blocked_on for thread in threads] == ["sleeps for 7 s", "sleeps until a set time", "sleeps"]


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
    assert [thread.blocked_on for thread in threads] == [
        'waits for child process 88 "sh"', 'waits for any child: process 88 "sh" and process 89 "cat"',
        "waits for child process 77", 'waits for child process 89 "cat"', "waits for the child process of fd 7"]


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
    return decode_futex_waits(memory, decode_syscall(registers))


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
    return thread.blocked_on, thread.syscall


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
def test_restarted_call_that_nothing_tells(core: FakeTarget, function: str | None, second: int) -> None:
    """It may be a sleep, or a futex wait whose word others may share."""
    word = put(core, bytes(256))
    assert restarted(core, function, word, second, 3, timespec(core, 9)) == ("is in a timed wait", None)


# -- text -----------------------------------------------------------------------------------------------------

def rendered(target: FakeTarget) -> str:
    report = Snapshot(target).report(lambda thread: False)
    return TextRenderer(report, Style(), lambda file, line: None).threads(
        [thread.number for thread in report.threads], True, "none")


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
                 "Thread 5 (LWP 104) waits for events of fd 8, with a timeout; what it is cannot be read\n",
                 "Thread 6 (LWP 105) is in the system call getpid\n",
                 "7 threads: 1 wait for a lock or event, 6 are in other system calls, 0 run."):
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

def test_five_thousand_threads_in_read(live: FakeTarget, fake: FakeProc) -> None:
    """Each on a pipe of its own; 0.2 s on a machine that does nothing else."""
    threads = []
    for number in range(5000):
        fake.open(2 * number, f"pipe:[{number}]")
        fake.open(2 * number + 1, f"pipe:[{number}]", os.O_WRONLY)
        seen = SeenThread(ThreadRef(number, number, None))
        seen.call = Syscall(READ, "read", (2 * number, 0, 0, 0, 0, 0), True)
        threads.append(seen)
    code = Code(live, Findings())
    begin = time.process_time()
    blocked = Blocked(live, code, threads, Sites(live.memory, code, ()))
    for seen in threads:
        found = blocked.look(seen)
        assert found is not None
    locks = blocked.locks()
    spent = time.process_time() - begin
    assert len(locks) == 5000
    assert locks[0].why == "only this process has the other end: fd 1"
    assert spent < 1


def test_other_ends_are_looked_for_as_long_as_there_is_time(live: FakeTarget, fake: FakeProc,
                                                            monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descriptors, "SECONDS", 0)
    for fd in (5, 6):
        fake.open(fd, f"pipe:[{fd}]")
        live.blocked(live.thread(), READ, fd)
    _, locks = look(live)
    assert [lock.why for lock in locks.values()] == [
        "nobody has the other end open", "its other end was not looked for, since there are so many descriptors"]


def test_a_process_without_such_waits_costs_nothing(fake: FakeProc, monkeypatch: pytest.MonkeyPatch) -> None:
    target = FakeTarget()
    target.proc = fake.proc()
    holder = target.thread()
    target.waits_for_mutex(target.thread(), target.mutex(holder.ref.lwp))

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("/proc is looked at")

    for name in ("open", "readlink", "listdir"):
        monkeypatch.setattr(os, name, refuse)
    look(target)


@pytest.mark.parametrize("seed", range(20))
def test_noise(seed: int, fake: FakeProc) -> None:
    """Whatever arguments and memory are, each thread gets a word and the look ends soon."""
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
    start = time.monotonic()
    text = rendered(target)
    assert text.count("Thread ") == 4 * len(calls)
    assert time.monotonic() - start < 20
