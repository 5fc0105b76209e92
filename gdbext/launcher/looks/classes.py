"""Looks at many targets grouped by what happened there: equal verdicts, or equal merged stacks, make a class. Pure.

What makes two targets equal is a signature of their documents (schema ``gdbext/1``). It has nothing that differs from
one run of a program to the next: no addresses, no numbers of processes, threads or descriptors, no lines.

Schema ``gdbext-triage/1`` is owned by this module.
"""

from __future__ import annotations

import collections
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from gdbext.launcher.status import FOUND, NO_ANSWER, NOTHING_FOUND
from gdbext.model.kinds import GIL, kind_of, kind_of_id
from gdbext.record import record
from gdbext.render.escape import printable
from gdbext.render.html_text import ranges

SCHEMA = "gdbext-triage/1"
#: `UNKNOWN`: no deadlock was found, and none can be ruled out.
DEADLOCK, CRASH, UNKNOWN, OTHER = "deadlock", "crash", "unknown", "other"
#: The order of classes in a report.
KINDS = (DEADLOCK, CRASH, UNKNOWN, OTHER)
EVIDENCE = ("recorded", "derived", "inferred")

#: How many frames of a crash count, the guilty one and what it called always among the first so many.
_CALLERS, _MOST_FRAMES = 2, 24
#: How many edges of a cycle, members of a class, and lines of merged stacks are told.
_MANY_EDGES, _MANY_MEMBERS, _MANY_LINES = 4, 4, 40
_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")
_NUMBER = re.compile(r"[0-9]+")
#: Where a thread waits is told by the frames outside of these.
_C_LIBRARY = re.compile(r"(libc|libpthread|ld-linux-x86-64|ld-musl-x86_64)[-.]")
#: The functions that MPI's standard names, by themselves and as a profiler calls them.
_MPI = re.compile(r"P?MPI_[A-Z]")

Json = Mapping[str, Any]
#: A frame as it counts: language, function, file or module.
FrameKey = tuple[str, str, str]


@record
class Signature:
    """What happened in a target: one of `KINDS`, a key that is equal where that is equal, and in words."""

    kind: str
    key: str
    title: str


@record
class Class:
    """Targets in which the same happened. `representative` is that of the fewest threads, `document` its document."""

    kind: str
    key: str
    title: str
    members: tuple[str, ...]
    representative: str
    document: Json | None = None


@record
class Failure:
    """A target that could not be read, why, and what to do."""

    target: str
    problem: str
    hint: str | None = None


@record
class Triage:
    """Many looks, merged.

    `failures` are the targets that are in no class, `incomplete` those that are in one although not all of them could
    be read. `processes` is the part of a document that tells how processes wait for each other.
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
        """The exit status: 1 where a deadlock or a crash was found, 3 where one cannot be ruled out, else 0."""
        kinds = {each.kind for each in self.classes}
        if kinds & {DEADLOCK, CRASH} or self.processes and self.processes["deadlocks"]:
            return FOUND
        return NO_ANSWER if self.failures or UNKNOWN in kinds else NOTHING_FOUND


@dataclass
class _Group:
    signature: Signature
    members: list[str] = field(default_factory=list)
    best: tuple[int, str] | None = None
    document: Callable[[], Json | None] = lambda: None


class Grouping:
    """Collects looks, one by one, and keeps of each only its name and class."""

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}

    def add(self, target: str, signature: Signature, threads: int, document: Callable[[], Json | None]) -> None:
        """Add a look; `document` is asked for once at most, in `classes`."""
        group = self._groups.setdefault(signature.key, _Group(signature))
        group.members.append(target)
        if group.best is None or (threads, target) < group.best:
            group.best, group.document, group.signature = (threads, target), document, signature

    def classes(self) -> tuple[Class, ...]:
        """In the order of `KINDS`, the largest class of a kind first."""
        found = [Class(group.signature.kind, key, group.signature.title, tuple(sorted(group.members)), group.best[1],
                       group.document()) for key, group in self._groups.items() if group.best is not None]
        return tuple(sorted(found, key=lambda each: (KINDS.index(each.kind), -len(each.members), each.title, each.key)))


def merge(documents: Iterable[tuple[str, Json]]) -> tuple[Class, ...]:
    """The classes of (target, document) pairs that are all at hand."""
    grouping = Grouping()
    for target, document in documents:
        grouping.add(target, signature(document), thread_count(document), lambda made=document: made)  # type: ignore[misc]
    return grouping.classes()


def thread_count(document: Json) -> int:
    """How many threads a document lists."""
    return len(document.get("threads") or ())


def signature(document: Json) -> Signature:
    """What happened in a target.

    A program that somebody else has killed may have hung: then its stacks tell, as of one that lives.
    """
    threads = {thread["number"]: thread for thread in document.get("threads") or ()}
    locks = {lock["id"]: lock for lock in document.get("locks") or ()}
    deadlocks = document.get("deadlocks") or ()
    crash = document.get("crash")
    if deadlocks:
        found = [_deadlock_key(each, threads, locks) for each in deadlocks]
        title = _deadlock_title(deadlocks[0], locks)
        more = len(deadlocks) - 1
        if more:
            title += f"; and {more} more deadlock{'s' if more > 1 else ''}"
        return _signature(DEADLOCK, sorted(set(found)), title)
    if crash is not None and crash["fault"]["kind"] != "sent":
        return _signature(CRASH, _crash_key(crash), _crash_title(crash))
    stacks = {tuple(_collapsed(_without_polling(thread["stack"]))) for thread in threads.values()}
    title = _other_title(threads.values())
    if document.get("no_verdict"):
        return _signature(UNKNOWN, sorted(stacks), f"{cannot_be_told(document)}; {title}")
    return _signature(OTHER, sorted(stacks), title)


def _signature(kind: str, key: Any, title: str) -> Signature:
    digest = hashlib.sha256(json.dumps([kind, key]).encode()).hexdigest()
    return Signature(kind, digest[:16], printable(title, 400))


# -- what counts ---------------------------------------------------------------------------------------------


def _without_numbers(text: str | None) -> str:
    return _NUMBER.sub("N", _ADDRESS.sub("0x", text or ""))


def frame_key(frame: Json) -> FrameKey:
    """A frame without its line and address."""
    if frame["language"] == "python":
        # notebooks and the like number the files that they make up
        return "python", frame["qualified_name"], _without_numbers(frame["file"])
    return "native", frame["function"] or "?", frame["module"] or "?"


def _collapsed(stack: Iterable[Json]) -> Iterator[FrameKey]:
    """The frames of a stack, of a function that calls itself one: how deep a recursion is may differ."""
    last = None
    for frame in stack:
        key = frame_key(frame)
        if key != last:
            yield key
        last = key


def _without_polling(stack: Sequence[Json]) -> Sequence[Json]:
    """The frames of a stack from the innermost call of MPI on, outwards; all of them if there is none.

    Open MPI and MPICH wait in a loop over their transports, and in which function of it a look finds them is chance.
    """
    at = next((index for index, frame in enumerate(stack) if _is_mpi(frame)), None)
    if at is None:
        return stack
    library = stack[at]["module"]
    caller = stack[at + 1].get("module") if at + 1 < len(stack) else library
    for frame in stack[:at]:
        # a callback is of Python, or of the file that calls MPI; where MPI is part of that file, none is to be told
        if frame["language"] == "python" or frame["module"] == caller != library:
            return stack
    return stack[at:]


def _is_mpi(frame: Json) -> bool:
    return frame["language"] == "native" and _MPI.match(frame["function"] or "") is not None


def _role(thread: Json | None) -> str:
    name = (thread["python_name"] or thread["name"]) if thread is not None else None
    return _without_numbers(name) or "thread"


def _place(thread: Json | None) -> list[FrameKey]:
    """Where a thread waits: its innermost frame outside of the C library, and its innermost one of Python."""
    found: list[FrameKey] = []
    for frame in thread["stack"] if thread is not None else ():
        if frame["language"] == "python":
            return [*found, frame_key(frame)]
        if not found and not _C_LIBRARY.match(frame["module"] or ""):
            found.append(frame_key(frame))
    return found


def _deadlock_key(deadlock: Json, threads: Mapping[int, Json], locks: Mapping[str, Json]) -> str:
    """The edges of a cycle, each once: of readers and of those in a ring there may be any number."""
    edges = []
    for edge in deadlock["edges"]:
        waiter, lock = threads.get(edge["waiter"]), locks.get(edge["lock"])
        holder = None if edge["holder"] is None else _role(threads.get(edge["holder"]))
        edges.append([_role(waiter), *_lock_key(edge["lock"], lock), holder, _place(waiter)])
    return json.dumps(sorted(edges, key=json.dumps))


def _lock_key(lock_id: str, lock: Json | None) -> list[str]:
    if lock is None:
        return [lock_id.partition(":")[0], "", ""]
    return [lock["kind"], _without_numbers(lock["name"]), lock["orphan"] or ""]


def _crash_key(crash: Json) -> list[Any]:
    fault, guilty, recursion = crash["fault"], crash["guilty_frame"], crash["recursion"]
    frames = [frame_key(frame) for frame in crash["stack"]]
    if recursion is not None:
        # which function of the round used up the stack is chance
        return [fault["kind"], sorted({frames[at] for at in recursion["round"] if at < len(frames)})]
    last = min((0 if guilty is None else guilty) + 1 + _CALLERS, _MOST_FRAMES)
    at = None if guilty is None or guilty >= len(frames) else frames[guilty]
    return [fault["kind"], fault["signal"], at, list(_collapsed(crash["stack"][:last]))]


# -- in words ------------------------------------------------------------------------------------------------


def _name(thread: Json | None, number: int) -> str:
    name = (thread["python_name"] or thread["name"]) if thread is not None else None
    return f"thread {number}" + (f' "{name}"' if name else "")


def lock_text(lock_id: str, lock: Json | None) -> str:
    """A lock by kind and what it is called; that of the first interpreter is *the* GIL."""
    kind = lock_id.partition(":")[0] if lock is None else str(lock["kind"])
    title = kind_of(kind).title
    if title is not None:
        return title if kind != GIL or lock_id == f"{GIL}:0" else f"{title} {lock_id}"
    name = lock["name"] if lock is not None else None
    return f"{kind} {name}" if name else kind


def _deadlock_title(deadlock: Json, locks: Mapping[str, Json]) -> str:
    """How many threads, and over which locks; the GIL first, since readers look for it."""
    names: collections.Counter[str] = collections.Counter()
    for lock_id in dict.fromkeys(edge["lock"] for edge in deadlock["edges"]):
        lock = locks.get(lock_id)
        orphan = f" ({lock['orphan']})" if lock is not None and lock["orphan"] else ""
        names[lock_text(lock_id, lock) + orphan] += 1
    parts = [f"{number} x {text}" if number > 1 else text for text, number in names.items()]
    parts.sort(key=lambda text: not text.startswith(str(kind_of(GIL).title)))
    if len(parts) > _MANY_EDGES:
        parts[_MANY_EDGES:] = [f"and {len(parts) - _MANY_EDGES} more"]
    number = len(deadlock["threads"])
    what = "standstill" if deadlock.get("standstill") else "deadlock"
    return f"{what} of {number:,} thread{'s' if number != 1 else ''}" + (f": {', '.join(parts)}" if parts else "")


def cannot_be_told(document: Json) -> str:
    """That there is no verdict, and why."""
    return f"whether there is a deadlock cannot be told ({document['no_verdict']})"


def cycle_text(document: Json) -> str:
    """The first deadlock of a document, thread by thread, on one line."""
    threads = {thread["number"]: thread for thread in document["threads"]}
    locks = {lock["id"]: lock for lock in document["locks"]}
    deadlock = document["deadlocks"][0]
    # those that wait for the same are told once
    waiters: dict[tuple[str, int | None], dict[int, None]] = {}
    for edge in deadlock["edges"]:
        waiters.setdefault((edge["lock"], edge["holder"]), {})[edge["waiter"]] = None
    parts = []
    for (lock_id, holder), numbers in list(waiters.items())[:_MANY_EDGES]:
        lock, first = locks.get(lock_id), next(iter(numbers))
        name = "the end" if kind_of_id(lock_id).ends_thread else lock_text(lock_id, lock)
        text = f"{_name(threads.get(first), first)} waits for {name}"
        if len(numbers) > 1:
            text = f"{len(numbers):,} threads ({ranges(numbers)}) wait for {name}"
        if holder is not None:
            text += f" of {_name(threads.get(holder), holder)}"
        elif lock is not None:
            text += f", {lock['orphan'] or lock['state']}"
        parts.append(text)
    left = len(waiters) - len(parts)
    if left > 0:
        parts.append(f"and {left} more")
    return printable("; ".join(parts), 400)


def _file(path: str) -> str:
    return path.rpartition("/")[2]


def frame_text(frame: Json) -> str:
    """A frame in a line: ``work (job.py:41)``, ``get (libdrv.so)``."""
    if frame["language"] == "python":
        line = f":{frame['line']}" if frame["line"] is not None else ""
        return f"{frame['qualified_name']} ({_file(frame['file'])}{line})"
    return f"{frame['function'] or '?'} ({frame['module'] or 'no file'})"


def _crash_title(crash: Json) -> str:
    fault, guilty = crash["fault"], crash["guilty_frame"]
    stack = crash["stack"]
    at = stack[guilty] if guilty is not None and guilty < len(stack) else stack[0] if stack else None
    where = f" in {frame_text(at)}" if at is not None else ""
    return f"{fault['signal']}, {fault['kind']}{where}: {fault['text']}"


def _other_title(threads: Iterable[Json]) -> str:
    """What the first thread does, and of a call of MPI who made it."""
    first = min(threads, key=lambda thread: int(thread["number"]), default=None)
    if first is None:
        return "no threads"
    stack = _without_polling(first["stack"])
    call = frame_text(stack[0]) + " called by " if len(stack) > 1 and _is_mpi(stack[0]) else ""
    stack = stack[1:] if call else stack
    frame = next((frame for frame in stack if frame["language"] == "python"), None)
    frame = frame or next((frame for frame in stack if not _C_LIBRARY.match(frame["module"] or "")), None)
    if first["status"] == "blocked":
        does = f"is blocked in {first['syscall'] or 'a system call'}"
    else:
        does = "runs" if first["status"] == "running" else "is in an unknown state"
    return f"{_name(first, first['number'])} {does}" + (f" in {call}{frame_text(frame)}" if frame is not None else "")


# -- merged stacks -------------------------------------------------------------------------------------------


@dataclass
class _Node:
    count: int = 0
    children: dict[FrameKey, _Node] = field(default_factory=dict)


def merged_stacks(threads: Iterable[Json], lines: int = _MANY_LINES) -> list[str]:
    """The stacks of threads as one tree, outermost frame first, with how many threads are in each frame.

    Frames are indented only where stacks part, each branch with a dash, that of most threads first.
    """
    root = _Node()
    for thread in threads:
        root.count += 1
        at = root
        for frame in reversed(list(_collapsed(thread["stack"]))):
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
        found.append(f"{node.count:6} {indent}{printable(function, 200)} ({printable(_file(file), 100)})")
        work += _inner(node, depth)
    return found


def _inner(node: _Node, depth: int) -> list[tuple[_Node, FrameKey, int, bool]]:
    """The calls from a frame, to be taken from the end; the last is that of most threads.

    :return: of each the depth to which it is indented, and whether stacks part there.
    """
    calls = sorted(node.children.items(), key=lambda item: (-item[1].count, item[0]), reverse=True)
    # a thread that ends here parts from the others as well
    parts = len(calls) > 1 or bool(calls) and calls[0][1].count < node.count
    return [(child, frame, depth + parts, parts) for frame, child in calls]


# -- the report ----------------------------------------------------------------------------------------------


def summary(triage: Triage, what: str = "core") -> str:
    """One line: how many of each kind."""
    counts = {kind: sum(len(each.members) for each in triage.classes if each.kind == kind) for kind in KINDS}
    parts = [f"{counts[DEADLOCK]:,} deadlocked", f"{counts[CRASH]:,} crashed", f"{counts[OTHER]:,} neither"]
    parts += [f"{counts[UNKNOWN]:,} without a verdict"] if counts[UNKNOWN] else []
    many = len(triage.classes)
    text = f"{triage.count:,} {what}{'s' if triage.count != 1 else ''}: {', '.join(parts)}"
    text += f"; {many:,} class{'es' if many != 1 else ''}"
    return text + (f"; {len(triage.failures):,} could not be read" if triage.failures else "")


def text(triage: Triage, what: str = "core") -> str:
    """The whole report for people, the representative of each class with its merged stacks."""
    lines = [summary(triage, what)]
    for number, each in enumerate(triage.classes, 1):
        lines += ["", f"{number}. {len(each.members):,} x {_verdict(each)}"]
        shown = ", ".join(printable(member, 300) for member in each.members[:_MANY_MEMBERS])
        left = len(each.members) - _MANY_MEMBERS
        lines.append(f"   {shown}" + (f" and {left:,} more" if left > 0 else ""))
        if each.document is not None:
            lines += _representative(each, each.document)
    for heading, failures in (("Not read:", triage.failures), ("Not read to the end:", triage.incomplete)):
        if failures:
            lines += ["", heading]
            lines += [f"   {line(failure)}" for failure in failures]
    return "\n".join(lines)


def _verdict(each: Class) -> str:
    return each.title if each.kind == DEADLOCK else f"{each.kind}: {each.title}"


def line(failure: Failure) -> str:
    """A failure on one line."""
    hint = f"; {printable(failure.hint)}" if failure.hint else ""
    return f"{printable(failure.target, 300)}: {printable(failure.problem)}{hint}"


def _representative(each: Class, document: Json) -> list[str]:
    threads = document.get("threads") or ()
    lines = []
    if each.kind == DEADLOCK:
        involved = {number for deadlock in document["deadlocks"] for number in deadlock["threads"]}
        shown = [thread for thread in threads if thread["number"] in involved]
        lines.append(f"   {cycle_text(document)}")
        kinds = [deadlock["evidence"] for deadlock in document["deadlocks"]]
        weakest = max(kinds, key=EVIDENCE.index)
        reasons = [deadlock["why"] for deadlock in document["deadlocks"] if deadlock["why"]]
        if weakest != EVIDENCE[0] and reasons:
            lines.append(f"   ({weakest}: {printable(reasons[0], 300)})")
        lines.append(f"   stacks of its threads in {printable(each.representative, 300)}:")
    elif each.kind == CRASH:
        crash = document["crash"]
        lines.append(f"   innermost frames in {printable(each.representative, 300)}:")
        lines += [f"        {printable(frame_text(frame), 300)}" for frame in crash["stack"][:8]]
        return lines
    else:
        shown = list(threads)
        lines.append(f"   stacks of all {len(shown):,} threads in {printable(each.representative, 300)}:")
    return lines + [f"   {each_line}" for each_line in merged_stacks(shown)]


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


def looks_of(triage: Triage) -> list[dict[str, Any]]:
    """The representatives, and what could not be read, as `render.html` takes looks."""
    read = [{"target": each.representative, "document": each.document, "problem": None, "stopped": None}
            for each in triage.classes]
    return read + [{"target": failure.target, "document": None, "problem": failure.problem, "hint": failure.hint,
                    "stopped": None} for failure in triage.failures]


def rows_of(triage: Triage) -> list[dict[str, Any]]:
    """The classes as `render.html` takes them."""
    return [{"verdict": _verdict(each), "count": len(each.members), "members": list(each.members),
             "representative": each.representative} for each in triage.classes]
