"""A report in brief: the threads of the verdict, the edges between them, since when, and what was left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from gdbext.model import RECORDED, Deadlock, Edge, Evidence, Report, Thread
from gdbext.model.evidence import weakest
from gdbext.model.reasons import Reason
from gdbext.narrate import deadlocks, greenlets, tasks, threads, verdict
from gdbext.narrate.frames import native_caller, own_frame, short_place
from gdbext.narrate.names import Facts, duration, seconds_asleep
from gdbext.narrate.sentences import is_said, sentence, verdict_title
from gdbext.narrate.words import Foreign, Words, known_by, listed, plural
from gdbext.record import record
from gdbext.verdict.judge import ends_by_itself

#: How many lines of the program a verdict on one line has.
_PLACES = 4


@record
class Link:
    """A link from waiters to the holders of a lock; `evidence` is the weakest of its edges."""

    of: deadlocks.Link
    words: Words
    evidence: Evidence
    why: Reason | None


@record
class Brief:
    """The most important parts of a report.

    `groups` are threads that do the same at the same place, with that in words. `remarks` say what the verdict leaves
    open, how it is known if no edge does, and what all threads do if none is listed. `since` is for how long all
    threads of the verdict have been asleep, in seconds; `ends_by_itself` is None if it is not known. `left_out` counts
    by noun.
    """

    groups: tuple[tuple[Sequence[Thread], Words], ...]
    links: tuple[Link, ...]
    remarks: tuple[Words, ...]
    since: float | None
    ends_by_itself: bool | None
    left_out: dict[str, int]


def brief(facts: Facts, most: int) -> Brief:
    """Choose the most important parts of a report.

    :param most: how many groups of threads, and how many links and cycles there may be.
    """
    report, judged = facts.report, facts.verdict
    links = list(_links(facts))
    groups = threads.groups(facts, [thread.number for thread in facts.known(dict.fromkeys(judged.threads))])
    shown, links_shown = groups[:most], links[:most]
    waiters = {number for link in links_shown for number in link.of.waiters}
    remarks = [*verdict.remarks(facts), *([] if groups else [(verdict.counts(report),)])]
    known = [] if links else [(f"{verdict.HOW_KNOWN} ", *words) for words in verdict.how_known(facts)]
    cycles: list[Words] = [tasks.cycle(facts.known_tasks(cycle)) for cycle in report.task_cycles[:most]]
    cycles += [listed(greenlets.cycle(facts, facts.known_greenlets(cycle))[:most], " ")
               for cycle in report.greenlet_cycles[:most]]
    numbers = {thread.number for group in shown for thread in group.members}
    listed_locks = {link.of.lock for link in links_shown}
    return Brief(
        tuple([(group.members, _line(facts, group.members, waiters)) for group in shown]), tuple(links_shown),
        (*remarks, *cycles, *known), seconds_asleep(facts.known(judged.threads)), ends_by_itself(report),
        {"thread": len(report.threads) - len(numbers), "edge": len(links) - len(links_shown),
         "lock": len(report.locks) - len(listed_locks & facts.locks.keys()), "task": len(report.tasks),
         "greenlet": len(report.greenlets), "note": len(report.notes),
         "problem": len(report.problems) - len(verdict.taken_out(report))})


def one_line(facts: Facts) -> Words:
    """The verdict with the lines of the program that its threads are at: ``DEADLOCK: ... (app.py:13, app.py:9)``."""
    frames = [own_frame(thread)[0] for thread in facts.known(dict.fromkeys(facts.verdict.threads))]
    places = dict.fromkeys(f"{frame.file.rpartition('/')[2]}:{frame.line}" for frame in frames if frame is not None)
    at = [(Foreign(place),) for place in list(places)[:_PLACES]]
    return (f"{verdict_title(facts.verdict)}: ", *sentence(facts), *((" (", *listed(at), ")") if at else ()))


def since(facts: Facts, seconds: float | None) -> str:
    """Since when none of the verdict's threads has run; empty if that is not known, or shorter than a second."""
    if seconds is None or seconds < 1:
        return ""
    taken = facts.report.target.time
    begin = f"{verdict.utc(taken - seconds)}, " if taken is not None else ""
    return f"Since: {begin}for {duration(seconds)} none of these threads has run"


def left_out(counts: dict[str, int], report: Report) -> Words:
    """``Left out: 12 threads, 1 note``, and what is private; empty if nothing was."""
    parts = [plural(count, noun) for noun, count in counts.items() if count]
    found = [*([(", ".join(parts),)] if parts else []), *verdict.taken_out(report)]
    return ("Left out: ", *listed(found, "; ")) if found else ()


def place(thread: Thread) -> Words:
    """Where a thread is in the program's own code; empty if that is not known."""
    native, (frame, _) = native_caller(thread), own_frame(thread)
    parts: list[Words] = []
    if native is not None and native.function:
        where: Words = (" in ", Foreign(native.module)) if native.module else ()
        parts.append(("in ", Foreign(native.function, 120), "()", *where))
    if frame is not None:
        parts.append(("at ", Foreign(frame.file, 200), f":{frame.line if frame.line is not None else '?'} in ",
                      Foreign(frame.function, 120)))
    found = None if parts else short_place(thread.stack)
    return listed(parts) if found is None else ("in ", Foreign(found, 200))


def _line(facts: Facts, members: Sequence[Thread], waiters: set[int]) -> Words:
    """What threads do, unless the verdict's sentence or a link says that, and where."""
    first = members[0]
    is_known = first.number in waiters or len(members) == 1 and is_said(facts, first)
    does: Words = () if is_known else (
        threads.doing(facts, first) if len(members) == 1 else threads.doing_together(facts, members))
    where = place(first)
    return listed([words for words in (does, where) if words])


def _links(facts: Facts) -> Iterator[Link]:
    """The links of the deadlocks; without a deadlock, those from the verdict's threads and the threads behind them."""
    judged = facts.verdict
    found = [each for each in facts.report.deadlocks if not each.of_pool]
    if not facts.report.deadlocks:
        edges = tuple([Edge(thread.number, lock.id, holder.thread, holder.evidence, holder.why)
                       for thread in facts.known(dict.fromkeys((*judged.threads, *judged.behind)))
                       if (lock := facts.awaited(thread)) is not None for holder in lock.holders])
        found = [Deadlock((), RECORDED, edges)]
    for deadlock in found:
        # in a standstill, an edge without a holder says only that a thread waits, as the line of that thread does
        edges = tuple([edge for edge in deadlock.edges if edge.holder is not None or not deadlock.standstill])
        for link in deadlocks.links(replace(deadlock, edges=edges)):
            yield Link(link, deadlocks.link_line(facts, deadlock, link), *_known(facts, deadlock, link))


def _known(facts: Facts, deadlock: Deadlock, link: deadlocks.Link) -> tuple[Evidence, Reason | None]:
    """How a link is known: by the weakest of its edges."""
    lock, waiters, holders = facts.locks.get(link.lock), set(link.waiters), set(link.holders)
    if not holders:
        return (lock.orphan_evidence, lock.why) if lock is not None else (deadlock.evidence, deadlock.why)
    edges = [edge for edge in deadlock.edges
             if edge.lock == link.lock and edge.waiter in waiters and edge.holder in holders]
    least = weakest([edge.evidence for edge in edges])
    why = next((edge.why for edge in edges if edge.evidence == least and edge.why is not None), None)
    return (deadlock.evidence, deadlock.why) if deadlock.standstill and why is None else (least, why)


def evidence(link: Link) -> Words:
    """The evidence of a link in parentheses, also if it is recorded."""
    return known_by(link.evidence, link.why) or (f" ({link.evidence})",)
