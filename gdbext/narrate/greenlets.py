"""Greenlets: their groups, what each of them does or waits for, and cycles of greenlets."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gdbext.model import Greenlet, GreenletWait, Report
from gdbext.model.frames import library_of
from gdbext.narrate.frames import file_name
from gdbext.narrate.names import Facts, thread_name
from gdbext.narrate.words import Foreign, Marked, Words, capitalised, listed, plural

#: How many addresses a list shows before "and N more".
_MANY = 8
_ENDED = "threads that have ended, or are not known"
_LIBRARY = re.compile(r"(?:^|/)(?:gevent|(eventlet))/[\w/]+\.py$")
#: What an event loop watches for a greenlet.
_WATCHED = {"io": "input or output", "child": "a child process", "signal": "a signal", "stat": "a file to change",
            "async": "another thread"}


def shown(report: Report) -> list[Greenlet]:
    """The greenlets that are shown: without threads' own greenlets while no other of the thread exists."""
    used = {each.thread for each in report.greenlets if not each.is_main}
    return [each for each in report.greenlets if not each.is_main or each.thread in used]


def by_thread(report: Report) -> list[tuple[int | None, list[Greenlet]]]:
    """The suspended and running greenlets of each thread, those without a thread last."""
    found: dict[int | None, list[Greenlet]] = {}
    for each in shown(report):
        if each.state in ("current", "suspended"):
            found.setdefault(each.thread, []).append(each)
    return sorted(found.items(), key=lambda pair: (pair[0] is None, pair[0] or 0))


def heading(facts: Facts, thread: int | None, members: Sequence[Greenlet]) -> Words:
    """The heading above the greenlets of a thread."""
    where: Words = thread_name(facts, thread) if thread is not None else (_ENDED,)
    return (Marked("name", ("Greenlets of ", *where)), f": {plural(len(members), 'greenlet')}")


def others(report: Report) -> Words:
    """How many greenlets have no frames; empty if there are none."""
    states = [each.state for each in shown(report)]
    parts: list[Words] = [(f"{plural(states.count(state), 'greenlet')} {words}",) for state, words in (
        ("not started", "not started"), ("dead", "finished")) if state in states]
    return listed(parts)


def names(members: Sequence[Greenlet]) -> Words:
    """The addresses and the class of greenlets."""
    more = f" and {len(members) - _MANY:,} more" if len(members) > _MANY else ""
    kinds = list(dict.fromkeys(each.kind for each in members))
    return (", ".join(f"{each.address:#x}" for each in members[:_MANY]), more, " (",
            *listed([(Foreign(kind),) for kind in kinds[:_MANY]]), ")")


def place(greenlet: Greenlet) -> str | None:
    """The innermost place of a greenlet in the program's own code; None without any."""
    own = next((frame for frame in greenlet.stack
                if library_of(frame) is None and not _LIBRARY.search(frame.file)), None)
    return f"{own.function} {file_name(own.file)}:{own.line}" if own is not None else None


def greenlet_name(greenlet: Greenlet) -> Words:
    """A greenlet's address, and where it is in the program."""
    where = place(greenlet)
    return (f"greenlet {greenlet.address:#x}", *((" (", Foreign(where, 120), ")") if where else ()))


def greenlet_list(members: Sequence[Greenlet]) -> Words:
    """Several greenlets with their places."""
    more = f" and {len(members) - _MANY:,} more" if len(members) > _MANY else ""
    return (*listed([greenlet_name(each) for each in members[:_MANY]]), more)


def waiting(facts: Facts, waits: GreenletWait, group: Sequence[Greenlet] = ()) -> Words:
    """What a greenlet waits for.

    :param group: the greenlets that it represents.
    """
    timed = ", with a timeout" if waits.timed else ""
    if waits.greenlets:
        others = f" and {plural(waits.others, 'other object')}" if waits.others else ""
        kind: Words = (" (", Foreign(waits.kind), ")") if waits.kind else ()
        return ("waits for the end of ", *greenlet_list(facts.known_greenlets(waits.greenlets)), others, *kind, timed)
    if waits.kind == "ready":
        return ("is ready to run",)
    if waits.kind == "timer":
        return ("sleeps",)
    if waits.kind in _WATCHED:
        return (f"waits for {_WATCHED[waits.kind]}", timed)
    what: Words = (Marked("lock", (Foreign(waits.what or "several objects", 200),)),)
    if len({each.waits.address for each in group if each.waits is not None}) > 1:
        what = ("another ", Foreign(waits.kind or "object"))
    if not waits.locked:
        return ("waits for ", *what, timed)
    if not waits.holders:
        return ("waits for ", *what, timed, "; its holder is not known")
    taken: Words = ()
    if waits.taken_at is not None:
        taken = (", taken at ", Foreign(f"{file_name(waits.taken_at.file)}:{waits.taken_at.line}", 120))
    return ("waits for ", *what, ", held by ", *greenlet_list(facts.known_greenlets(waits.holders)), *taken, timed)


def doing(facts: Facts, greenlet: Greenlet, group: Sequence[Greenlet] = ()) -> Words:
    """What a greenlet does.

    :param group: the greenlets that it represents.
    """
    if greenlet.waits is not None:
        main = " (the thread's main greenlet)" if greenlet.is_main else ""
        return (*waiting(facts, greenlet.waits, group), main)
    if greenlet.state == "suspended":
        return ("is suspended (the thread's main greenlet)" if greenlet.is_main else "is suspended",)
    if greenlet.state == "current":
        return ("runs; its frames are those of its thread",) if greenlet.thread is not None else (
            "was the last one that its thread ran",)
    return ("has finished" if greenlet.state == "dead" else "has not started",)


def grouped(members: Sequence[Greenlet]) -> list[list[Greenlet]]:
    """Greenlets with the same stack, state and wait together; first the one that runs."""
    groups: dict[object, list[Greenlet]] = {}
    for each in members:
        waits = each.waits
        same = None if waits is None else (waits.kind, waits.name, waits.greenlets, waits.holders, waits.timed)
        groups.setdefault((each.state, each.is_main, each.stack, same), []).append(each)
    return sorted(groups.values(), key=lambda group: group[0].state != "current")


def cycle(facts: Facts, members: Sequence[Greenlet]) -> list[Words]:
    """A cycle of greenlets: a heading, and a line for each greenlet with the object that it waits for."""
    start = Marked("bad", ("Cycle of greenlets",))
    end = ("it continues only if it is killed" if len(members) == 1 else
           "they continue only if one of them is killed")
    # an event loop of gevent without anything else to wait for raises an exception in the main greenlet
    loop = ", or if its event loop has nothing else to wait for (LoopExit)" if any(
        each.is_main and not _waits_in_eventlet(each) for each in members) else ""
    lines: list[Words] = [(start, f" without a timeout; {end}{loop}:")]
    lines += [(*capitalised(greenlet_name(each)), " ", *doing(facts, each)) for each in members[:_MANY]]
    if len(members) > _MANY:
        lines.append((f"and {len(members) - _MANY:,} more",))
    return lines


def _waits_in_eventlet(greenlet: Greenlet) -> bool:
    found = _LIBRARY.search(greenlet.stack[0].file) if greenlet.stack else None
    return found is not None and bool(found[1])


def counts(report: Report) -> Words:
    """What the suspended greenlets wait for: ``5 for input or output, 2 for a lock``; empty if there are none."""
    found: dict[str, int] = {}
    for each in shown(report):
        if each.state == "suspended" and each.thread is not None and not each.is_main:
            what = _sort(each.waits)
            found[what] = found.get(what, 0) + 1
    total = sum(found.values())
    if not total:
        return ()
    parts: list[Words] = [(f"{count:,} {what}",) for what, count in sorted(found.items(), key=lambda pair: -pair[1])]
    return (f"{plural(total, 'greenlet')} suspended: ", *listed(parts))


def _sort(waits: GreenletWait | None) -> str:
    if waits is None:
        return "for something unknown"
    if waits.greenlets:
        return "for the end of other greenlets"
    if waits.locked:
        return "for a lock" if waits.holders else "for a lock without a known holder"
    if waits.kind == "timer":
        return "for a time"
    if waits.kind == "ready":
        return "ready to run"
    return f"for {_WATCHED[waits.kind]}" if waits.kind in _WATCHED else "for an event, a queue or a result"
