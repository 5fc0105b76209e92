"""What has changed between two reports on one process, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gdbext.model import Lock, Thread
from gdbext.model.verdict import OUTCOMES
from gdbext.narrate.brief import place
from gdbext.narrate.names import MANY, Facts, duration, lock_name, thread_name
from gdbext.narrate.sentences import sentence, verdict_title
from gdbext.narrate.threads import doing
from gdbext.narrate.verdict import header
from gdbext.narrate.words import Words, capitalised, listed, plural
from gdbext.verdict.changes import Changes as Changes
from gdbext.verdict.changes import Pair, Proof

#: The title for each proof.
TITLES: Mapping[Proof, str] = {
    "proven": "HANG PROVEN", "lasts": "STILL THE SAME", "ran": "NOT PROVEN", "unknown": "NOT PROVEN",
    "other": "CHANGED", "fine": "NOTHING WRONG FOUND"}
#: The headings of the lists.
MOVED, LASTED, HANDED, NEW, GONE, IDLE = (
    "Threads that have moved:", "Waits that lasted:", "Locks that changed hands:", "New threads:", "Ended threads:",
    "Threads that have run and are at the same place:")


def introduction(changes: Changes) -> Words:
    """What the reports are about, and the time between them."""
    between = f"{between_them(changes)} before" if changes.seconds is not None else "before, at an unknown time"
    return (*header(changes.after), "; compared with a report ", between)


def between_them(changes: Changes) -> str:
    """The time between the reports; empty if it is not known."""
    return duration(changes.seconds) if changes.seconds is not None else ""


def answer(changes: Changes) -> Words:
    """Whether the second report proves the hang, after the title of that."""
    facts = Facts(changes.after)
    first, verdict = Facts(changes.before).verdict, facts.verdict
    said: Words = (f"{verdict_title(verdict)}: ", *sentence(facts))
    count = len(verdict.threads)
    them = "the thread has" if count == 1 else f"none of the {count:,} threads has"
    time = f" in {between_them(changes)}" if changes.seconds is not None else " in between"
    if changes.proof == "proven":
        if verdict.kind in ("task-cycle", "greenlet-cycle"):
            return (*said, "; both reports have this cycle")
        return (*said, f"; {'the thread has not' if count == 1 else them} run{time}")
    if changes.proof == "lasts":
        return (*said, f"; {'the thread has not' if count == 1 else them} run{time}, and the verdict leaves open "
                "whether it ends")
    if changes.proof == "ran":
        ran = [pair.after.number for pair in changes.pairs if pair.ran and pair.after.number in verdict.threads]
        return (*said, "; but ", *listed([thread_name(facts, number) for number in ran[:MANY]]),
                f" {'has' if len(ran) == 1 else 'have'} run in between, perhaps only to wait again")
    if changes.proof == "unknown":
        return (*said, "; it is not known whether these threads have run in between")
    if changes.proof == "fine":
        return ("neither report shows a hang",)
    was = verdict_title(first)
    if first.kind == verdict.kind:
        return (*said, f"; the first report has this verdict ({was}) on other threads")
    better = OUTCOMES.get(verdict.kind) == "fine"
    return (*said, f"; the first report has {was}", ", which has ended" if better else "")


def moved(changes: Changes) -> Iterator[Words]:
    """The threads that have run and are at another place or wait for something else, each with both."""
    earlier, later = Facts(changes.before), Facts(changes.after)
    for pair in changes.pairs:
        if pair.moved:
            yield (*capitalised(thread_name(later, pair.after.number)), ": ", *_does(earlier, pair.before), " -> ",
                   *_does(later, pair.after))


def in_place(changes: Changes) -> list[int]:
    """The numbers of threads that have run and are at the same place."""
    return [pair.after.number for pair in changes.pairs if pair.ran and not pair.moved]


def lasted(changes: Changes) -> Iterator[Words]:
    """The waits that lasted from one report to the other; equal ones on one line."""
    facts = Facts(changes.after)
    groups: dict[Words, list[Pair]] = {}
    for pair in changes.lasted:
        groups.setdefault(doing(facts, pair.after), []).append(pair)
    for does, members in groups.items():
        names = [thread_name(facts, pair.after.number) for pair in members[:MANY]]
        more = f" and {len(members) - MANY:,} more" if len(members) > MANY else ""
        yield (*capitalised(listed(names)), more, ": " if len(members) == 1 else ": each ", *does)


def handed(changes: Changes) -> Iterator[Words]:
    """The locks whose holders differ."""
    earlier, later = Facts(changes.before), Facts(changes.after)
    for before, after in changes.handed:
        yield (*capitalised(lock_name(later, after)), ": ", *_holders(earlier, before), " -> ", *_holders(later, after))


def names(facts: Facts, found: Sequence[Thread]) -> list[Words]:
    """The names of threads, and how many more there are."""
    shown = [thread_name(facts, thread.number) for thread in found[:MANY]]
    return [*shown, *([(f"{plural(len(found) - MANY, 'more thread')}",)] if len(found) > MANY else [])]


def _holders(facts: Facts, lock: Lock) -> Words:
    return listed([thread_name(facts, holder.thread) for holder in lock.holders[:MANY]]) or ("nobody known",)


def _does(facts: Facts, thread: Thread) -> Words:
    return listed([words for words in (doing(facts, thread), place(thread)) if words])
