"""Reports as JSON, schema ``gdbext/1``; `gdbext.schema.read` makes reports of it again."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from gdbext.model import Report
from gdbext.schema.shapes import HEAD, PARTS_OF_REPORT, SCHEMA

__all__ = ["PARTS", "SCHEMA", "document"]

#: The parts of the whole document, in order.
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
