"""The scenes of tests/samples/locks.c and locks.cc by process, and the mistakes in reports on them.

A process runs many scenes at once. Its report is checked scene by scene, not up to the first mistake, because the
scenes are independent.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from gdbext.model import EVIDENCE
from tests.support.gdb_session import Result
from tests.support.report import Report
from tests.support.samples import Truth

# a failed comparison may print a whole report
_LONGEST = 400

#: The commands of a session that `mistakes` reads.
COMMANDS = ("py-threads-locks --json", "py-deadlocks --json", "lock-owner --json")


@dataclass(frozen=True)
class Process:
    """Scenes that run together, and the program that contains them."""

    program: str
    scenes: tuple[str, ...]


PROCESSES = {
    "mutexes": Process(
        "locks",
        (
            *("normal", "recursive", "errorcheck", "adaptive", "robust", "robust-recursive", "pi", "pi-robust", "pp"),
            *("pshared", "timed", "clocked", "abba-timed", "self", "relock", "c11-mutex", "c11-timed"),
        ),
    ),
    "rwlocks": Process(
        "locks",
        (
            *("written-writer", "written-reader", "written-both", "written-writers", "written-timed"),
            *("written-pshared", "read-one", "read-two", "read-two-writers", "read-nonrecursive", "read-ambiguous"),
            *("read-abba", "upgrade"),
        ),
    ),
    "signals": Process(
        "locks",
        (
            # must allocate first
            "arena-heap",
            *("cond", "cond-timed", "cond-groups", "c11-cond", "c11-join", "sem", "sem-lock", "sem-timed"),
            *("sem-pshared", "barrier-one", "barrier-two", "barrier-ambiguous", "barrier-deadlock", "once"),
            *("once-deadlock", "once-self", "join-chain", "join-timed", "join-cycle", "join-mutex"),
        ),
    ),
    "words": Process("locks", ("stdio", "stdio-read", "stdio-abba", "futex", "futex-disguised", "futex-abba")),
    # no thread can allocate after `arena`
    "library": Process("locks", ("spin", "dlopen", "phdr", "arena")),
    "exit": Process("locks", ("exit",)),
    "cxx": Process(
        "locks-cc",
        (
            *("mutex", "timed-mutex", "recursive-mutex", "mutex-abba", "shared-mutex-written", "shared-mutex-read"),
            *("condition-variable", "condition-variable-timed", "condition-variable-any", "call-once", "guard"),
            *("guard-deadlock", "guard-self", "future", "future-timed", "counting-semaphore", "binary-semaphore"),
            *("latch", "barrier", "atomic-int", "atomic-char"),
        ),
    ),
}
#: Scenes that some systems cannot show, and their requirements.
CONDITIONS = {
    "pp": "the right to use real-time policies",
    "read-nonrecursive": "glibc 2.30",
    "cond-groups": "glibc 2.25",
    **dict.fromkeys(("c11-mutex", "c11-timed", "c11-cond", "c11-join"), "glibc 2.28"),
    "exit": "glibc 2.41",
    **dict.fromkeys(("counting-semaphore", "binary-semaphore", "latch", "barrier", "atomic-int", "atomic-char"),
                    "a C++ library with <latch>"),
}


def mistakes(truth: Truth, session: Result) -> list[str]:
    """The differences between a session that ran `COMMANDS` and the truth."""
    report = Report(session.document(0), truth)
    found = [
        *_of_session(session),
        *_each(truth.threads, report.check_thread),
        *_each(truth.locks, report.check_lock),
        *_of_deadlocks(report),
    ]
    rows = {row["id"]: row for row in report.document["locks"]}
    known = {lock.id for lock in truth.locks.values()}
    found += [f"no lock of this program: {row}" for lock, row in rows.items()
              if lock not in known and not lock.startswith("descriptor:")]
    if session.document(1)["deadlocks"] != report.document["deadlocks"]:
        found.append("py-deadlocks and py-threads-locks report different deadlocks")
    if rows != {row["id"]: row for row in session.document(2)["locks"]}:
        found.append("lock-owner and py-threads-locks report the locks differently")
    return found


def fail_over(found: Mapping[str, Sequence[str]]) -> None:
    """Fail with all mistakes; one that several snapshots found is listed once."""
    looks: dict[str, list[str]] = {}
    for look, texts in found.items():
        for text in texts:
            looks.setdefault(text, []).append(look)
    if looks:
        lines = [f"{text} [{', '.join(names)}]" for text, names in looks.items()]
        pytest.fail("\n".join([f"{len(lines)} mistakes", *lines]), pytrace=False)


def _of_session(session: Result) -> Iterator[str]:
    if session.status != 0:
        yield f"the session ended with status {session.status}"
    if "Traceback" in session.stderr:
        yield "an internal error"
    for problem in session.document(0)["problems"]:
        yield f"a problem: {problem}"


def _each(names: Iterable[str], check: Callable[[str], None]) -> Iterator[str]:
    for name in names:
        try:
            check(name)
        except AssertionError as error:
            yield f"{name}: {textwrap.shorten(str(error), _LONGEST)}"


def _of_deadlocks(report: Report) -> Iterator[str]:
    truth = report.truth
    expected: set[tuple[str | None, str, str | None]] = set(truth.deadlock)
    edges = report.edges()
    for edge in expected - edges:
        yield f"no edge of a deadlock: {edge}"
    for edge in edges - expected:
        yield f"an edge of no deadlock: {edge}"
    behind = set()
    for deadlock in report.document["deadlocks"]:
        names = {report.lock_name(edge["lock"]) for edge in deadlock["edges"]}
        if len({name.partition(".")[0] for name in names}) != 1:
            yield f"a deadlock of several scenes: {sorted(names)}"
        weakest = max((truth.locks[name].evidence or "recorded" for name in names if name in truth.locks),
                      key=EVIDENCE.index, default=None)
        if deadlock["evidence"] != weakest:
            yield f"a deadlock that is {deadlock['evidence']} and not {weakest}: {sorted(names)}"
        behind |= {report.role(number) for number in deadlock["stuck_behind"]}
    if behind != set(truth.stuck_behind):
        yield f"stuck behind deadlocks: {sorted(map(str, behind))} and not {truth.stuck_behind}"


def elides_locks() -> bool:
    """Whether glibc 2.23 elides locks with this processor's transactions; then no mutex records its owner."""
    return " rtm " in Path("/proc/cpuinfo").read_text(encoding="utf-8")
