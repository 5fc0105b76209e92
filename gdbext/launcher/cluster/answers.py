"""Answers of a Dask cluster: each is checked before anything of it is used.

The processes of a cluster may be of another version of gdbext, or do harm. Only known members with the expected types
remain of an answer, and text loses its control characters. Dask itself unpickles what arrives; nothing here evaluates
or unpickles.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from gdbext.launcher.status import NO_ANSWER
from gdbext.model.verdict import STATUS_OF_OUTCOME
from gdbext.render.escape import NOTHING, Safe, cleaned, printable

#: The most characters of a text, and the most lines of source and notes.
_MOST_TEXT, _MOST_LINES = 32 << 20, 10_000


def checked_snapshot(answer: object) -> dict[str, Any]:
    """The answer of `snapshot_there`: the members of a `Snapshot` without its target.

    The ``document`` is not checked: `read_document` does that.
    """
    if not isinstance(answer, dict):
        problem = "its answer is not one of gdbext"
        hint = "install the same version of gdbext there"
        answer = {"problem": problem, "hint": hint}
    document, status = answer.get("document"), answer.get("status")
    known = {*STATUS_OF_OUTCOME.values(), NO_ANSWER}
    return {
        "document": document, "text": _lines(answer.get("text")), "dot": _lines(answer.get("dot")),
        "stopped": _seconds(answer.get("stopped")), "seconds": _seconds(answer.get("seconds")) or 0.0,
        "problem": _line(answer.get("problem")), "hint": _line(answer.get("hint")),
        "status": status if type(status) is int and status in known and document is not None else NO_ANSWER,
        "notes": tuple(_texts(answer.get("notes"))), "source": tuple(_source(answer.get("source"))),
        "source_notes": tuple(_texts(answer.get("source_notes")))}


def checked_place(answer: object) -> Mapping[str, Any] | None:
    """The answer of `worker_there` or `scheduler_there`; None if it is something else."""
    if not isinstance(answer, dict):
        return None
    texts = all(isinstance(answer.get(name), kind) for name, kind in (
        ("host", str), ("machine", str), ("python", str), ("gdbext", (str, type(None)))))
    workers, clients = answer.get("workers", {}), answer.get("clients", [])
    if not texts or not _is_pid(answer.get("pid")) or not isinstance(workers, dict) or not isinstance(clients, list):
        return None
    if not all(map(_is_connection, [*workers.values(), *clients])):
        return None
    if not all(type(each.get("futures")) is int and isinstance(each.get("name"), str) for each in clients):
        return None
    return answer


def _is_connection(value: object) -> bool:
    return isinstance(value, dict) and _is_pid(value.get("pid")) and all(
        isinstance(value.get(name), str) for name in ("peer", "local"))


def _is_pid(value: object) -> bool:
    return value is None or type(value) is int and 0 < value < 1 << 31


def _line(value: object) -> str | None:
    return printable(value) if isinstance(value, str) else None


def _lines(value: object) -> Safe:
    if not isinstance(value, str):
        return NOTHING
    return cleaned("\n".join([printable(line, 10_000) for line in value[:_MOST_TEXT].split("\n")]))


def _seconds(value: object) -> float | None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value < math.inf else None  # type: ignore[operator,arg-type]


def _texts(value: object) -> Iterator[str]:
    for each in value[:_MOST_LINES] if isinstance(value, (list, tuple)) else ():
        if isinstance(each, str):
            yield printable(each)


def _source(value: object) -> Iterator[tuple[str, int, str]]:
    for each in value[:_MOST_LINES] if isinstance(value, (list, tuple)) else ():
        if isinstance(each, (list, tuple)) and [type(part) for part in each] == [str, int, str]:
            yield each[0], each[1], printable(each[2])
