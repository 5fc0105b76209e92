"""The names of threads and locks, alone and in lists."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence

from gdbext.model import Greenlet, Lock, Report, Task, Thread
from gdbext.model.kinds import GIL, kind_of, name_of_kind
from gdbext.model.verdict import Verdict
from gdbext.narrate.words import Foreign, Marked, Words, listed, plural
from gdbext.verdict.judge import verdict_of

#: How many thread numbers or ranges a list shows before "and N more".
MANY = 20
#: How many consecutive numbers are shown as a range, at least.
RANGE = 3
#: How many kinds of thread names a heading shows.
_MANY_NAMES = 4
_DIGITS = re.compile(r"[0-9]+")


class Facts:
    """A report with its threads by number, its locks by id, its tasks and greenlets by address."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.threads = {thread.number: thread for thread in report.threads}
        self.locks = {lock.id: lock for lock in report.locks}
        self.tasks = {task.address: task for task in report.tasks}
        self.greenlets = {greenlet.address: greenlet for greenlet in report.greenlets}
        self.single_gil = sum(lock.kind == GIL for lock in report.locks) == 1
        self._stacks: dict[object, int] = {}
        self._stack_numbers: dict[tuple[int, int], int] = {}

    @functools.cached_property
    def verdict(self) -> Verdict:
        """The verdict of the report."""
        return verdict_of(self.report)

    def stack_number(self, thread: Thread) -> int:
        """A number that is equal for threads with the same stack."""
        # to compare thousands of long stacks takes long, and most of them are the same objects
        place = id(thread.stack), id(thread.parts)
        if place not in self._stack_numbers:
            # the text of a folded part may differ for the same frames, as for imports of two modules
            key = thread.stack, tuple([part.text for part in thread.parts])
            self._stack_numbers[place] = self._stacks.setdefault(key, len(self._stacks))
        return self._stack_numbers[place]

    def known(self, numbers: Iterable[int]) -> list[Thread]:
        """The threads with these numbers; the report may lack some."""
        return [self.threads[number] for number in numbers if number in self.threads]

    def known_tasks(self, addresses: Iterable[int]) -> list[Task]:
        """The tasks at these addresses; the report may lack some."""
        return [self.tasks[address] for address in addresses if address in self.tasks]

    def known_greenlets(self, addresses: Iterable[int]) -> list[Greenlet]:
        """The greenlets at these addresses; the report may lack some."""
        return [self.greenlets[address] for address in addresses if address in self.greenlets]

    def awaited(self, thread: Thread) -> Lock | None:
        """The lock that a thread waits for; None if it does not wait, or if the report lacks the lock."""
        return self.locks.get(thread.waits.lock) if thread.waits is not None else None
#: Units of time in seconds; the first that is not too long is used.
_UNITS = ((86400, "days"), (3600, "h"), (60, "min"))


def _quoted(name: str | None) -> Words:
    return (' "', Foreign(name, 60), '"') if name else ()


def thread_name(facts: Facts, number: int) -> Words:
    """A thread's number and name."""
    thread = facts.threads.get(number)
    if thread is None:
        return (f"thread {number}",)
    return (Marked("thread", (f"thread {number}", *_quoted(thread.python_name or thread.name)), number),)


def heading(members: Sequence[Thread]) -> Words:
    """The heading of one thread, or of a group by ascending number."""
    if len(members) > 1:
        words = numbers_and_names(members, [thread.number for thread in members])
        return (Marked("name", (f"{len(members):,} ", *words)),)
    (thread,) = members
    tid = f", TID {thread.tid}" if thread.tid not in (None, thread.lwp) else ""
    return (Marked("name", (f"Thread {thread.number} (LWP {thread.lwp}{tid})",
                            *_quoted(thread.python_name or thread.name))),)


def seconds_asleep(members: Sequence[Thread]) -> float | None:
    """For how long all of some threads have been asleep, in seconds; None if that is not known."""
    since = [thread.since for thread in members if thread.since is not None]
    return min(since) if since and len(since) == len(members) else None


def asleep(members: Sequence[Thread]) -> str:
    """How long threads have been asleep; empty if that is not known, or one has run in the last second."""
    least = seconds_asleep(members)
    return f", asleep for {duration(least)}" if least is not None and least >= 1 else ""


def duration(seconds: float) -> str:
    """A time in seconds, in a unit that suits it."""
    return next((f"{seconds / unit:.0f} {name}" for unit, name in _UNITS if seconds >= 2 * unit), f"{seconds:.0f} s")


def number_list(numbers: Sequence[int], noun: str = "thread", most: int = MANY) -> str:
    """``threads 2-5, 7``, with at most so many numbers and ranges."""
    runs = list(_runs(numbers))
    shown = ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs[:most])
    left = sum(map(len, runs[most:]))
    return f"{noun}{'s' if len(numbers) != 1 else ''} {shown}" + (f" and {left:,} more" if left else "")


def _runs(numbers: Sequence[int]) -> Iterator[Sequence[int]]:
    """Split numbers into consecutive runs; shorter runs than `RANGE` into single numbers."""
    for _, group in itertools.groupby(enumerate(numbers), lambda item: item[1] - item[0]):
        run = [number for _, number in group]
        yield from [run] if len(run) >= RANGE else [[number] for number in run]


def names_of(threads: Sequence[Thread]) -> Words:
    """The names of threads; of names that differ only in a number, the first and the last."""
    alike: dict[str, list[Words]] = {}
    for name in dict.fromkeys(thread.python_name or thread.name or "" for thread in threads):
        if name:
            alike.setdefault(_DIGITS.sub("0", name), []).append(('"', Foreign(name, 60), '"'))
    parts = [(*names[0], " ... ", *names[-1]) if len(names) >= RANGE else listed(names)
             for names in itertools.islice(alike.values(), _MANY_NAMES)]
    left = sum(map(len, itertools.islice(alike.values(), _MANY_NAMES, None)))
    return (*listed(parts), f" and {plural(left, 'more name')}" if left else "") if parts else ()


def numbers_and_names(threads: Sequence[Thread], numbers: Sequence[int]) -> Words:
    """``threads 2-5 ("worker-1" ... "worker-4")``."""
    names = names_of(threads)
    return (number_list(numbers), *((" (", *names, ")") if names else ()))


def thread_list(facts: Facts, numbers: Sequence[int]) -> Words:
    """Threads with their names, or many as ranges of numbers."""
    if len(numbers) < RANGE + 1:
        return listed([thread_name(facts, number) for number in numbers])
    ascending = sorted(numbers)
    return numbers_and_names(facts.known(ascending), ascending)


def lock_name(facts: Facts, lock: Lock) -> Words:
    """A lock's kind, address and name."""
    return (Marked("lock", _lock_words(facts, lock), lock.id),)


def _lock_words(facts: Facts, lock: Lock) -> Words:
    kind = kind_of(lock.kind)
    if kind.behaviour == "thread-end":
        owner = lock.holders[0].thread if lock.holders else None
        return ("the end of ", *(thread_name(facts, owner) if owner is not None else (f"thread {lock.address:#x}",)))
    if kind.title is not None:
        return (kind.title if facts.single_gil else f"{kind.title} {lock.id}",)
    if kind.behaviour == "file-lock" and lock.name:
        return (f"{name_of_kind(lock.kind)} ", Foreign(lock.name, 300))  # a path: its end identifies the file
    return (f"{name_of_kind(lock.kind, lock.state, lock.shared)} {lock.address:#x}",
            *((" ", *program_name(lock)) if lock.name else ()))


def program_name(lock: Lock) -> Words:
    """A lock's name in the program, and the object that has it: ``src.lock of Account 'alice'``."""
    name, found = lock.name or "", lock.of_object
    if found is None:
        return (Foreign(name),)
    kind = () if name.endswith(f" of {found.type}") else (" of ", Foreign(found.type, 60))
    return (Foreign(name), *kind, " ", Foreign(found.value, 60))


def lock_of_id(facts: Facts, lock_id: str) -> Words:
    """The lock with an id; the id itself if the report lacks the lock."""
    lock = facts.locks.get(lock_id)
    return (Marked("lock", (Foreign(lock_id),)),) if lock is None else lock_name(facts, lock)


#: How many locks a headline names.
MANY_LOCKS = 4


def kind_and_name(lock_id: str, kind: str, name: str | None, state: str | None = None,
                  shared: bool = False) -> Words:
    """A lock's kind and name, without its address, which differs between runs."""
    row = kind_of(kind)
    if row.title is not None:
        # the main interpreter's is called *the* GIL
        return (row.title if kind != GIL or lock_id == f"{GIL}:0" else f"{row.title} {lock_id}",)
    return (name_of_kind(kind, state, shared), *((" ", Foreign(name)) if name else ()))


def short_lock(facts: Facts, lock_id: str) -> Words:
    """The kind and name of the lock with an id, which the report may lack."""
    lock = facts.locks.get(lock_id)
    return kind_and_name(lock_id, lock.kind, lock.name, lock.state, lock.shared) if lock is not None else kind_and_name(
        lock_id, lock_id.partition(":")[0], None)
