"""Answers of the processes that take snapshots, as `commands.answer.write_answer` writes them."""

from __future__ import annotations

import json
from typing import Any

#: How the line of the document begins.
_DOCUMENT = b'{"schema": '


def parse_answer(data: bytes | bytearray) -> dict[str, Any]:
    """The members of all lines; ``document`` is the line of the document, which is not parsed.

    A line that is cut off, and all after it, are left out; so is a document without the line of its other members.
    """
    members: dict[str, Any] = {}
    document = None
    start = 0
    while (end := data.find(b"\n", start)) >= 0:
        if data.startswith(_DOCUMENT, start):
            document = bytes(memoryview(data)[start:end])  # of many MiB for thousands of threads
        else:
            try:
                members.update(json.loads(data[start:end]))
            except ValueError:
                break
        start = end + 1
    if document is not None and "outcome" in members:
        members["document"] = document
    return members
