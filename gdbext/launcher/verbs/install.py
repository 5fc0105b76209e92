"""The verb `install`: the line that loads gdbext in every session of GDB, and the file for it."""

from __future__ import annotations

import argparse
import os
import stat
import sys
from pathlib import Path

from gdbext.errors import GdbextError
from gdbext.launcher.cli import add_gdb
from gdbext.launcher.snapshots.finding import HOME, Gdb, find_gdb, probe
from gdbext.launcher.status import NOTHING_FOUND

NAME = "install"
HELP = "make GDB load gdbext in every session"
DESCRIPTION = """\
Shows the line that loads gdbext in every session, and the file from which this GDB
reads it. Nothing is written without --write."""
EXAMPLES = """\
examples:
  gdbext install
  gdbext install --write
  gdbext install --gdb /opt/gdb/bin/gdb"""

#: The first release of GDB that also reads a file in the folder of settings.
_XDG_SINCE = 11


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the verb."""
    parser.add_argument("--write", action="store_true", help="write the line to the file, once")
    add_gdb(parser)


def run(options: argparse.Namespace) -> int:
    """Show the line, or write it."""
    gdb = probe(find_gdb(options.gdb))
    gdb.check()
    places, line = candidates(gdb), source_line()
    # if none exists, the last one: any other would hide a ~/.gdbinit that is written later
    place = next((place for place in places if place.exists()), places[-1])
    is_new = not place.exists()
    out = sys.stdout.write
    out(f"{gdb.path}: {gdb.version}, Python {'.'.join(map(str, gdb.python or ()))} inside\n")
    out("It reads the first of these files that exists:\n")
    for each in places:
        out(f"  {each}{'' if each.exists() else ' (does not exist)'}\n")
    if _has(place, line):
        out(f"{place} already loads gdbext:\n  {line}\n")
    elif options.write:
        _append(place, line)
        out(f"Written to {place}, {'a new file' if is_new else 'at its end'}:\n  {line}\n")
    else:
        out(f"This line in {place} loads gdbext in every session (`gdbext install --write` writes it):\n  {line}\n")
    return NOTHING_FOUND


def source_line() -> str:
    """The line that loads this copy of gdbext."""
    return f"source {HOME}/gdbext/gdbext"


def candidates(gdb: Gdb) -> list[Path]:
    """The files of the user; a GDB reads the first that exists.

    Source: GDB 13.1 gdbsupport/pathstuff.cc, find_gdb_home_config_file. Before GDB 11 there was only the last one.
    """
    home = Path(os.path.expanduser("~"))
    place = home / ".gdbinit"
    if gdb.release < _XDG_SINCE:
        return [place]
    settings = os.environ.get("XDG_CONFIG_HOME")
    return [(Path(settings) if settings else home / ".config") / "gdb" / "gdbinit", place]


def _has(place: Path, line: str) -> bool:
    try:
        return line in (found.strip() for found in place.read_text(errors="surrogateescape").splitlines())
    except OSError:
        return False


def _append(place: Path, line: str) -> None:
    """Add a line at the end of a file, which is created if it does not exist."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(place, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        with open(descriptor, "r+b", buffering=0) as file:
            size = os.fstat(descriptor).st_size
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise GdbextError(f"{place} is not a regular file", "write the line yourself")
            # the last line may lack its line feed
            cut = size and os.pread(descriptor, 1, size - 1) != b"\n"
            file.write(b"\n" * bool(cut) + os.fsencode(line) + b"\n")
    except OSError as error:
        raise GdbextError(f"cannot write {place}: {error.strerror}", "write the line there yourself") from None
