"""Reports as JSON, schema ``gdbext/1``; `gdbext.schema.read` makes reports of it again."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import Any

from gdbext.model import Report
from gdbext.schema.shapes import HEAD, PARTS_OF_REPORT, SCHEMA, THREAD

__all__ = ["ALL_PARTS", "PARTS", "SCHEMA", "document", "document_text"]

#: The parts of a document, in order; those of `gdbext report`.
ALL_PARTS = tuple(PARTS_OF_REPORT)
#: Those that every command has.
PARTS = ("runtimes", "threads", "locks", "deadlocks", "problems")


def document(report: Report, parts: Collection[str] = PARTS) -> dict[str, Any]:
    """The document with the parts asked for, as Python values.

    Addresses are strings, absent and unknown values are null with a reason in ``problems``.
    """
    made: dict[str, Any] = HEAD.write(report)
    for name, part in PARTS_OF_REPORT.items():
        if name in parts:
            made.update(part.write(report))
    return made


def document_text(report: Report, parts: Collection[str] = PARTS) -> Iterator[str]:
    """The text of the document, one line in pieces.

    Threads are written one by one: the values of thousands of threads need many times the memory of their text.
    """
    yield json.dumps(HEAD.write(report))[:-1]
    for name, part in PARTS_OF_REPORT.items():
        if name not in parts:
            continue
        if name == "threads":
            yield ', "threads": ['
            for index, thread in enumerate(report.threads):
                yield (", " if index else "") + json.dumps(THREAD.write(thread))
            yield "]"
        else:
            members = json.dumps(part.write(report))[1:-1]
            yield f", {members}" if members else ""
    yield "}"
