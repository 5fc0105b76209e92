"""The greenlets of a target, for the report."""

from __future__ import annotations

from gdbext.cpython.greenlets.greenlets import GreenletReader
from gdbext.errors import GdbextError, UnknownLayout
from gdbext.model import Greenlet, ProblemKind, PyFrame
from gdbext.model.reasons import because, because_of
from gdbext.threads.findings import Findings
from gdbext.threads.python_side import PythonSide

#: How many unreadable stacks are reported one by one.
_MAX_PROBLEMS = 20


def find_greenlets(side: PythonSide, findings: Findings) -> tuple[Greenlet, ...]:
    """All greenlets of a target; what cannot be read is noted in the findings."""
    found: list[Greenlet] = []
    for python in side.pythons:
        for interpreter in python.interpreters:
            reader = side.greenlets(python, interpreter)
            try:
                found += _greenlets(side, reader, findings) if reader.is_used else ()
            except GdbextError as error:
                what: ProblemKind = "not applicable" if isinstance(error, UnknownLayout) else "unreadable"
                findings.problem(f"greenlets in interpreter {interpreter.id}", what, because_of(error))
    return tuple(found)


def _greenlets(side: PythonSide, reader: GreenletReader, findings: Findings) -> list[Greenlet]:
    found = []
    unread = 0
    for each in reader.greenlets:
        stack: tuple[PyFrame, ...] = ()
        try:
            stack = tuple([raw.frame for raw in reader.stack(each)])
        except GdbextError as error:
            unread += 1
            if unread <= _MAX_PROBLEMS:
                findings.problem(f"greenlet {each.address:#x}", "unreadable",
                                 because("part-unreadable", part="python-stack", error=str(error)))
        thread = side.number_of_tstate.get(each.tstate) if each.tstate is not None else None
        found.append(Greenlet(each.address, reader.type_name(each), thread, each.state, each.is_main, stack))
    if unread > _MAX_PROBLEMS:
        findings.problem("greenlets", "unreadable", because("more-unreadable", count=unread - _MAX_PROBLEMS))
    return found
