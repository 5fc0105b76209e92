from __future__ import annotations

import pytest

from gdbext.crash.abort import AbortReader
from gdbext.crash.origins import OriginReader
from gdbext.crash.pointers import Pointers
from gdbext.crash.python_fatal import FatalReader
from gdbext.crash.seen import FaultSite, SeenFault
from gdbext.inferior.protocol import SignalInfo
from gdbext.inferior.signals import SI_TKILL, SIGABRT
from gdbext.model import Fault
from gdbext.model.reasons import because
from gdbext.threads.code import read_code
from gdbext.threads.findings import Findings
from gdbext.threads.python_side import PythonSide
from gdbext.threads.site import Sites
from gdbext.threads.threads import read_threads
from tests.support.crash_scene import Scene


@pytest.mark.parametrize("message", [
    "Fatal Python error: init: no memory", "Fatal Python error: _PyObject_AssertFailed: _PyObject_AssertFailed",
    "Fatal Python error: _enter_buffered_busy: could not acquire lock at interpreter shutdown, possibly due to daemon "
    "threads"])
def test_fatal_error_without_an_object_is_unchanged(message: str) -> None:
    scene = Scene()
    findings = Findings()
    code = read_code(scene.target, findings)
    threads = read_threads(scene.target, None, findings)
    side = PythonSide(scene.target.memory, code, findings, (), {}, ())
    pointers = Pointers(scene.target, code, threads, ())
    sites = Sites(scene.target.memory, code, ())
    is_constant = AbortReader(scene.target, code, side, sites, pointers, ()).is_constant
    reader = FatalReader(scene.target, code, threads, side, sites, pointers, OriginReader(scene.target, code, pointers),
                         is_constant)
    seen = SeenFault(Fault("SIGABRT", None, "fatal-python-error", because("python-ended", message=message),
                           message=message))
    frames = [(scene.registers["rip"], scene.registers["rsp"])]
    site = FaultSite(scene.target.fakes[0].ref, SignalInfo(SIGABRT, SI_TKILL, None), scene.registers, frames=frames)
    assert reader.explain(seen, site, frames) == seen
