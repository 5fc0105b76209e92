"""Source files: which of them may be read, and their lines as Python itself would read them.

A file's name comes from the target, which may have made it up: what it leads to is read only if it is a regular file
whose name ends as that of a source file, which the target's own user may read, and which lies where the user's settings
allow. Nothing follows from what is in it.
"""

from __future__ import annotations

import codecs
import io
import re
import tokenize
from array import array
from collections.abc import Callable, Iterator, Sequence

from gdbext.render.escape import printable
from gdbext.render.source_access import SourceAccess

#: Most bytes of one file that are read, most bytes of all files of a report, and how many names are looked for.
MAX_SOURCE, MAX_TOTAL, MAX_FILES = 8 << 20, 32 << 20, 2_000
#: Names of source files; a code object's file name may be any text.
_SUFFIXES = (".py", ".pyw")
#: Names that every package has: such a name alone does not tell a file.
_COMMON = ("__init__.py", "__main__.py")
#: How many files a note about each of them is written for.
_MANY = 10
#: By how many seconds the clocks of files and processes may differ: the kernel counts both in ticks.
_TICK = 0.02

#: Encodings in which people write source. Some of Python's codecs are no encodings, or take for ever on some input.
_ENCODING = re.compile(
    r"^(utf-8|utf-8-sig|ascii|iso8859-\d+|cp\d+|koi8-[rtu]|mac-\w+|gb\w+|big5\w*|euc_\w+|shift_jis\w*)$")
_LINE_END = re.compile("\r\n|\r|\n")


class SourceLines:
    """The lines of a Python source file, in the encoding that it declares (PEP 263), without their ends.

    Only where they begin and end is kept besides the text: a file of empty lines has millions.
    """

    def __init__(self, data: bytes) -> None:
        try:
            name = codecs.lookup(tokenize.detect_encoding(io.BytesIO(data[:4096]).readline)[0]).name
        except (SyntaxError, LookupError, ValueError):
            name = "utf-8"
        self._text = data.decode(name if _ENCODING.match(name) else "utf-8", "replace")
        self._starts = array("I", [0])
        self._starts.extend(end.end() for end in _LINE_END.finditer(self._text))

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, index: int) -> str:
        end = self._starts[index + 1] if index + 1 < len(self._starts) else len(self._text)
        line = self._text[self._starts[index]:end]
        return _LINE_END.sub("", line) if index + 1 < len(self._starts) else line


class SourceFiles:
    """Lines of the source files that frames name, each file read once.

    :param folders: the user's own, in which a file is looked for first, by as much of the end of its name as fits.
    :param anywhere: whether files may be read at the very places that frames name, too.
    :param access: reads files with the rights of the target's user.
    :param since: tells from when on a file that was changed may not be what runs, in seconds since 1970; None if that
        is not known.
    :param what: ``process`` or ``core``.
    """

    def __init__(self, folders: Sequence[str] = (), anywhere: bool = True, access: SourceAccess | None = None,
                 since: Callable[[], float | None] = lambda: None, what: str = "process") -> None:
        self._folders = folders
        self._anywhere = anywhere
        self._access = access or SourceAccess()
        self._get_since = since
        self._since: float | None = None
        self._since_known = False
        self._what = what
        self._files: dict[str, SourceLines | None] = {}
        # by device and inode: many names may lead to one file
        self._contents: dict[tuple[int, int], SourceLines] = {}
        self._left = MAX_TOTAL
        self._missing: list[str] = []
        self._newer: list[str] = []
        self._not_read = False

    def __call__(self, path: str, line: int) -> str | None:
        """The text of a line, or None where there is no such file or line."""
        if path not in self._files:
            if len(self._files) >= MAX_FILES:
                self._not_read = True
                return None
            self._files[path] = self._load(path)
        lines = self._files[path]
        return lines[line - 1] if lines is not None and 0 < line <= len(lines) else None

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
        if self._not_read:
            notes.append(f"only {MAX_FILES:,} source files and {MAX_TOTAL >> 20} MiB of them are read: lines of others "
                         "are not shown")
        return notes

    def _load(self, path: str) -> SourceLines | None:
        if not path.endswith(_SUFFIXES):
            return None
        limit = min(MAX_SOURCE, self._left)
        for folder, name in self._places(path):
            found = (self._access.named(name, limit, self._contents) if folder is None else
                     self._access.below(folder, name, limit, self._contents))
            if found is None:
                continue
            if found.data is not None:
                if not limit:
                    self._not_read = True
                    return None
                self._left -= len(found.data)
                self._contents[found.identity] = SourceLines(found.data)
            if self._is_newer(found.changed):
                self._newer.append(path)
            return self._contents[found.identity]
        self._missing.append(path)
        return None

    def _places(self, path: str) -> Iterator[tuple[str | None, str]]:
        """Where a file may be, the likeliest place first: folder and name, or None and the name that the frame has."""
        parts = [part for part in path.split("/") if part not in ("", ".")]
        if ".." in parts:  # what is before it may be a link, and what is behind it must not lead out of a folder
            parts = parts[len(parts) - parts[::-1].index(".."):]
        for first in range(len(parts) - 1):
            yield from ((folder, "/".join(parts[first:])) for folder in self._folders)
        if self._anywhere and path.startswith("/"):
            yield None, path
        # a name without its folder may be that of another file: only where nothing better is found
        if parts and (parts[-1] not in _COMMON or path == parts[-1]):
            yield from ((folder, parts[-1]) for folder in self._folders)

    def _is_newer(self, changed: float) -> bool:
        if not self._since_known:
            self._since, self._since_known = self._get_since(), True
        return self._since is not None and changed > self._since + _TICK

