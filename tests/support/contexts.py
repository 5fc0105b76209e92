"""What recognisers look at in a target."""

from __future__ import annotations

from gdbext.glibc.version import find_c_library
from gdbext.threads.code import read_code
from gdbext.threads.findings import Findings
from gdbext.threads.gone import GoneOwners
from gdbext.threads.python_side import read_python_side
from gdbext.threads.site import Sites
from gdbext.threads.threads import read_threads
from gdbext.waits.context import Context, read_context
from tests.support.fake_target import FakeTarget


def context_of(target: FakeTarget) -> Context:
    """The context of all threads of a target."""
    findings = Findings()
    code = read_code(target, findings)
    library = find_c_library(target.memory, code.modules, target.architecture)
    threads = read_threads(target, library.layouts, findings)
    python = read_python_side(target, code, threads, GoneOwners(target, library.layouts, threads), findings)
    sites = Sites(target.memory, code, library.modules)
    return read_context(target, code, library, threads, sites, python, findings)
