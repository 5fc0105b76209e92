"""Runs inside of GDB: makes the reports of many cores, one after the other. See `fuzz_gdb`."""

from __future__ import annotations

import gc
import json
import sys
import traceback

import gdb

from gdbext.commands.answer import answer
from gdbext.commands.report_options import DEFAULTS
from gdbext.debugger.console import execute, quoted
from gdbext.debugger.settings import Settings
from gdbext.debugger.source import source_files
from gdbext.debugger.target import GdbTarget
from gdbext.errors import GdbextError
from gdbext.inferior.budget import Budget
from gdbext.snapshot import take_snapshot
from gdbext.threads import findings

#: How long a core may be read, in seconds.
_SECONDS = 20.0


def main(wanted: int, made: int) -> None:
    """Make reports until there are no more requests.

    :param wanted: descriptor of a pipe with the executable and the path of a core in each line.
    :param made: descriptor of a pipe for one JSON object per line: ``answer``, ``problem`` or ``failure``.
    """
    findings.GUARDED = (GdbextError, gdb.error)
    with open(wanted, encoding="utf-8") as requests, open(made, "w", encoding="utf-8") as answers:
        for line in requests:
            executable, core = line.rstrip("\n").split("\t")
            print(json.dumps(_made(executable, core)), file=answers, flush=True)


def _made(executable: str, core: str) -> dict[str, object]:
    try:
        for command in ("core-file", f"file {quoted(executable)}", f"core-file {core}"):
            execute(command)
        target = GdbTarget()
        with Budget(_SECONDS) as budget:
            snapshot = take_snapshot(target, True, budget)
            report = snapshot.with_crash(snapshot.judged_report(lambda thread: True))
        reply = answer(report, snapshot.incomplete, source_files(target, Settings()), DEFAULTS)
        return {"answer": {**reply, "document": "".join(reply["document"])}}
    except (gdb.error, GdbextError) as error:
        return {"problem": str(error)}
    except Exception as error:
        last = "".join(traceback.format_exception(type(error), error, sys.exc_info()[2])[-6:])
        return {"failure": f"{type(error).__name__}: {error}\n{last}"}
    finally:
        gc.collect()
