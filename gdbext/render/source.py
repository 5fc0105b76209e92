"""Source files: which of them may be read, and their lines as Python itself would read them.

A file's name comes from the target, which may have made it up: what it leads to is read only if it is a regular file,
looks like Python's source, and lies where the user's settings allow.
"""

from __future__ import annotations

import codecs
import io
import os
import re
import stat
import tokenize
from collections.abc import Callable, Iterator, Sequence

from gdbext.render.escape import printable

#: Most bytes of one file that are read.
MAX_SOURCE = 8 << 20
#: Names of source files; a code object's file name may be any text.
_SUFFIXES = (".py", ".pyw")
#: Names that every package has: such a name alone does not tell a file.
_COMMON = ("__init__.py", "__main__.py")
#: Most symbolic links on the way to one file, as in Linux (MAXSYMLINKS).
_MAX_LINKS = 40
#: How many files a note about each of them is written for.
_MANY = 10
#: By how many seconds the clocks of files and processes may differ: the kernel counts both in ticks.
_TICK = 0.02

#: Encodings in which people write source. Some of Python's codecs are no encodings, or take for ever on some input.
_ENCODING = re.compile(
    r"^(utf-8|utf-8-sig|ascii|iso8859-\d+|cp\d+|koi8-[rtu]|mac-\w+|gb\w+|big5\w*|euc_\w+|shift_jis\w*)$")
_LINE_END = re.compile("\r\n|\r|\n")


def source_lines(data: bytes) -> list[str]:
    """The lines of a Python source file, in the encoding that it declares (PEP 263), without their ends."""
    try:
        name = codecs.lookup(tokenize.detect_encoding(io.BytesIO(data[:4096]).readline)[0]).name
    except (SyntaxError, LookupError, ValueError):
        name = "utf-8"
    return _LINE_END.split(data.decode(name if _ENCODING.match(name) else "utf-8", "replace"))


class SourceFiles:
    """Lines of the source files that frames name, each file read once.

    :param folders: the user's own, in which a file is looked for first, by as much of the end of its name as fits.
    :param anywhere: whether files may be read at the very places that frames name, too.
    :param root: the root directory of the target's file system; empty if it is the debugger's own.
    :param since: tells from when on a file that was changed may not be what runs, in seconds since 1970; None if that
        is not known.
    :param what: ``process`` or ``core``.
    """

    def __init__(self, folders: Sequence[str] = (), anywhere: bool = True, root: str = "",
                 since: Callable[[], float | None] = lambda: None, what: str = "process") -> None:
        self._folders = folders
        self._anywhere = anywhere
        self._root = root
        self._get_since = since
        self._since: float | None = None
        self._since_known = False
        self._what = what
        self._files: dict[str, list[str]] = {}
        self._missing: list[str] = []
        self._newer: list[str] = []

    def __call__(self, path: str, line: int) -> str | None:
        """The text of a line, or None where there is no such file or line."""
        lines = self._files.get(path)
        if lines is None:
            lines = self._files[path] = self._load(path)
        return lines[line - 1] if 0 < line <= len(lines) else None

    def notes(self) -> list[str]:
        """What the user should know of the files that were asked for, one line each."""
        notes = [f"{printable(path, 300)} is newer than the {self._what}: its lines may not be those that run"
                 for path in self._newer[:_MANY]]
        if len(self._newer) > _MANY:
            notes.append(f"{len(self._newer) - _MANY} more source files are newer than the {self._what}")
        if self._missing:
            files = "1 file" if len(self._missing) == 1 else f"{len(self._missing)} files"
            notes.append(f"no source for {files}, such as {printable(self._missing[0], 300)}; "
                         "`help set gdbext source-path` tells where it is looked for")
        return notes

    def _load(self, path: str) -> list[str]:
        if not path.endswith(_SUFFIXES):
            return []
        for place in self._places(path):
            found = _read_regular(place)
            if found is not None:
                data, changed = found
                if self._is_newer(changed):
                    self._newer.append(path)
                return source_lines(data)
        self._missing.append(path)
        return []

    def _places(self, path: str) -> Iterator[str]:
        """Where a file may lie, the likeliest place first."""
        parts = [part for part in path.split("/") if part not in ("", ".")]
        if ".." in parts:  # what is before it may be a link, and what is behind it must not lead out of a folder
            parts = parts[len(parts) - parts[::-1].index(".."):]
        for first in range(len(parts) - 1):
            yield from ("/".join((folder, *parts[first:])) for folder in self._folders)
        if self._anywhere and path.startswith("/"):
            place = _inside(self._root, path)
            if place is not None:
                yield place
        # a name without its folder may be that of another file: only where nothing better is found
        if parts and (parts[-1] not in _COMMON or path == parts[-1]):
            yield from (f"{folder}/{parts[-1]}" for folder in self._folders)

    def _is_newer(self, changed: float) -> bool:
        if not self._since_known:
            self._since, self._since_known = self._get_since(), True
        return self._since is not None and changed > self._since + _TICK


def _inside(root: str, path: str) -> str | None:
    """An absolute path of another file system as one of ours; None if its links go in a circle.

    The kernel would take the target of an absolute link from our own root directory.
    """
    if not root:
        return path
    done: list[str] = []
    todo = path.split("/")[::-1]
    links = 0
    while todo:
        part = todo.pop()
        if part in ("", "."):
            continue
        if part == "..":
            del done[-1:]
            continue
        try:
            link = os.readlink("/".join((root, *done, part)))
        except (OSError, ValueError):  # no link, or not there
            done.append(part)
            continue
        links += 1
        if links > _MAX_LINKS:
            return None
        if link.startswith("/"):
            done.clear()
        todo += link.split("/")[::-1]
    return "/".join((root, *done))


def _read_regular(path: str) -> tuple[bytes, float] | None:
    """The beginning of a regular file and when it was changed, in seconds since 1970; None for anything else.

    Opening a device may do something already, so it is asked for what it is before; it is asked again when it is
    open, as another file may have come into its place.
    """
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return None
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    with os.fdopen(handle, "rb") as file:
        try:
            found = os.fstat(file.fileno())
            return (file.read(MAX_SOURCE), found.st_mtime) if stat.S_ISREG(found.st_mode) else None
        except OSError:
            return None
