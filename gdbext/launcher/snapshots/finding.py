"""Finds a GDB, and checks that it contains the Python that gdbext needs."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
import sys

from gdbext.launcher.snapshots.programs import environment
from gdbext.launcher.status import NoGdb
from gdbext.record import record
from gdbext.render.escape import printable

#: The oldest Python inside GDB that gdbext runs on.
OLDEST_PYTHON = (3, 9)

_INSTALL = ("install one that has Python inside (Debian, Ubuntu: apt install gdb; without root: pip install "
            "'gdbext[gdb]'), or name it: --gdb FILE or $GDBEXT_GDB")
#: How long a GDB may take to print its version, in seconds.
_PATIENCE = 20.0
# marks the line that a GDB with Python prints, besides any other output
_MARK = "gdbext-probe:"
_PROBE = f"""python
import json, sys
try:
    import pygments
    found = pygments.__version__
except Exception:
    found = None
print("{_MARK}" + json.dumps(dict(version=gdb.VERSION, python=list(sys.version_info[:3]), pygments=found)))
"""


@record
class Gdb:
    """A GDB: its file, its version, its Python (None: it has none), and the version of pygments there."""

    path: str
    version: str
    python: tuple[int, ...] | None
    pygments: str | None = None

    @property
    def release(self) -> int:
        """The first number of the version; 99 if it cannot be read."""
        match = re.search(r"(\d+)\.", self.version)
        return int(match[1]) if match else 99

    def check(self) -> None:
        """Raise if gdbext cannot run in it.

        :raises NoGdb: it has no Python, or an old one.
        """
        if self.python is None:
            raise NoGdb(f"{printable(self.path)} ({self.version}) has no working Python inside", _INSTALL)
        if self.python < OLDEST_PYTHON:
            raise NoGdb(f"{printable(self.path)} ({self.version}) has Python {'.'.join(map(str, self.python))} inside, "
                        f"{'.'.join(map(str, OLDEST_PYTHON))} or later is needed", _INSTALL)


def find_gdb(named: str | None = None) -> str:
    """Find the GDB to use: the one named, that of ``$GDBEXT_GDB``, the first `gdb` on ``$PATH``, or that of the extra.

    The extra ``gdbext[gdb]`` installs one beside the Python that runs gdbext.

    :raises NoGdb: there is none.
    """
    wanted = named or os.environ.get("GDBEXT_GDB") or "gdb"
    found = shutil.which(os.path.expanduser(wanted))
    if found is not None:
        return os.path.abspath(found)
    if named or os.environ.get("GDBEXT_GDB"):
        by = "--gdb" if named else "$GDBEXT_GDB"
        raise NoGdb(f"{by} names {printable(wanted)}, which is not a program", _INSTALL)
    found = shutil.which("gdb", path=os.path.dirname(sys.executable or ""))
    if found is not None:
        return os.path.abspath(found)
    raise NoGdb("there is no gdb on $PATH", _INSTALL)


@functools.cache
def probe(path: str) -> Gdb:
    """Ask a GDB for its version and its Python, once.

    :raises NoGdb: it does not run, or is not a GDB.
    """
    try:
        asked = subprocess.run([path, "-nx", "-batch", "-ex", _PROBE], env=environment(),
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               timeout=_PATIENCE, check=False, start_new_session=True)
        said = asked.stdout.decode("utf-8", "replace")
    except subprocess.TimeoutExpired:
        raise NoGdb(f"{printable(path)} prints nothing within {_PATIENCE:g} s", _INSTALL) from None
    except OSError as error:
        raise NoGdb(f"{printable(path)} does not run: {error.strerror}", _INSTALL) from None
    for line in said.splitlines():
        if line.startswith(_MARK):
            found = json.loads(line[len(_MARK):])
            return Gdb(path, f"GDB {found['version']}", tuple(found["python"]), found["pygments"])
    version = _version(path)
    if version is None:
        raise NoGdb(f"{printable(path)} is not a GDB: {printable(said.strip(), 200) or 'it prints nothing'}", _INSTALL)
    return Gdb(path, version, None)


def _version(path: str) -> str | None:
    """The first line of ``gdb --version``; None if it is not a GDB's."""
    try:
        asked = subprocess.run([path, "--version"], env=environment(), stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=_PATIENCE, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    first = asked.stdout.decode("utf-8", "replace").partition("\n")[0].strip()
    return printable(first, 100) if "gdb" in first.lower() else None
