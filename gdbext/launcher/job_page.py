"""The answer of `gdbext ranks`, as text and as a document of schema ``gdbext-ranks/1``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gdbext.launcher import job
from gdbext.launcher.job import Look
from gdbext.launcher.snapshots.options import Options
from gdbext.launcher.status import FOUND, NO_ANSWER, NOTHING_FOUND, OUTSIDE
from gdbext.model import RECORDED, Report
from gdbext.narrate import ranks as words
from gdbext.narrate.frames import own_frame
from gdbext.narrate.names import Facts, thread_name
from gdbext.narrate.operations import operation_name, tensor
from gdbext.narrate.sentences import sentence, verdict_title
from gdbext.narrate.threads import doing
from gdbext.narrate.words import plain
from gdbext.render.escape import Safe, as_text, concatenated, json_line, printable
from gdbext.schema.ranks import document_of
from gdbext.schema.shapes import PARTS_OF_REPORT
from gdbext.schema.write import document as write_report

#: How wide the column of ranks is at most.
_WIDTH = 24
#: The longest line, in characters.
_LONGEST = 600


def head(look: Look) -> Safe:
    """The verdict with a line for each kind of rank."""
    lines = [f"{words.verdict_title(look.job)}: {words.verdict_sentence(look.job, len(look.members))}.", ""]
    rows = list(_rows(look))
    width = min(max((len(row[0]) for row in rows), default=0), _WIDTH)
    lines += [f"  {who:{width}}  {what}" for who, what in rows]
    lines.append(f"  {words.how_known(look.evidence, [printable(name) for name in look.stripped])}")
    return as_text([printable(line, _LONGEST) for line in lines])


def text(look: Look) -> Safe:
    """The verdict, and the reports of the ranks that matter."""
    parts = [head(look)]
    for rank in dict.fromkeys([*look.job.causes, *look.job.circle, *look.texts]):
        if rank in look.texts:
            parts += [as_text(["", f"---- rank {rank}, process {look.members[rank].pid}", ""]), look.texts[rank]]
    return concatenated(parts)


def _rows(look: Look) -> Iterator[tuple[str, str]]:
    """The ranks that owe an operation, each with what it does, and then those that wait together."""
    told: set[int] = set()
    for unfinished in look.job.unfinished:
        absent = [each.rank for each in unfinished.owing if each.rank not in look.members]
        for each in unfinished.owing:
            if each.rank not in told and each.rank in look.members:
                told.add(each.rank)
                is_known = look.evidence == RECORDED and each.debt not in ("ended", "no-message")
                yield words.rank_list([each.rank]), "  ".join(filter(None, (
                    words.place_of(look.members[each.rank], look.hosts), words.state_of(look.members[each.rank]),
                    words.last_finished(each.last) if is_known else "", _does(look, each.rank))))
        for debt in ("missing", "elsewhere"):
            ranks = [rank for rank in absent if rank not in told and any(
                each.rank == rank and each.debt == debt for each in unfinished.owing)]
            told.update(ranks)
            if ranks:
                yield words.rank_list(ranks), words.ABSENT[debt]
    for unfinished in look.job.unfinished:
        waiting = [rank for rank in unfinished.waiting if rank not in told]
        told.update(waiting)
        if waiting:
            yield words.rank_list(waiting), ", ".join(filter(None, (
                operation_name(unfinished.operation, unfinished.group), tensor(unfinished.operation),
                _place(look, waiting))))
    rest = sorted(set(look.members) - told)
    if rest:
        yield words.rank_list(rest), words.in_no_operation(bool(look.job.unfinished))


def _does(look: Look, rank: int) -> str:
    """The verdict on a rank, and where its first thread is."""
    report = look.reports.get(rank)
    if report is None:
        return look.problems.get(rank, "")
    facts, place = Facts(report), own_place(report)
    first = min(report.threads, key=lambda thread: thread.number, default=None)
    awaited = look.members[rank].awaited
    if awaited is not None:
        does = f"waits in {operation_name(awaited)}"
    elif facts.verdict.outcome == "fine" and first is not None:
        does = plain((*thread_name(facts, first.number), " ", *doing(facts, first)))
    else:
        does = f"{verdict_title(facts.verdict)}: {plain(sentence(facts))}"
    return does + (f", at {place}" if place else "")


def _place(look: Look, ranks: Sequence[int]) -> str:
    """Where the first of some ranks with a report waits in the program."""
    report = next((look.reports[rank] for rank in ranks if rank in look.reports), None)
    place = own_place(report) if report is not None else None
    return f"at {place}" if place else ""


def own_place(report: Report) -> str | None:
    """The line of the program's own code that the first thread is in; None if there is none."""
    first = min(report.threads, key=lambda thread: thread.number, default=None)
    frame, _ = own_frame(first) if first is not None else (None, 0)
    return f"{frame.file}:{frame.line} in {frame.function}" if frame is not None else None


def document(look: Look) -> Safe:
    """The answer as one line of JSON."""
    return json_line(document_of(look.job, look.members, look.time, look.evidence, {
        rank: write_report(report, PARTS_OF_REPORT.keys()) for rank, report in look.reports.items()}))


#: The exit status for each verdict.
STATUS: Mapping[str, int] = {"hung": FOUND, "waits": OUTSIDE, "working": NOTHING_FOUND, "unknown": NO_ANSWER}


def find(roots: Sequence[int], options: Options) -> Look | None:
    """The job below some processes if it does not go on; None if there is no such job.

    :param roots: as `gdbext.inferior.proc.ranks.roots_of_job` finds them.
    """
    found = job.look(roots, options) if roots else None
    return found if found is not None and found.job.kind in ("hung", "waits") else None
