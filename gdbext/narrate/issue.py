"""The lines of a block for an issue that stand around the verdict: versions, other threads, what is not known."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from gdbext.model import Report
from gdbext.narrate import threads
from gdbext.narrate.brief import place
from gdbext.narrate.names import Facts, heading
from gdbext.narrate.words import Foreign, Words, listed, plural

#: The heading of the threads that the verdict is not about.
OTHERS = "Other threads:"
#: What replaces lines that do not fit.
CUT = "... (cut: gdbext report --redact shows all)"


def versions(report: Report, own: str, system: Sequence[str]) -> Words:
    """What runs the program: versions of gdbext, CPython with its build, the C library, the system.

    :param own: the version of gdbext.
    :param system: the names of the kernel and the distribution, without unknown ones.
    """
    target = report.target
    parts: list[Words] = [(f"gdbext {own}",), *[
        (f"CPython {each.version}{'' if each.build == 'default' else f' {each.build}'}",) for each in report.runtimes]]
    parts += [(Foreign(each),) for each in (target.libc, *system, target.architecture) if each]
    return (*listed(parts), "" if target.kind == "live" else "; read from a core")


def packages(found: Sequence[tuple[str, str]]) -> Words:
    """The packages on the stacks with their versions; empty without any."""
    named = [(Foreign(f"{name} {version}"),) for name, version in found]
    return ("packages on the stacks: ", *listed(named)) if named else ()


def class_line(kind: str, key: str) -> str:
    """The class of `gdbext triage`, by which a tracker can be searched for the same hang."""
    return f"class: {kind} {key}"


def others(facts: Facts, shown: Collection[int]) -> Iterator[Words]:
    """One line for each group of threads without those that are shown."""
    order = [number for number in threads.states(facts) if number not in shown]
    for group in threads.groups(facts, order):
        where = place(group.members[0])
        does = (threads.doing(facts, group.members[0]) if len(group.members) == 1 else
                threads.doing_together(facts, group.members))
        yield (*heading(group.members), ": ", *does, *((", ", *where) if where else ()))


def more(groups: int) -> str:
    """What stands for groups of threads that do not fit."""
    return f"and {plural(groups, 'more group')} of threads"
