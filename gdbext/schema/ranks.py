"""A job of several ranks as JSON, schema ``gdbext-ranks/1``; documents of several machines can be joined."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from gdbext.jobs.job import Debt, Job, Member, Owing, State, Unfinished
from gdbext.model.verdict import Outcome
from gdbext.narrate.ranks import verdict_sentence, verdict_title
from gdbext.schema.codec import (
    FLAG,
    NUMBER,
    NUMBER_OR_NONE,
    NUMBERS,
    SECONDS,
    TEXT,
    TEXT_OR_NONE,
    each,
    one_of,
    or_none,
    shape,
)
from gdbext.schema.shapes import EVIDENCE, GROUP, IDENTITY, OPERATION

SCHEMA = "gdbext-ranks/1"

_MEMBER = shape(
    Member, identity=IDENTITY, pid=NUMBER_OR_NONE, host=TEXT_OR_NONE, groups=each(GROUP), state=one_of(State),
    signal=TEXT_OR_NONE, outcome=or_none(one_of(Outcome)), awaited=or_none(OPERATION), works=FLAG)
_OWING = shape(Owing, rank=NUMBER, debt=one_of(Debt), last=or_none(OPERATION), other=or_none(OPERATION))
_UNFINISHED = shape(
    Unfinished, group=TEXT_OR_NONE, operation=OPERATION, waiting=NUMBERS, owing=each(_OWING), seconds=or_none(SECONDS),
    complete=FLAG, evidence=EVIDENCE)
_DOCUMENT = shape(
    dict, schema=one_of(Literal["gdbext-ranks/1"]), time=SECONDS, size=NUMBER, evidence=TEXT, ranks=each(_MEMBER))


def document_of(job: Job, members: Mapping[int, Member], time: float, evidence: str,
                reports: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    """The document of a job.

    :param time: when the ranks were read, in seconds since 1970.
    :param evidence: how their operations are known.
    :param reports: documents of schema ``gdbext/1`` by rank.
    """
    return {
        "schema": SCHEMA, "time": time, "size": job.size, "evidence": evidence,
        "verdict": {"kind": job.kind, "title": verdict_title(job), "sentence": verdict_sentence(job, len(members)),
                    "causes": list(job.causes), "circle": list(job.circle)},
        "operations": [_UNFINISHED.write(unfinished) for unfinished in job.unfinished],
        "ranks": [_MEMBER.write(members[rank]) for rank in sorted(members)],
        "reports": {str(rank): report for rank, report in reports.items()},
    }


def read_members(document: object) -> tuple[dict[int, Member], int, float, str]:
    """The members of a document, the size of the job, when they were read, and how their operations are known.

    :raises BadDocument: it does not follow the schema.
    """
    found = _DOCUMENT.read(document)
    members = {member.identity.rank: member for member in found["ranks"] if member.identity.rank is not None}
    return members, found["size"], found["time"], found["evidence"]
