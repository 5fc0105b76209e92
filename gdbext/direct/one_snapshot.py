"""One snapshot of one process or core without a debugger, with its text."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from gdbext.commands.answer import answer, source_of_core, source_of_process, withhold_values
from gdbext.commands.report_options import DEFAULTS, ReportOptions
from gdbext.direct.unmoved import read_unmoved
from gdbext.errors import INTERNAL, GdbextError
from gdbext.inferior.budget import Budget
from gdbext.model import Problem, Report
from gdbext.model.reasons import because
from gdbext.record import record
from gdbext.render.escape import printable
from gdbext.render.source import SourceFiles
from gdbext.snapshot import take_snapshot
from gdbext.targets.source_lines import Row, SourceLines


@record
class Request:
    """The launcher's request.

    `executable`, `places` and `sysroot` are as in `CoreTarget`. `pid` is the process, None for a core. Reading takes at
    most `seconds`. `withhold_values` says whether values of variables are left out, as the target belongs to another
    user. `known_lines` are the ``lines`` of answers for other cores.
    """

    options: ReportOptions = DEFAULTS
    executable: str | None = None
    places: Mapping[str, str] = field(default_factory=dict)
    pid: int | None = None
    seconds: float = 30.0
    withhold_values: bool = False
    known_lines: Sequence[Row] = ()
    sysroot: str | None = None


def answer_request(request: Request, core: str) -> dict[str, Any]:
    """Take the snapshot and make the answer.

    :param core: the path of the core, not compressed; not used for a process.
    :return: as of `commands.answer.answer`, or a ``problem``. That of a core has ``lines``, the source lines that were
        found (`SourceLines.found`). The member ``denied`` says that we may not read the process, ``paused`` how long
        threads were stopped, in seconds.
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
    from gdbext.targets.core import CoreTarget  # a report of a process need not wait for it

    lines = SourceLines(request.known_lines)
    target = CoreTarget(core, request.executable, request.places, lines, request.sysroot)
    with Budget(request.seconds) as budget:
        snapshot = take_snapshot(target, request.options.object_names, budget)
        report = snapshot.judged_report(lambda thread: True)
        report = snapshot.with_crash(snapshot.with_variables(report) if request.options.locals else report)
    made = _answer(request, report, snapshot.incomplete, target.left_out(),
                   source_of_core(target.core_file, lambda: target.written, root=request.sysroot))
    return {**made, "lines": lines.found()}


def _of_process(request: Request, pid: int) -> dict[str, Any]:
    target, report, incomplete = read_unmoved(pid, request.options, request.seconds)
    if report.deadlocks and not request.options.alone:
        from gdbext.direct.forked import with_holders_in_parents  # few reports need it

        report = with_holders_in_parents(report, request.options)
    made = _answer(request, report, incomplete, target.left_out(), source_of_process(pid))
    return {**made, "paused": report.target.paused}


def _answer(request: Request, report: Report, incomplete: GdbextError | None, left_out: Collection[str],
            files: SourceFiles) -> dict[str, Any]:
    report = _with_left_out(withhold_values(report) if request.withhold_values else report, left_out)
    return answer(report, incomplete, files, request.options)


def _with_left_out(report: Report, left_out: Collection[str]) -> Report:
    """Add to a report what is left out, and the command that shows it."""
    if not left_out:
        return report
    target = "CORE" if report.target.kind == "core" else str(report.target.pid)
    processor = report.target.architecture
    problem = Problem("target", "not applicable", because(
        "made-without-gdb", lacks=tuple(sorted(left_out)), target=target,
        processor=processor if processor != os.uname().machine else None))
    return replace(report, problems=(*report.problems, problem))
