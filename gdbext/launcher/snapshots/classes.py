"""Groups reports of many targets: targets with equal verdicts, or equal stacks, are one class. Pure.

Two targets are in one class if the signatures of their reports are equal. A signature contains nothing that differs
from one run of a program to the next: no addresses, no lines, no numbers of processes, threads or descriptors.

Schema ``gdbext-triage/1`` is owned by this module.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from gdbext.errors import BadDocument
from gdbext.launcher.status import FOUND, NO_ANSWER, NOTHING_FOUND, status_of, worst
from gdbext.model import RECORDED, Crash, Deadlock, Frame, Lock, PyFrame, Report, Thread, weakest
from gdbext.narrate import classes as words
from gdbext.narrate.classes import C_LIBRARY, CRASH, DEADLOCK, KINDS, OTHER, module_of, without_polling
from gdbext.narrate.deadlocks import cycle_line
from gdbext.narrate.frames import file_name, frame_line
from gdbext.narrate.known import known_bug
from gdbext.narrate.names import Facts
from gdbext.narrate.words import plain, problem_of, reason
from gdbext.record import record
from gdbext.redact import short_path, taken_out
from gdbext.render.escape import Safe, as_text, printable
from gdbext.render.shown import Shown
from gdbext.render.style import PLAIN, Style
from gdbext.schema.read import read_document

SCHEMA = "gdbext-triage/1"

#: How many callers of a crash's guilty frame count, and how many frames at most.
_CALLERS, _MOST_FRAMES = 2, 24
#: How many members of a class, and lines of merged stacks are shown.
_MANY_MEMBERS, _MANY_LINES = 4, 40
_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")
_NUMBER = re.compile(r"[0-9]+")

Json = Mapping[str, Any]
#: What counts of a frame: language, function, file or module.
FrameKey = tuple[str, str, str]


@record
class Signature:
    """What happened in a target: one of `KINDS`, a key to compare, a title, and the exit status for it."""

    kind: str
    key: str
    title: str
    status: int


@record
class Class:
    """Targets in which the same happened. `representative` has the fewest threads; `document` is its document."""

    kind: str
    key: str
    title: str
    members: tuple[str, ...]
    representative: str
    document: Json | None = None
    status: int = NOTHING_FOUND

    @property
    def report(self) -> Report | None:
        """The report of the representative."""
        return None if self.document is None else read_document(self.document)


@record
class Failure:
    """A target that could not be read, why, and what to do about it."""

    target: str
    problem: str
    hint: str | None = None


@record
class Triage:
    """Many targets, merged.

    `failures` are in no class; `incomplete` are in a class but could be read only in part. `processes` is the part of
    the document about waits of processes for each other.
    """

    classes: tuple[Class, ...]
    failures: tuple[Failure, ...] = ()
    incomplete: tuple[Failure, ...] = ()
    processes: Json | None = None

    @property
    def count(self) -> int:
        """How many targets were read."""
        return sum(len(each.members) for each in self.classes)

    @property
    def status(self) -> int:
        """The exit status: that of the target which needs attention most."""
        across = [FOUND] if self.processes and self.processes["deadlocks"] else []
        return worst([*across, *(each.status for each in self.classes), *([NO_ANSWER] if self.failures else [])])


@dataclass
class _Group:
    signature: Signature
    members: list[str] = field(default_factory=list)
    statuses: set[int] = field(default_factory=set)
    best: tuple[int, str] | None = None
    document: Json | None = None


class Grouping:
    """Collects targets one by one, and keeps the name of each and one document of each class."""

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}

    def add(self, target: str, signature: Signature, threads: int, document: Json | None) -> None:
        """Add a target."""
        group = self._groups.setdefault(signature.key, _Group(signature))
        group.members.append(target)
        group.statuses.add(signature.status)
        if group.best is None or (threads, target) < group.best:
            group.best, group.document, group.signature = (threads, target), document, signature

    def classes(self) -> tuple[Class, ...]:
        """The classes in the order of `KINDS`; those where nothing is wrong last, the largest class of a kind first."""
        found = [Class(group.signature.kind, key, group.signature.title, tuple(sorted(group.members)), group.best[1],
                       group.document, worst(group.statuses))
                 for key, group in self._groups.items() if group.best is not None]
        return tuple(sorted(found, key=lambda each: (KINDS.index(each.kind), each.status == NOTHING_FOUND,
                                                     -len(each.members), each.title, each.key)))


def merge(documents: Iterable[tuple[str, Json]]) -> tuple[Class, ...]:
    """The classes of (target, document) pairs."""
    grouping = Grouping()
    for target, document in documents:
        report = read_document(document)
        grouping.add(target, signature(report), len(report.threads), document)
    return grouping.classes()


def bad_document(error: BadDocument) -> tuple[str, str]:
    """The problem and the hint for a document of another machine that cannot be read."""
    return f"its report cannot be read: {error}", "install the same version of gdbext there"


def signature(report: Report) -> Signature:
    """The signature of a report."""
    facts = Facts(report)
    kind = words.kind_of_verdict(facts)
    key: Any
    if kind == DEADLOCK:
        key = sorted({_deadlock_key(facts, each) for each in report.deadlocks})
    elif kind == CRASH and report.crash is not None:
        key = _crash_key(report.crash)
    else:
        key = sorted({tuple(_collapsed(map(frame_key, without_polling(thread.stack)))) for thread in report.threads})
        key = [facts.verdict.kind, key]
        if report.target.stopped is not None:
            key = [report.target.stopped.by, report.target.stopped.name, key]
    digest = hashlib.sha256(json.dumps([kind, key]).encode()).hexdigest()
    if kind in (DEADLOCK, CRASH):
        status = FOUND
    else:  # a program that another process killed is judged like one that lives
        status = status_of(report if report.crash is None else replace(report, crash=None, verdict=None))
    title = plain(words.title(facts))
    return Signature(kind, digest[:16], printable(_without_addresses(title) if kind == OTHER else title, 400), status)


def _without_addresses(text: str) -> str:
    """A title without what differs from one run of a program to the next."""
    return re.sub(rf" {_ADDRESS.pattern}", "", text)


# -- what counts ---------------------------------------------------------------------------------------------


def _without_numbers(text: str | None) -> str:
    return _NUMBER.sub("N", _ADDRESS.sub("0x", text or ""))


def frame_key(frame: Frame) -> FrameKey:
    """What counts of a frame when targets are compared, also with those of other machines.

    Notebooks number the files that they invent.
    """
    language, function, file = _without_place(frame)
    return language, function, _without_numbers(_end_of(file)) if isinstance(frame, PyFrame) else file


def _end_of(path: str) -> str:
    """The part of a path that does not depend on the machine."""
    return short_path(path).removeprefix(".../").removeprefix("~/").removeprefix("/usr/").lstrip("/")


def _without_place(frame: Frame) -> FrameKey:
    """A frame without its line and address."""
    if isinstance(frame, PyFrame):
        return "python", frame.qualified_name, frame.file
    return "native", frame.function or "?", frame.module or "?"


def _collapsed(stack: Iterable[FrameKey]) -> Iterator[FrameKey]:
    """The frames of a stack, with one frame for a function that calls itself: the depth of a recursion varies."""
    return (key for key, _ in itertools.groupby(stack))


def _role(thread: Thread | None) -> str:
    return _without_numbers(thread.python_name or thread.name if thread is not None else None) or "thread"


def _place(thread: Thread | None) -> list[FrameKey]:
    """Where a thread waits: its innermost frame outside the C library, and its innermost Python frame."""
    found: list[FrameKey] = []
    for frame in thread.stack if thread is not None else ():
        if isinstance(frame, PyFrame):
            return [*found, frame_key(frame)]
        if not found and not C_LIBRARY.match(module_of(frame) or ""):
            found.append(frame_key(frame))
    return found


def _deadlock_key(facts: Facts, deadlock: Deadlock) -> str:
    """The edges of a cycle, each once: the number of readers, or of threads in a ring, may differ."""
    edges = []
    for edge in deadlock.edges:
        waiter = facts.threads.get(edge.waiter)
        holder = None if edge.holder is None else _role(facts.threads.get(edge.holder))
        edges.append([_role(waiter), *_lock_key(edge.lock, facts.locks.get(edge.lock)), holder, _place(waiter)])
    return json.dumps(sorted(edges, key=json.dumps))


def _lock_key(lock_id: str, lock: Lock | None) -> list[str]:
    if lock is None:
        return [lock_id.partition(":")[0], "", ""]
    return [lock.kind, _without_numbers(lock.name), reason(lock.orphan).text if lock.orphan else ""]


def _crash_key(crash: Crash) -> list[Any]:
    fault, first = crash.fault, words.guilty_or_innermost(crash)
    frames = [frame_key(frame) for frame in crash.stack.frames]
    if crash.recursion is not None:
        # which function of the recursion used up the stack is chance
        return [fault.kind, sorted({frames[at] for at in crash.recursion.round if at < len(frames)})]
    at = None if crash.guilty is None or crash.guilty >= len(frames) else frames[crash.guilty]
    # without a frame of the program's own, its message and all callers are what distinguishes one abort from another
    last = min(first + 1 + _CALLERS, _MOST_FRAMES) if at is not None else _MOST_FRAMES
    message = [] if at is not None else [_without_numbers(fault.message)]
    return [fault.kind, fault.signal, at, list(_collapsed(frames[:last])), *message]


# -- merged stacks -------------------------------------------------------------------------------------------


@dataclass
class _Node:
    count: int = 0
    children: dict[FrameKey, _Node] = field(default_factory=dict)


def merged_stacks(threads: Iterable[Thread], lines: int = _MANY_LINES) -> list[str]:
    """The stacks of threads as one tree, outermost frame first, with the number of threads in each frame.

    Frames are indented only where stacks branch; each branch has a dash, and the one with most threads comes first.
    """
    root = _Node()
    for thread in threads:
        root.count += 1
        at = root
        for frame in reversed(list(_collapsed(map(_without_place, thread.stack)))):
            at = at.children.setdefault(frame, _Node())
            at.count += 1
    found: list[str] = []
    work = _inner(root, 0)
    while work:
        node, (_, function, file), depth, parts = work.pop()
        if len(found) == lines:
            found.append("       ...")
            break
        indent = "  " * (depth - parts) + "- " * parts
        found.append(f"{node.count:6} {indent}{printable(function, 200)} ({printable(file_name(file), 100)})")
        work += _inner(node, depth)
    return found


def _inner(node: _Node, depth: int) -> list[tuple[_Node, FrameKey, int, bool]]:
    """The calls from a frame, the one with most threads last, each with its indentation and whether it is a branch."""
    calls = sorted(node.children.items(), key=lambda item: (-item[1].count, item[0]), reverse=True)
    # a stack that ends here is a branch as well
    parts = len(calls) > 1 or bool(calls) and calls[0][1].count < node.count
    return [(child, frame, depth + parts, parts) for frame, child in calls]


# -- the report ----------------------------------------------------------------------------------------------


def summary(triage: Triage, what: str = "core") -> str:
    """One line: the number of targets of each kind."""
    counts = {kind: sum(len(each.members) for each in triage.classes if each.kind == kind) for kind in KINDS}
    return words.summary(counts, len(triage.classes), len(triage.failures), what)


def text(triage: Triage, what: str = "core", style: Style = PLAIN) -> Safe:
    """The whole report, with the merged stacks of the representative of each class."""
    lines = [summary(triage, what)]
    for number, each in enumerate(triage.classes, 1):
        title = words.with_kind(each.kind, each.title)
        lines += ["", f"{number}. {len(each.members):,} x {marked(style, each.kind, title)}"]
        shown = ", ".join(printable(member, 300) for member in each.members[:_MANY_MEMBERS])
        left = len(each.members) - _MANY_MEMBERS
        lines.append(f"   {shown}" + (f" and {left:,} more" if left > 0 else ""))
        report = each.report
        if report is not None:
            lines += [f"   {line}" for line in _representative(each, report)]
    taken = taken_out([report for each in triage.classes if (report := each.report) is not None])
    lines += [*failure_lines(triage, "   "), *(["", f"Left out: {reason(taken).text}"] if taken is not None else [])]
    return as_text(lines)


def marked(style: Style, kind: str, title: str) -> str:
    """The title of a class, coloured if it is a deadlock or a crash."""
    return style.mark(title, "bad") if kind in (DEADLOCK, CRASH) else title


def failure_lines(triage: Triage, indent: str) -> Iterator[str]:
    """The targets that could not be read, or only in part."""
    for heading, failures in ((words.NOT_READ, triage.failures), (words.READ_IN_PART, triage.incomplete)):
        if failures:
            yield from ("", heading, *(f"{indent}{failure_line(failure)}" for failure in failures))


def failure_line(failure: Failure) -> str:
    """A failure on one line."""
    hint = f"; {printable(failure.hint)}" if failure.hint else ""
    return problem_of(printable(failure.target), printable(failure.problem)) + hint


def first_cycle(facts: Facts) -> str:
    """The links of a report's first deadlock, on one line."""
    return printable(plain(cycle_line(facts, facts.report.deadlocks[0])), 400)


def _representative(each: Class, report: Report) -> Iterator[str]:
    facts, shown = Facts(report), report.threads
    yield from (printable(plain(known_bug(bug)), 600) for bug in report.known)
    if each.kind == DEADLOCK:
        yield first_cycle(facts)
        evidence = weakest([deadlock.evidence for deadlock in report.deadlocks])
        why = next((deadlock.why for deadlock in report.deadlocks if deadlock.why), None)
        if evidence != RECORDED and why is not None:
            yield f"({evidence}: {printable(reason(why).text, 300)})"
        shown = tuple(facts.known({number: None for deadlock in report.deadlocks for number in deadlock.threads}))
    yield from (printable(plain(line), 400) for line in words.threads_of_verdict(facts, each.kind == DEADLOCK))
    yield printable(plain(words.stacks_heading(each.kind, len(shown), each.representative)))
    if each.kind == CRASH and report.crash is not None:
        yield from (f"     {printable(frame_line(frame), 300)}" for frame in report.crash.stack.frames[:8])
    else:
        yield from merged_stacks(shown)


def as_document(triage: Triage) -> dict[str, Any]:
    """The document of schema ``gdbext-triage/1``."""
    made: dict[str, Any] = {
        "schema": SCHEMA,
        "count": triage.count,
        "classes": [{"kind": each.kind, "id": each.key, "title": each.title, "count": len(each.members),
                     "members": list(each.members), "representative": each.representative,
                     "document": each.document} for each in triage.classes],
        "failures": [asdict(failure) for failure in triage.failures],
        "incomplete": [asdict(failure) for failure in triage.incomplete],
    }
    if triage.processes is not None:
        made["processes"] = triage.processes
    return made


def shown_targets(triage: Triage) -> list[Shown]:
    """The representatives, and the targets that could not be read, as `render.html` takes them."""
    read = [Shown(each.representative, each.report) for each in triage.classes]
    return read + [Shown(failure.target, None, failure.problem, failure.hint) for failure in triage.failures]


def class_rows(triage: Triage) -> list[dict[str, Any]]:
    """The classes as `render.html` takes them."""
    return [{"verdict": words.with_kind(each.kind, each.title), "count": len(each.members),
             "members": list(each.members), "representative": each.representative} for each in triage.classes]
