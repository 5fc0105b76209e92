"""Greenlets: their groups and what each of them does."""

from __future__ import annotations

from collections.abc import Sequence

from gdbext.model import Greenlet, Report
from gdbext.narrate.names import Facts, thread_name
from gdbext.narrate.words import Foreign, Marked, Words, listed, plural

#: How many addresses a list shows before "and N more".
_MANY = 8
_ENDED = "threads that have ended, or are not known"


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


def doing(greenlet: Greenlet) -> Words:
    """What a greenlet does."""
    if greenlet.state == "suspended":
        return ("is suspended (the thread's main greenlet)" if greenlet.is_main else "is suspended",)
    if greenlet.state == "current":
        return ("runs; its frames are those of its thread",) if greenlet.thread is not None else (
            "was the last one that its thread ran",)
    return ("has finished" if greenlet.state == "dead" else "has not started",)


def grouped(members: Sequence[Greenlet]) -> list[list[Greenlet]]:
    """Greenlets with the same stack and state together; first the one that runs."""
    groups: dict[object, list[Greenlet]] = {}
    for each in members:
        groups.setdefault((each.state, each.is_main, each.stack), []).append(each)
    return sorted(groups.values(), key=lambda group: group[0].state != "current")
