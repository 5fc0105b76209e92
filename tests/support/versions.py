"""The versions of CPython under test: those that `gdbext/layout/tables` has, and one that does not exist yet.

The next CPython begins as a copy of the tables of the newest one. `NEXT` is such a copy, so a reader that has a list of
versions, and fails for a version that is not in it, fails here.
"""

from __future__ import annotations

import atexit
import json
import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import gdbext.layout
from gdbext.layout import opcodes, select
from tests.support.combinations import LONG

#: The version that is a copy of the newest.
NEXT = "3.97.0"
_HOME = Path(gdbext.layout.__file__).parent
_NAME = re.compile(r"cpython-(?P<version>[\d.]+)-(?P<build>default|free-threaded)-x86_64\.json")


def _tables(build: str) -> list[str]:
    found = [match["version"] for match in map(_NAME.fullmatch, [path.name for path in (_HOME / "tables").iterdir()])
             if match and match["build"] == build]
    return sorted(found, key=version_tuple)


def version_tuple(version: str) -> tuple[int, ...]:
    """``(3, 11, 7)`` for 3.11.7."""
    return tuple(int(part) for part in version.split("."))


def _add_next() -> None:
    """Let gdbext read tables from a folder that has those of `NEXT` too."""
    folder = Path(tempfile.mkdtemp(prefix="gdbext-tables-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name in ("tables", "opcodes"):
        shutil.copytree(_HOME / name, folder / name)
    for build in ("default", "free-threaded"):
        newest = _tables(build)[-1]
        table = json.loads((_HOME / "tables" / f"cpython-{newest}-{build}-x86_64.json").read_text(encoding="utf-8"))
        (folder / "tables" / f"cpython-{NEXT}-{build}-x86_64.json").write_text(
            json.dumps({**table, "version": NEXT}), encoding="utf-8")
    minor = ".".join(newest.split(".")[:2])
    shutil.copy(_HOME / "opcodes" / f"cpython-{minor}.json",
                folder / "opcodes" / f"cpython-{NEXT.rpartition('.')[0]}.json")
    select._TABLES, opcodes._TABLES = str(folder / "tables"), str(folder / "opcodes")


_add_next()
#: Every version with a table, oldest first. 3.6 has no ``_PyRuntime``; few tests can make one.
EVERY = (*(version for version in _tables("default") if not version.startswith("3.6.")), NEXT)
#: Every version with a table of the free-threaded build.
FREE_THREADED = (*_tables("free-threaded"), NEXT)
#: The versions under test: in a usual run the newest of each minor version, in a long run every one.
TESTED = EVERY if LONG else tuple({version.rpartition(".")[0]: version for version in EVERY}.values())


def from_minor(minor: int, versions: Sequence[str] = TESTED) -> tuple[str, ...]:
    """The versions from 3.`minor` on."""
    return tuple(version for version in versions if version_tuple(version) >= (3, minor))


def before(minor: int, versions: Sequence[str] = TESTED) -> tuple[str, ...]:
    """The versions before 3.`minor`."""
    return tuple(version for version in versions if version_tuple(version) < (3, minor))
