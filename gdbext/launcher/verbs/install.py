"""The verb `install`: the lines that load gdbext in every session of GDB, and the file for them."""

from __future__ import annotations

import argparse
import os
import re
import stat
from pathlib import Path

from gdbext.errors import GdbextError
from gdbext.launcher.cli import add_gdb
from gdbext.launcher.output import write, write_line
from gdbext.launcher.snapshots.finding import find_gdb, probe
from gdbext.launcher.snapshots.programs import HOME, source_line
from gdbext.launcher.status import NOTHING_FOUND
from gdbext.render.escape import as_text, printable

NAME = "install"
HELP = "make GDB load gdbext in every session"
DESCRIPTION = """\
Shows the lines that load gdbext in every session, and the file from which this GDB
reads them. Nothing is written without --write. The lines do nothing once gdbext is
removed."""
EXAMPLES = """\
examples:
  gdbext install
  gdbext install --write
  gdbext install --remove
  gdbext install --gdb /opt/gdb/bin/gdb"""

#: The first release of GDB that also reads a file in the folder of settings.
_XDG_SINCE = 11
_FIRST = "# gdbext: `gdbext install --remove` removes this line and the next three"
# an error would end the reading of the file: a GDB without Python has no $_streq, and no command that finds files
_LINES = _FIRST + """
if ! $_isvoid($_streq)
python import os; os.path.isfile({path!r}) and gdb.execute("source " + {path!r})
end
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the verb."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--write", action="store_true", help="write the lines to the file, once")
    group.add_argument("--remove", action="store_true", help="remove the lines from every file that GDB may read")
    add_gdb(parser)


def run(options: argparse.Namespace) -> int:
    """Show the lines, write or remove them."""
    if options.remove:
        _remove()
        return NOTHING_FOUND
    gdb = probe(find_gdb(options.gdb))
    gdb.check()
    places = candidates(gdb.release)
    # if none exists, the last one: any other would hide a ~/.gdbinit that is written later
    place = next((place for place in places if place.exists()), places[-1])
    is_new = not place.exists()
    said = [f"{gdb.path}: {gdb.version}, Python {'.'.join(map(str, gdb.python or ()))} inside",
            "It reads the first of these files that exists:",
            *(f"  {each}{'' if each.exists() else ' (does not exist)'}" for each in places)]
    lines = loading_lines()
    indented = [f"  {line}" for line in lines.splitlines()]
    before = _read(place)
    after = _with_lines(before, os.fsencode(lines))
    if before == after:
        said.append(f"{place} already loads gdbext:")
    elif options.write:
        _write(place, after)
        how = "a new file" if is_new else "in place of earlier ones" if _OURS.search(before) else "at its end"
        said.append(f"Written to {place}, {how}:")
    else:
        said.append(f"These lines in {place} load gdbext in every session (`gdbext install --write` writes them):")
    write(as_text([*said, *indented]))
    return NOTHING_FOUND


def _remove() -> None:
    """Remove the lines from all files that any GDB reads."""
    places = candidates(_XDG_SINCE)
    found = False
    for place in places:
        before = _read(place)
        after = _OURS.sub(b"", before)
        if before == after:
            continue
        found = True
        if after or place.is_symlink():
            _write(place, after)
        else:
            # an empty file may hide another one
            _unlink(place)
        write_line(f"Removed from {place}{'' if after else ', which had nothing else'}")
    if not found:
        write_line(f"Nothing to remove: {' and '.join(map(str, places))} do not load gdbext")


def loading_lines() -> str:
    """The lines that load this copy of gdbext if it exists."""
    return _LINES.format(path=f"{HOME}/gdbext/gdbext")


#: The lines of any copy, and the line that this copy once wrote in their place.
_OURS = re.compile(rb"^(?:%s\nif ! \$_isvoid\(\$_streq\)\npython import os; [^\n]*\nend|%s)[ \t]*(?:\n|\Z)" % (
    re.escape(_FIRST.encode()), re.escape(os.fsencode(source_line()))), re.MULTILINE)


def _with_lines(text: bytes, lines: bytes) -> bytes:
    """The text of a file with the lines once: where others are, else at its end."""
    first = _OURS.search(text)
    if first is None:
        # the last line may lack its line feed
        return text + b"\n" * (text[-1:] not in (b"", b"\n")) + lines
    return text[:first.start()] + lines + _OURS.sub(b"", text[first.end():])


def candidates(release: int) -> list[Path]:
    """The files of the user; a GDB of this release reads the first that exists.

    Source: GDB 13.1 gdbsupport/pathstuff.cc, find_gdb_home_config_file. Before GDB 11 there was only the last one.
    """
    home = Path(os.path.expanduser("~"))
    place = home / ".gdbinit"
    if release < _XDG_SINCE:
        return [place]
    settings = os.environ.get("XDG_CONFIG_HOME")
    return [(Path(settings) if settings else home / ".config") / "gdb" / "gdbinit", place]


def _read(place: Path) -> bytes:
    try:
        # opening a FIFO would block
        return place.read_bytes() if place.is_file() else b""
    except OSError as error:
        raise GdbextError(f"cannot read {printable(str(place))}: {error.strerror}", "check its permissions") from None


def _write(place: Path, text: bytes) -> None:
    """Write a whole file, which keeps its owner, its permissions and its links."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o644)
        with open(descriptor, "r+b", buffering=0) as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise GdbextError(f"{printable(str(place))} is not a regular file", "write the lines yourself")
            file.write(text)
            file.truncate(len(text))
    except OSError as error:
        raise GdbextError(f"cannot write {printable(str(place))}: {error.strerror}",
                          "change the lines there yourself") from None


def _unlink(place: Path) -> None:
    try:
        place.unlink()
    except OSError as error:
        raise GdbextError(f"cannot remove {printable(str(place))}: {error.strerror}", "remove it yourself") from None
