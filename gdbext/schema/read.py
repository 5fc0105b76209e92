"""Reports from JSON, schema ``gdbext/1``: the way back from `gdbext.schema.write`.

A document may be older than this version of gdbext, or newer, or be made to do harm. Members that are not known are
ignored, and members that the schema began without may be missing. Everything else is checked, and a document that
does not follow the schema raises `BadDocument` and nothing else.
"""

from __future__ import annotations

from dataclasses import replace

from gdbext.errors import BadDocument
from gdbext.model import Report
from gdbext.model.reasons import because
from gdbext.schema.shapes import HEAD, PARTS_OF_REPORT
from gdbext.verdict.judge import judge


def read_document(document: object) -> Report:
    """The report that a document describes; a part that the document leaves out is empty.

    A document without the part ``deadlocks`` says nothing about them, so its report has no verdict.

    :param document: what `json.loads` returns.
    :raises BadDocument: the document does not follow the schema; the message contains the path of the bad part.
    """
    head = HEAD.read(document)
    fields = {name: value for part in PARTS_OF_REPORT.values() for name, value in part.read(document).items()}
    verdict = fields.pop("verdict")
    report = Report(head["target"], **fields)
    _check_deadlocks(report)
    if isinstance(document, dict) and "deadlocks" not in document:
        return replace(report, no_verdict=because("deadlocks-not-listed"))
    # a document may lack what its verdict rests on
    return report if verdict in (None, judge(report)) else replace(report, verdict=verdict)


def _check_deadlocks(report: Report) -> None:
    threads = {thread.number: thread for thread in report.threads}
    for index, deadlock in enumerate(report.deadlocks):
        if not deadlock.threads or not deadlock.edges:
            raise BadDocument("a deadlock needs threads and edges", f".deadlocks[{index}]")
        for number, edge in enumerate(deadlock.edges):
            waiter = threads.get(edge.waiter)
            if waiter is not None and waiter.waits is None:
                raise BadDocument("its waiter does not wait for a lock", f".deadlocks[{index}].edges[{number}]")
    if any(not cycle for cycle in (*report.task_cycles, *report.greenlet_cycles)):
        raise BadDocument("a cycle needs members", ".task_cycles or .greenlet_cycles")
