"""What the processes that take snapshots write: lines of JSON."""

from __future__ import annotations

import contextlib
import json
from typing import Any

#: How the line of the document begins.
_DOCUMENT = b'{"schema": '


def parse_answer(data: bytes | bytearray) -> dict[str, Any]:
    """The members of all lines that are objects; ``document`` is the line of the document, which is not parsed.

    A line that is cut off is left out.
    """
    members: dict[str, Any] = {}
    start = 0
    while (end := data.find(b"\n", start)) >= 0:
        if data.startswith(_DOCUMENT, start):
            members["document"] = bytes(memoryview(data)[start:end])  # of many MiB for thousands of threads
        else:
            with contextlib.suppress(ValueError):
                line = json.loads(data[start:end])
                members.update(line if isinstance(line, dict) else {})
        start = end + 1
    return members
