"""Threads of fake targets that are blocked in a system call, and what a report says of them."""

from __future__ import annotations

from gdbext.model import Lock, Thread
from gdbext.render.style import Style
from gdbext.render.text import TextRenderer
from gdbext.snapshot import take_snapshot
from tests.support.fake_target import ERESTARTSYS, FakeTarget
from tests.support.reasons import said


def look(target: FakeTarget) -> tuple[list[Thread], dict[str, Lock]]:
    report = take_snapshot(target).report(lambda thread: False)
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
    assert said(thread.blocked_on) == lock.name
    return lock


def words(target: FakeTarget, call: int, *arguments: int, rax: int = ERESTARTSYS) -> str | None:
    """What the only thread of a target is blocked on that is no descriptor."""
    thread, lock = one(target, call, *arguments, rax=rax)
    assert lock is None
    return said(thread.blocked_on)


def put(target: FakeTarget, data: bytes) -> int:
    """The address of bytes in the target."""
    at = target.build.alloc(max(len(data), 1))
    target.ram.write(at, data)
    return at


def rendered(target: FakeTarget) -> str:
    report = take_snapshot(target).report(lambda thread: False)
    return TextRenderer(report, Style(), lambda file, line: None).threads(
        [thread.number for thread in report.threads], True, "none")
