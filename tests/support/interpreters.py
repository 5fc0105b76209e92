"""The interpreters under test, and the outcome of tests that need a missing one.

GDBEXT_REQUIRE lists requirements, separated by commas (`3.11,3.12-stripped,debian,trixie,sid-3.15,gdb-18.1`,
or `all`): interpreters; the trees of distributions, their interpreters and further GDBs of tests/support/roots.py;
and packages from PyPI. A test fails if a listed requirement is missing, and is skipped, with the reason, if another
one is.
"""

from __future__ import annotations

import fcntl
import functools
import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest

CHECKOUT = Path(__file__).resolve().parent.parent.parent
#: The environment variable with the folder that conftest.py creates for one run of the tests.
SHARED = "GDBEXT_TESTS_SHARED"
GET_PYTHON = CHECKOUT / "scripts" / "get-python"
DEBIAN_PYTHON = Path("/usr/bin/python3")

# one for each shape of threads, frames and GIL, tested in every scenario; the others only in the most useful ones
MAIN_VERSIONS = ("3.9", "3.11", "3.12", "3.13")
FURTHER_VERSIONS = ("3.6", "3.7", "3.8", "3.10")
VERSIONS = (*MAIN_VERSIONS, *FURTHER_VERSIONS)
# free-threaded builds, tested in every scenario if they are available
FREE_THREADED_VERSIONS = ("3.13t", "3.14t", "3.15t")
# tested as soon as a build is available; so far neither a build nor complete sources were
NEVER_RUN = ("3.15t",)
MAIN_NAMES = (*MAIN_VERSIONS, *(f"{version}-stripped" for version in MAIN_VERSIONS), "debian")
FURTHER_NAMES = (*FURTHER_VERSIONS, *(f"{version}-stripped" for version in FURTHER_VERSIONS))
FREE_THREADED_NAMES = (*FREE_THREADED_VERSIONS, *(f"{version}-stripped" for version in FREE_THREADED_VERSIONS))
# every interpreter under test, by the name that test ids and GDBEXT_REQUIRE use
NAMES = (*MAIN_NAMES, *FURTHER_NAMES, *FREE_THREADED_NAMES)
# further names for GDBEXT_REQUIRE: Debian suites, Debian's interpreters other than the suite's default
# (in the micro version of the mirror), and GDBs other than the system's
SUITES = ("bullseye", "trixie", "sid")
# Ubuntu suites, which have other versions of glibc; gdbext does not run in the GDB of the first two
OLD_SUITES = ("xenial", "bionic", "noble")
ROOT_PYTHONS = ("sid-3.13", "sid-3.14", "sid-3.15", "sid-3.15-jit", "sid-3.14-dbg", "bullseye-3.9-dbg")
GDBS = ("gdb-16.3", "gdb-18.1")
# packages that tests install from PyPI, for programs of public reports and for callbacks into Python; a compiler, and
# the browser
EXTENSIONS = ("cython-openmp", "precision-packages", "rates-packages", "boundary-packages", "lock-packages",
              "lock-libraries", "dask-packages", "clang", "chromium")
# the interpreter for tests that do not depend on the version
ANY = "3.12"


@dataclass(frozen=True)
class Interpreter:
    """An interpreter under test.

    `path` is None when it is not available, and `missing` then says why. `symbols` is false when GDB must not find
    symbols, including detached ones.
    """

    name: str
    path: Path | None
    missing: str
    symbols: bool


def use(name: str) -> tuple[Path, bool]:
    """The path of the interpreter, and whether GDB may use its symbols; skips or fails the test without it."""
    interpreter = find(name)
    if interpreter.path is None:
        do_without(name, interpreter.missing)
    return interpreter.path, interpreter.symbols


def with_gil(name: str) -> tuple[str, ...]:
    """The options with which an interpreter has a GIL; a free-threaded one has none by default."""
    return ("-X", "gil=1") if name in FREE_THREADED_NAMES else ()


def do_without(name: str, missing: str) -> NoReturn:
    """End a test because of a missing requirement: it fails if GDBEXT_REQUIRE names that, otherwise it is skipped."""
    if is_required(name):
        pytest.fail(f"required by GDBEXT_REQUIRE: {missing}")
    pytest.skip(missing)


def is_required(name: str) -> bool:
    """Whether GDBEXT_REQUIRE contains the name."""
    names = {part.strip() for part in os.environ.get("GDBEXT_REQUIRE", "").split(",")} - {""}
    known = (*NAMES, *SUITES, *OLD_SUITES, *ROOT_PYTHONS, *GDBS, *EXTENSIONS, "all")
    unknown = names - {*known}
    # a typo must not turn a failure into a skip
    assert not unknown, f"GDBEXT_REQUIRE: {unknown} is not in {known}"
    return bool(names & {name, "all"})


@functools.cache
def find(name: str) -> Interpreter:
    """Find an interpreter, once per run; tests do not build one."""
    if name == "debian":
        path: Path | None = DEBIAN_PYTHON.resolve() if _is_debians(DEBIAN_PYTHON) else None
        return Interpreter(name, path, f"{DEBIAN_PYTHON} is not Debian's Python", False)
    if os.environ.get("GDBEXT_SHORT") and not is_required(name):
        return Interpreter(name, None, "a short run tests with Debian's Python and those in GDBEXT_REQUIRE only", False)
    version, _, copy = name.partition("-")
    found = _once_a_run(name, lambda: _get_python(["--stripped" if copy else "--debug-info", "--no-build", version]))
    return Interpreter(name, *found, symbols=not copy)


def _once_a_run(name: str, ask: Callable[[], tuple[Path | None, str]]) -> tuple[Path | None, str]:
    """The answer that the first worker of pytest-xdist got, because get-python starts several programs."""
    if SHARED not in os.environ:
        return ask()
    with open(Path(os.environ[SHARED]) / name, "a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        known = file.read()
        if known:
            path, missing = json.loads(known)
            return Path(path) if path else None, missing
        found, missing = ask()
        json.dump([str(found or ""), missing], file)
        return found, missing


def _is_debians(path: Path) -> bool:
    try:
        owner = subprocess.run(["dpkg-query", "-S", str(path.resolve())], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return False
    return owner.returncode == 0


def _get_python(arguments: list[str]) -> tuple[Path | None, str]:
    if not GET_PYTHON.exists():
        return None, f"no {GET_PYTHON.relative_to(CHECKOUT)}"
    got = subprocess.run([str(GET_PYTHON), *arguments], capture_output=True, text=True, check=False)
    if got.returncode:
        return None, f"get-python {' '.join(arguments)}: {got.stderr.strip()}"
    return Path(got.stdout.strip()), ""
