"""Runs inside of GDB: makes the reports of many cores, one after the other. See `fuzz_gdb`."""

from __future__ import annotations

import gc
import json
import sys
import traceback

import gdb

from gdbext.debugger import one_snapshot
from gdbext.debugger.one_snapshot import Request
from gdbext.errors import GdbextError
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
    request = Request(0, None, core, executable, [], False, "full", False, None, True, 0.0, 0.0, _SECONDS)
    try:
        gdb.execute("core-file", to_string=True)
        one_snapshot._load(request)
        reply = one_snapshot._reply(request, *one_snapshot._take(request, _SECONDS))
        return {"answer": {**reply, "document": "".join(reply["document"])}}
    except (gdb.error, GdbextError) as error:
        return {"problem": str(error)}
    except Exception as error:
        last = "".join(traceback.format_exception(type(error), error, sys.exc_info()[2])[-6:])
        return {"failure": f"{type(error).__name__}: {error}\n{last}"}
    finally:
        gc.collect()
