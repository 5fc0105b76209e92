"""One snapshot of one target, by the process that reads without GDB (`direct`) or by a GDB (`by_gdb`)."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from gdbext.commands.report_options import ReportOptions
from gdbext.errors import GdbextError
from gdbext.launcher.snapshots.by_gdb import READING, end_gdbs, read_by_gdb
from gdbext.launcher.snapshots.containers import prepare_process
from gdbext.launcher.snapshots.cores import prepare_core
from gdbext.launcher.snapshots.direct import read_without_gdb
from gdbext.launcher.snapshots.finding import find_gdb
from gdbext.launcher.snapshots.limit import Limit
from gdbext.launcher.snapshots.options import Options, Target
from gdbext.launcher.snapshots.preparation import Preparation
from gdbext.launcher.snapshots.rights import core_is_anothers, process_is_anothers, why_not_attached, why_not_traced
from gdbext.launcher.snapshots.server import end_server
from gdbext.launcher.status import NO_ANSWER, NO_GDB, NoGdb, NoReport, Unreadable
from gdbext.model import Report
from gdbext.model.verdict import STATUS_OF_OUTCOME
from gdbext.record import record
from gdbext.render.escape import NOTHING, Safe, cleaned
from gdbext.render.shown import Shown
from gdbext.schema.read import read_document


@record
class Snapshot:
    """The result of a snapshot.

    `document_json` is a line of JSON of schema ``gdbext/1``, None without an answer or if only the text was wanted.
    `stopped` is how long the process was paused, None for a core and where GDB did not attach; `seconds` is how long
    the snapshot took; both in seconds. `problem` says what went wrong and `hint` what to do; there may be a document of
    the part that could be read. `notes` name the files that were used. `status` is an exit status of the launcher.
    `source` has the source lines of the text, each after its file and line number; `source_notes` is what the text says
    about them. `verdict` is the verdict's kind, None without an answer; `awaited` are the processes that can end the
    waits which it is about.
    """

    target: str
    document_json: bytes | None
    text: Safe
    dot: Safe
    stopped: float | None
    seconds: float
    problem: str | None
    hint: str | None
    status: int
    notes: tuple[str, ...] = ()
    source: tuple[tuple[str, int, str], ...] = ()
    source_notes: tuple[str, ...] = ()
    verdict: str | None = None
    awaited: tuple[int, ...] = ()

    @property
    def is_made(self) -> bool:
        """Whether there is an answer."""
        return bool(self.text) or self.document_json is not None

    @functools.cached_property
    def document(self) -> dict[str, Any] | None:
        """The values of the document, which take many times the memory of its text."""
        if self.document_json is None:
            return None
        made: dict[str, Any] = json.loads(self.document_json)
        return made

    @functools.cached_property
    def report(self) -> Report | None:
        """The report that the document describes.

        :raises BadDocument: the document does not follow the schema.
        """
        return None if self.document is None else read_document(self.document)

    def failure(self) -> NoReport:
        """The exception that says why there is no answer."""
        error = NoGdb if self.status == NO_GDB else Unreadable
        return error(self.problem or "no answer", self.hint or "", self.stopped, self.notes)

    def for_page(self) -> Shown:
        """The snapshot as `render.html` takes it."""
        source = {(file, line): text for file, line, text in self.source}
        return Shown(self.target, self.report, self.problem, stopped=self.stopped, source=source,
                     source_notes=self.source_notes)


def take_snapshot(target: Target, options: Options) -> Snapshot:
    """Take a snapshot of a target.

    :return: the result; a bad target is a problem in it, not an exception.
    :raises KeyboardInterrupt: after GDB has detached; so do all other exceptions that are not `GdbextError`.
    """
    seen = _take(target, options)
    if not options.redact:
        return seen
    from gdbext.commands.answer import without_private
    from gdbext.redact import short_path

    if target.core is not None and seen.problem is not None:
        name = str(target.core)  # in a sentence a relative path looks like other words
        seen = replace(seen, problem=seen.problem.replace(name, short_path(name)))
    return without_private(seen, target.pid)


def _take(target: Target, options: Options) -> Snapshot:
    started = time.monotonic()
    limit = Limit(options.timeout)
    notes: tuple[str, ...] = ()
    try:
        gdb = find_gdb(options.gdb) if options.by_gdb else None
        with prepared(target, options, limit) as preparation:
            notes = preparation.notes
            withheld = preparation.is_anothers and not options.values_of_others
            why = why_not_attached(target.pid) if gdb is not None and target.pid is not None else None
            if why is not None:
                notes = (*notes, f"GDB was not used: {why}")
            if gdb is None or why is not None:
                answer = _read_without_gdb(target, options, preparation, limit, withheld)
            else:
                answer = read_by_gdb(gdb, target, options, preparation, limit, withheld)
    except (GdbextError, OSError) as error:
        if isinstance(error, OSError):
            error = GdbextError(f"{target.name} cannot be read: {error.strerror or error}",
                                "see whether memory, descriptors or room for files have run out")
        paused = error.paused if isinstance(error, NoReport) else None
        return Snapshot(target.name, None, NOTHING, NOTHING, paused, time.monotonic() - started, str(error),
                        error.hint or None, NO_GDB if isinstance(error, NoGdb) else NO_ANSWER, notes)
    status = STATUS_OF_OUTCOME[answer["outcome"]]
    problem, hint = answer["incomplete"] or answer["unknown"], answer["hint"] or None
    if target.core is not None and hint:
        hint = "name it after the core, or a folder that has it: --search DIR"
    return Snapshot(target.name, answer.get("document"), cleaned(answer["text"]), cleaned(answer.get("dot", "")),
                    answer.get("paused"), time.monotonic() - started, problem, hint, status, notes,
                    tuple([(file, line, text) for file, line, text in answer["source"]]), tuple(answer["source_notes"]),
                    answer["verdict"], tuple(answer["awaited"]))


def _read_without_gdb(target: Target, options: Options, preparation: Preparation, limit: Limit,
                      withheld: bool) -> Mapping[str, Any]:
    answer = read_without_gdb(target.name, {
        "options": {**{name: getattr(options, name) for name in ReportOptions.__annotations__},
                    "object_names": options.object_names and not withheld},
        "pid": target.pid, "executable": preparation.executable, "places": dict(preparation.places),
        "withhold_values": withheld, "seconds": limit.left * READING,
        "sysroot": os.path.realpath(options.sysroot) if options.sysroot is not None else None},
        preparation.descriptors[0] if target.core is not None else None, limit)
    if "denied" in answer and target.pid is not None:
        raise Unreadable(*why_not_traced(target.pid))
    return answer


@contextlib.contextmanager
def prepared(target: Target, options: Options, limit: Limit) -> Iterator[Preparation]:
    """Prepare a GDB to open a target; temporary files are removed afterwards.

    :raises Unreadable: the target cannot be read.
    """
    if target.pid is not None:
        with contextlib.ExitStack() as files:
            yield replace(prepare_process(target.pid, files, options.sysroot),
                          is_anothers=process_is_anothers(target.pid))
        return
    assert target.core is not None
    with prepare_core(target.core, target.executable, options.sysroot, options.search, limit) as preparation:
        yield replace(preparation, is_anothers=preparation.core is not None and core_is_anothers(preparation.core))


def end_running() -> None:
    """End the snapshots of other threads, GDBs in good order; these then fail."""
    end_server()
    end_gdbs()
