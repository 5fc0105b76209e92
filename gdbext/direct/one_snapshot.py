"""One snapshot of one process or core without a debugger, as `debugger.one_snapshot` takes it with GDB."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gdbext.commands.answer import answer, source_of_core, source_of_process, withhold_values
from gdbext.direct.source_lines import Row, SourceLines
from gdbext.direct.unmoved import read_unmoved
from gdbext.errors import INTERNAL, GdbextError
from gdbext.inferior.budget import Budget
from gdbext.model import Problem, Report
from gdbext.model.reasons import because
from gdbext.record import record
from gdbext.render.escape import printable
from gdbext.render.source import SourceFiles
from gdbext.render.style import Style
from gdbext.snapshot import take_snapshot

#: What is left out although GDB is there: it would take longer still, or end a thread's system call.
NOT_MORE = frozenset(("late-lines", "unstopped"))


@record
class Request:
    """The launcher's request.

    `executable`, `places` and `sysroot` are as in `CoreTarget`. `pid` is the process, None for a core; `may_stop` says
    whether its threads may be stopped for a moment. If `may_defer`, the answer only says what was left out if the
    report by GDB could have more, or if the core is unusual; `dispensable` are the members of `LEFT_OUT` that do not
    matter. Reading takes at most `seconds`; threads of a process are stopped for at most `max_pause` seconds.
    `known_lines` are the ``lines`` of answers for other cores. For the other members see
    `debugger.one_snapshot.Request`.
    """

    executable: str | None
    places: Mapping[str, str]
    may_defer: bool
    each: bool
    stacks: str
    colour: bool
    width: int | None
    object_names: bool
    pid: int | None = None
    may_stop: bool = True
    seconds: float = 30.0
    max_pause: float = 10.0
    withhold_values: bool = False
    known_lines: Sequence[Row] = ()
    dispensable: Sequence[str] = ()
    sysroot: str | None = None
    text_only: bool = False


def answer_request(request: Request, core: str) -> dict[str, Any]:
    """Take the snapshot and make the answer.

    :param core: the path of the core, not compressed; not used for a process.
    :return: as of `commands.answer.answer` with the member ``left_out``, or without it if GDB shall make the answer, or
        a ``problem``. That of a core has ``lines``, the source lines that were found (`SourceLines.found`). The member
        ``denied`` says that we may not read the process, ``paused`` how long threads were stopped, in seconds.
    """
    try:
        return _of_core(request, core) if request.pid is None else _of_process(request, request.pid)
    except GdbextError as error:
        return {"problem": printable(str(error)), "hint": error.hint}
    except PermissionError as error:
        return {"problem": printable(str(error)), "hint": "", "denied": True}
    except MemoryError:
        return {"problem": "the report needs more memory than a snapshot may use", "hint": "use GDB: --gdb gdb"}
    except INTERNAL as error:
        return {"problem": f"internal error: {type(error).__name__}: {printable(str(error))}",
                "hint": "please report it"}


def _of_core(request: Request, core: str) -> dict[str, Any]:
    from gdbext.direct.core import CoreTarget  # a report of a process need not wait for it

    lines = SourceLines(request.known_lines)
    target = CoreTarget(core, request.executable, request.places, lines, request.sysroot)
    with Budget(request.seconds) as budget:
        snapshot = take_snapshot(target, request.object_names, budget)
        report = snapshot.with_crash(snapshot.judged_report(lambda thread: True))
    left_out = target.left_out()
    needed = left_out - NOT_MORE - set(request.dispensable) - _not_of_the_cause(report)
    # GDB, which is slower, would not read more
    if request.may_defer and budget.spent is None and (needed or not target.is_usual):
        return {"left_out": sorted(left_out)}
    made = _answer(request, report, snapshot.incomplete, left_out,
                   source_of_core(target.core_file, lambda: target.written))
    return {**made, "lines": lines.found()}


def _not_of_the_cause(report: Report) -> frozenset[str]:
    """What is left out and does not explain the end of a program: another process ended it, often because it hangs.

    The thread that gets such a signal is any thread, so its native variables are not worth a GDB.
    """
    sender = report.crash.fault.sender if report.crash is not None else None
    return frozenset() if sender is None or sender[0] == report.target.pid else frozenset(("variables",))


def _of_process(request: Request, pid: int) -> dict[str, Any]:
    target, report, incomplete = read_unmoved(
        pid, request.may_stop, request.object_names, request.seconds, request.max_pause)
    left_out = target.left_out()
    paused = {"paused": report.target.paused}
    if request.may_defer and left_out - NOT_MORE:
        return {"left_out": sorted(left_out), **paused}
    return {**_answer(request, report, incomplete, left_out, source_of_process(pid)), **paused}


def _answer(request: Request, report: Report, incomplete: GdbextError | None, left_out: Collection[str],
            files: SourceFiles) -> dict[str, Any]:
    report = _with_left_out(withhold_values(report) if request.withhold_values else report, left_out)
    made = answer(report, incomplete, files, Style(request.colour, request.width), request.each, request.stacks,
                  request.text_only)
    return {**made, "left_out": sorted(left_out)}


def _with_left_out(report: Report, left_out: Collection[str]) -> Report:
    """Add to a report what GDB would add."""
    if not left_out:
        return report
    problem = Problem("target", "not applicable", because("made-without-gdb", lacks=tuple(sorted(left_out))))
    return replace(report, problems=(*report.problems, problem))
