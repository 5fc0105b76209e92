"""The answer of `gdbext ranks`, as text and as a document of schema ``gdbext-ranks/1``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from gdbext.jobs.job import Member, Owing, Unfinished
from gdbext.launcher import job
from gdbext.launcher.job import Look
from gdbext.launcher.snapshots.options import Options
from gdbext.launcher.status import FOUND, NO_ANSWER, NOTHING_FOUND, OUTSIDE
from gdbext.model import RECORDED, Operation, Report
from gdbext.narrate import ranks as words
from gdbext.narrate.frames import own_frame
from gdbext.narrate.names import Facts, thread_name
from gdbext.narrate.operations import operation_name, tensor
from gdbext.narrate.sentences import sentence, verdict_title
from gdbext.narrate.threads import doing
from gdbext.narrate.words import plain
from gdbext.render.escape import Safe, as_text, concatenated, json_line, printable
from gdbext.render.shown import RankColumn, ShownJob
from gdbext.schema.ranks import document_of
from gdbext.schema.shapes import PARTS_OF_REPORT
from gdbext.schema.write import document as write_report

#: How wide the column of ranks is at most.
_WIDTH = 24
#: The longest line, in characters.
_LONGEST = 600


def head(look: Look) -> Safe:
    """The verdict with a line for each kind of rank."""
    shown = shown_job(look)
    width = min(max((len(each.who) for each in shown.columns), default=0), _WIDTH)
    lines = [f"{shown.title}: {shown.sentence}.", "",
             *(f"  {each.who:{width}}  {_line(each)}" for each in shown.columns), f"  {shown.known}"]
    return as_text([printable(line, _LONGEST) for line in lines])


def _line(column: RankColumn) -> str:
    """A column in one line: of ranks that wait together, what they wait in."""
    if not column.owes:
        return ", ".join(filter(None, (column.operation, _at(column.place))))
    does = column.state if column.process == "" else column.verdict
    # the head says what it has not called
    return "  ".join(filter(None, (column.process, column.process and column.state, column.last,
                                   ", ".join(filter(None, (does, _at(column.place)))))))


def _at(place: str) -> str:
    return place and f"at {place}"


def text(look: Look) -> Safe:
    """The verdict, and the reports of the ranks that matter."""
    parts = [head(look)]
    for rank in dict.fromkeys([*look.job.causes, *look.job.circle, *look.texts]):
        if rank in look.texts:
            parts += [as_text(["", f"---- {_target(look, rank)}", ""]), look.texts[rank]]
    return concatenated(parts)


def html(look: Look) -> Safe:
    """The answer as a page: the ranks as columns, and the reports that were made."""
    from gdbext.render.html import html_page

    shown, first = shown_job(look), dict.fromkeys([*look.job.causes, *look.job.circle, *sorted(look.shown)])
    targets = [replace(look.shown[rank], target=_target(look, rank)) for rank in first if rank in look.shown]
    return html_page(targets, f"gdbext: {shown.title}", job=shown)


def shown_job(look: Look) -> ShownJob:
    """The answer for people."""
    tones = {"hung": "bad", "waits": "doubt", "working": "good", "unknown": "doubt"}
    return ShownJob(tones[look.job.kind], words.verdict_title(look.job),
                    words.verdict_sentence(look.job, len(look.members)),
                    words.how_known(look.evidence, [printable(name) for name in look.stripped]), tuple(_columns(look)))


def _target(look: Look, rank: int) -> str:
    pid = look.members[rank].pid if rank in look.members else None
    return f"rank {rank}" + (f", process {pid}" if pid is not None else "")


def _columns(look: Look) -> Iterator[RankColumn]:
    """The ranks that owe an operation, each with what it does, and then those that wait together."""
    told: set[int] = set()
    for unfinished in look.job.unfinished:
        absent = [each.rank for each in unfinished.owing if each.rank not in look.members]
        for each in unfinished.owing:
            if each.rank not in told and each.rank in look.members:
                told.add(each.rank)
                yield _owing(look, unfinished, each)
        for debt in ("missing", "elsewhere"):
            ranks = [rank for rank in absent if rank not in told and any(
                each.rank == rank and each.debt == debt for each in unfinished.owing)]
            told.update(ranks)
            if ranks:
                yield RankColumn(words.rank_list(ranks), owes=True, is_cause=debt == "missing",
                                 state=words.ABSENT[debt])
    for unfinished in look.job.unfinished:
        waiting = [rank for rank in unfinished.waiting if rank not in told]
        told.update(waiting)
        if waiting:
            lasts = {_last(look.members[rank], unfinished) for rank in waiting}
            last = lasts.pop() if len(lasts) == 1 else None
            yield _together(look, waiting, ", ".join(filter(None, (
                operation_name(unfinished.operation, unfinished.group), tensor(unfinished.operation)))),
                words.last_finished(last) if last is not None else "")
    rest = sorted(set(look.members) - told)
    if rest:
        yield _together(look, rest, words.in_no_operation(bool(look.job.unfinished)), "")


def _owing(look: Look, unfinished: Unfinished, owing: Owing) -> RankColumn:
    """A rank that owes an operation."""
    member, report = look.members[owing.rank], look.reports.get(owing.rank)
    is_known = look.evidence == RECORDED and owing.debt not in ("ended", "no-message")
    return RankColumn(
        words.rank_list([owing.rank]), words.place_of(member, look.hosts), words.state_of(member),
        words.last_finished(owing.last) if is_known else "", words.debt_of(unfinished, owing),
        _does(look, owing.rank), (own_place(report) or "") if report is not None else "",
        owes=True, is_cause=owing.rank in (*look.job.causes, *look.job.circle),
        target=_target(look, owing.rank) if owing.rank in look.shown else None)


def _together(look: Look, ranks: Sequence[int], operation: str, last: str) -> RankColumn:
    """Ranks that do the same; the first with a report stands for all."""
    seen = next((rank for rank in ranks if rank in look.reports), None)
    report = look.reports[seen] if seen is not None else None
    return RankColumn(
        words.rank_list(ranks), words.processes_of([look.members[rank] for rank in ranks], look.hosts), "", last,
        operation, verdict_title(Facts(report).verdict) if report is not None else "",
        (own_place(report) or "") if report is not None else "",
        is_cause=not set(ranks).isdisjoint(look.job.circle), target=_target(look, seen) if seen is not None else None)


def _last(member: Member, unfinished: Unfinished) -> Operation | None:
    last = next((group.last for group in member.groups if group.label == unfinished.group), None)
    # each rank has called it at another moment
    return replace(last, begun=None) if last is not None else None


def _does(look: Look, rank: int) -> str:
    """The verdict on a rank."""
    report = look.reports.get(rank)
    if report is None:
        return look.shown[rank].problem or "no answer" if rank in look.shown else ""
    facts = Facts(report)
    first = min(report.threads, key=lambda thread: thread.number, default=None)
    awaited = look.members[rank].awaited
    if awaited is not None:
        return f"waits in {operation_name(awaited)}"
    if facts.verdict.outcome == "fine" and first is not None:
        return plain((*thread_name(facts, first.number), " ", *doing(facts, first)))
    return f"{verdict_title(facts.verdict)}: {plain(sentence(facts))}"


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
