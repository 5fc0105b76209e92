from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gdbext.layout.select import glibc_layouts
from gdbext.model import INFERRED, TargetKind
from gdbext.narrate.reasons import explain
from gdbext.threads.gone import EXITED, LEFT_BEHIND, GoneOwners
from tests.support.fake_memory import Builder, FakeMemory
from tests.support.fake_target import LIBC_TEXT, WAIT_BITSET_REALTIME, FakeTarget
from tests.support.reasons import said
from tests.support.snapshots import edges, lock_of, report_of


def stat(number: int, start: int) -> bytes:
    """``/proc/PID/stat`` of a task that started at a time."""
    return f"{number} (a ) b) S {' '.join(['0'] * 18)} {start} 0".encode()


OWNER = 4242


@pytest.mark.parametrize(("kind", "files", "orphan", "why"), [
    ("live", {"loadavg": b"0.1 0.1 0.1 1/99 5000\n"}, "thread exited", "no thread has any longer"),
    ("live", {}, "thread exited", "no thread has any longer"),
    ("live", {"4242/status": b"Tgid:\t77\n", "4242/stat": stat(OWNER, 900), "100/stat": stat(100, 500)},
     "thread exited", "another process has now"),
    ("core", {}, "not a living thread", "not a thread of this process"),
    ("core", {"4242/status": b"Tgid:\t77\n"}, "not a living thread", "not a thread of this process"),
    # what contradicts that the owner was ever a thread of the process
    ("live", {"loadavg": b"0.1 0.1 0.1 1/99 4000\n"}, None, "no thread has had yet"),
    ("live", {"4242/status": b"\nTgid:\t77\n", "4242/stat": stat(OWNER, 400), "100/stat": stat(100, 500)}, None,
     "a thread of another process"),
    ("live", {"4242/status": b"\nTgid:\t100\n"}, None, "the debugger does not list"),
])
def test_owner_that_is_not_a_thread(kind: TargetKind, files: dict[str, bytes], orphan: str | None, why: str) -> None:
    target = FakeTarget(kind)
    target.files.update((f"/proc/{name}", data) for name, data in files.items())
    mutex = target.mutex(OWNER)
    target.name(LIBC_TEXT + 0x100, "pthread_mutex_lock")
    target.waits_for_mutex(target.thread(), mutex)
    report = report_of(target)
    lock = lock_of(report, mutex)
    assert (lock.holders, said(lock.orphan)) == ((), orphan)
    assert lock.why is not None
    assert str(OWNER) in explain(lock.why)
    assert why in explain(lock.why)
    assert edges(report) == ([{(1, lock.id, None)}] if orphan else [])
    assert [deadlock.evidence for deadlock in report.deadlocks] == ([INFERRED] if orphan else [])


@pytest.mark.parametrize("owner", [1 << 23, 0x7FFF_FFF0])
def test_owner_field_that_cannot_be_a_tid_is_not_an_orphan(owner: int) -> None:
    target = FakeTarget("core")
    lock = target.rwlock(__readers=3, __wrphase_futex=1, __writers_futex=3, __cur_writer=owner)
    target.waits(target.thread(), lock + 12, 3, WAIT_BITSET_REALTIME)
    report = report_of(target)
    assert (lock_of(report, lock).orphan, report.deadlocks) == (None, ())


@pytest.mark.parametrize(("address", "state", "expected"), [
    (0x7F12_3456_7700, 0, LEFT_BEHIND), (0x7F12_3456_7700, 0x30, EXITED),
    # a damaged owner field that points 16 bytes before itself: `owner` of an aligned lock is at an odd word
    (0x7F12_3456_7708, 0, None), (0x7F12_3456_7708, 0x30, None)])
def test_descriptor_is_aligned(address: int, state: int, expected: object) -> None:
    target, layouts = FakeTarget(), glibc_layouts("2.36", "x86_64")
    target.memory = memory = FakeMemory()
    Builder(memory, layouts).put("struct pthread", address, self=address, cancelhandling=state)
    threads: Any = SimpleNamespace(all_available=True, number_of_tid={100: 1}, first=0)
    gone = GoneOwners(target, layouts, threads).by_descriptor(address)
    assert gone.orphan == expected
    assert (gone.why.code == "not-a-descriptor") == (expected is None)


#: ``/proc/PID/stat`` up to the flags: PF_RANDOMIZE, with and without PF_FORKNOEXEC.
EXECUTED, FORKED = (f"100 (a ) b) S 1 1 1 0 -1 {flags} 0".encode() for flags in (0x400000, 0x400040))


@pytest.mark.parametrize(("tids", "stat_of_process", "orphan"), [
    ({100: 1}, FORKED, LEFT_BEHIND), ({100: 1}, b"", LEFT_BEHIND), ({100: 1}, EXECUTED, None), ({}, FORKED, None),
    ({}, b"", None)])
def test_copied_descriptor_is_left_behind_when_fork_made_the_process_and_threads_match(
        tids: dict[int, int], stat_of_process: bytes, orphan: object) -> None:
    """Valgrind runs a program in its own process: no ident of the program is the descriptor of a thread."""
    address = 0x7F12_3456_7700
    target, layouts = FakeTarget(), glibc_layouts("2.36", "x86_64")
    target.memory = memory = FakeMemory()
    target.files["/proc/100/stat"] = stat_of_process
    Builder(memory, layouts).put("struct pthread", address, self=address, cancelhandling=0)
    threads: Any = SimpleNamespace(all_available=True, number_of_tid=tids, first=0)
    gone = GoneOwners(target, layouts, threads).by_descriptor(address)
    assert gone.orphan == orphan
    assert (gone.why.code == "idents-not-matched") == (orphan is None)
