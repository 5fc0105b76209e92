"""Other releases of Debian and Ubuntu, with a GDB, Python and glibc of their own, and further GDBs for this machine.

What is there is used. What is not is made by scripts/get-root and scripts/get-gdb only if GDBEXT_REQUIRE names
it (see interpreters.py): a tree takes half a gigabyte.
"""

from __future__ import annotations

import functools
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support import combinations, interpreters
from tests.support.interpreters import CHECKOUT
from tests.support.samples import Place

GET_ROOT = CHECKOUT / "scripts" / "get-root"
IN_ROOT = CHECKOUT / "scripts" / "in-root"
GET_GDB = CHECKOUT / "scripts" / "get-gdb"

# the samples are compiled there, so that they fit that glibc
_PACKAGES = "gcc,g++,libc6-dev"
# what shows that these are installed
_FILES = ("usr/bin/gcc", "usr/bin/g++", "usr/include/stdio.h")
# sid's own Python is whichever it is today: an interpreter of ours, which in-root makes visible there
_LENT = {"sid": f"{interpreters.ANY}-stripped"}


@dataclass(frozen=True)
class Packaged:
    """An interpreter that a package brings into a tree: the program in /usr/bin, and variables for its environment."""

    suite: str
    package: str
    program: str
    variables: tuple[tuple[str, str], ...] = ()
    what: str = "default build: static, not position-independent, LTO and PGO"


#: The interpreters of `interpreters.ROOT_PYTHONS`.
PACKAGED = {
    "sid-3.13": Packaged("sid", "python3.13", "python3.13"),
    "sid-3.14": Packaged("sid", "python3.14", "python3.14"),
    "sid-3.15": Packaged("sid", "python3.15", "python3.15"),
    "sid-3.15-jit": Packaged("sid", "python3.15", "python3.15", (("PYTHON_JIT", "1"),), "the same with its JIT on"),
    "sid-3.14-dbg": Packaged("sid", "python3.14-dbg", "python3.14d", what="Py_DEBUG build"),
    "bullseye-3.9-dbg": Packaged("bullseye", "python3.9-dbg", "python3.9d", what="Py_DEBUG build"),
}


#: How a program in a tree is seen: as a process or as a core, by the tree's own GDB or by this machine's.
WAYS = ("live, its GDB", "live", "core", "core, its GDB")


@dataclass(frozen=True)
class Root:
    """A tree under test.

    `python` is an interpreter as it is seen inside, `libc` its glibc as `getconf` calls it. `gdb` starts the GDB
    inside, and is empty where gdbext runs in none; `sysroot` are the options with which a GDB outside reads cores of
    the tree. `variables` are what turns on in the interpreter what is tested.
    """

    place: Place
    python: Path
    libc: str
    gdb: tuple[str, ...]
    sysroot: tuple[str, ...]
    variables: tuple[tuple[str, str], ...] = ()

    def ways(self, turn: int) -> Sequence[str]:
        """Choose among WAYS: each GDB once; which one gets the process and which one the core takes turns."""
        return combinations.part(WAYS, turn) if self.gdb else ("live", "core")

    def outside(self, path: Path) -> Path:
        """A program of the tree as this machine knows it; a lent interpreter lies at the same path."""
        inside = self.place.outside(path)
        return inside if inside.exists() else path


def use(suite: str) -> Root:
    """The tree of a suite; skips or fails the test without it."""
    place, missing = _find(suite)
    if place is None:
        interpreters.do_without(suite, missing)
    libraries: list[Path] = []
    if suite in _LENT:
        python, _ = interpreters.use(_LENT[suite])
        library = python.parent.parent / "lib"
        # a lent interpreter's libraries are not in the tree
        libraries += [library, *library.glob("python3*/lib-dynload")]
    else:
        python = Path("/usr/bin") / os.readlink(place.tree / "usr/bin/python3")
    return _root(place, python, libraries)


def use_python(name: str, *, headers: bool = False) -> Root:
    """The tree of an interpreter of `PACKAGED` with that as its `python`; skips or fails the test without it.

    :param headers: extension modules are to be compiled for it.
    """
    packaged = PACKAGED[name]
    place, missing = _find(packaged.suite)
    if place is None:
        interpreters.do_without(name, missing)
    wanted = interpreters.is_required(name) or interpreters.is_required(packaged.suite)
    missing = _add(place, packaged.suite, packaged.package, f"usr/bin/{packaged.program}", wanted)
    if headers and not missing:
        header = f"usr/include/{packaged.program}/Python.h"
        missing = _add(place, packaged.suite, f"lib{packaged.package}-dev", header, wanted)
    if missing:
        interpreters.do_without(name, missing)
    return _root(place, Path("/usr/bin") / packaged.program, (), packaged.variables)


def _root(
    place: Place, python: Path, libraries: Sequence[Path] = (), variables: tuple[tuple[str, str], ...] = ()
) -> Root:
    # /lib64/ld-linux-x86-64.so.2 may be a link with an absolute path, which leads out of the tree
    search = ":".join(map(str, [*place.tree.glob("lib/*-linux-gnu"), *libraries]))
    settings = (f"set sysroot {place.tree}", f"set solib-search-path {search}")
    options = tuple(part for setting in settings for part in ("-iex", setting))
    gdb = (*place.enter, "gdb") if place.outside(Path("/usr/bin/gdb")).exists() else ()
    return Root(place, python, _libc(place), gdb, options, variables)


def use_gdb(name: str) -> Path:
    """A further GDB, by its name in GDBEXT_REQUIRE; skips or fails the test without it."""
    path, missing = _find_gdb(name)
    if path is None:
        interpreters.do_without(name, missing)
    return path


@functools.cache
def _find(suite: str) -> tuple[Place | None, str]:
    """Look for a tree once, or why there is none."""
    if os.geteuid() != 0:
        return None, f"{suite}: making and entering another root directory needs root"
    store = _store("GDBEXT_ROOTS", "roots")
    tree = store / suite
    make = f"scripts/get-root --with {_PACKAGES} {suite}"
    made = (tree / ".done").exists() and all((tree / file).exists() for file in _FILES)
    names = (suite, *(name for name, packaged in PACKAGED.items() if packaged.suite == suite))
    if not made and not any(interpreters.is_required(name) for name in names):
        return None, f"no {suite} with a C compiler in {store}; `{make}` makes it"
    got = _run([GET_ROOT, "--with", _PACKAGES, suite])
    if got.returncode:
        return None, f"{make}: {got.stderr.strip()}"
    # GDB gets another HOME, where in-root would look for all of these
    here = {
        "GDBEXT_ROOTS": store,
        "GDBEXT_PYTHONS": _store("GDBEXT_PYTHONS", "pythons"),
        "PYENV_ROOT": os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"),
    }
    environment = (f"{name}={path}" for name, path in here.items())
    place = Place(Path(got.stdout.strip()), ("env", *environment, str(IN_ROOT), "--bind", str(CHECKOUT), suite))
    entered = _run([*place.enter, "true"])
    if entered.returncode:
        return None, f"{suite} cannot be entered: {entered.stderr.strip()}"
    return place, ""


@functools.cache
def _add(place: Place, suite: str, package: str, file: str, wanted: bool) -> str:
    """Why a file of a package is not in a tree; if wanted, the package is added once."""
    path = place.tree / file
    if path.exists():
        return ""
    make = f"scripts/get-root --with {package} {suite}"
    if not wanted:
        return f"no {path.name} in {path.parent}; `{make}` adds it"
    got = _run([GET_ROOT, "--with", package, suite])
    return f"{make}: {got.stderr.strip()}" if got.returncode or not path.exists() else ""


@functools.cache
def _libc(place: Place) -> str:
    return place.run(["getconf", "GNU_LIBC_VERSION"]).strip()


@functools.cache
def _find_gdb(name: str) -> tuple[Path | None, str]:
    _, _, version = name.partition("-")
    store = _store("GDBEXT_GDBS", "gdbs")
    if not any(store.glob(f"{version}-py*/.done")) and not interpreters.is_required(name):
        return None, f"no GDB {version} in {store}; `scripts/get-gdb {version}` gets it"
    got = _run([GET_GDB, version])
    if got.returncode:
        return None, f"get-gdb {version}: {got.stderr.strip()}"
    return Path(got.stdout.strip()), ""


def _store(variable: str, name: str) -> Path:
    """Where a script of scripts/ keeps what it makes."""
    named = os.environ.get(variable)
    return Path(named) if named else Path.home() / ".cache" / "gdbext" / name


def _run(argv: Sequence[str | Path]) -> subprocess.CompletedProcess[str]:
    command = [*map(str, argv)]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
