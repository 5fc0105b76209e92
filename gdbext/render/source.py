"""Source files: which files may be read, and their lines as Python reads them.

The target may have forged a file's name. So a file is read only if it is a regular file with a source file's suffix,
the target's own user may read it, and the user's settings allow its location. Its content is only shown.
"""

from __future__ import annotations

import codecs
import functools
import io
import posixpath
import re
import tokenize
from array import array
from collections.abc import Callable, Iterator, Sequence

from gdbext.render.escape import printable
from gdbext.render.source_access import Contents, SourceAccess

#: Limits: bytes of one file, bytes of all files of a report, and the number of files searched for.
MAX_SOURCE, MAX_TOTAL, MAX_FILES = 8 << 20, 32 << 20, 2_000
#: Suffixes of source files; a code object's file name may be any text.
_SUFFIXES = (".py", ".pyw")
#: File names that occur in every package, and so do not identify a file.
_COMMON = ("__init__.py", "__main__.py")
#: How many newer files get a note of their own.
_MANY = 10
#: The maximum difference between clocks of files and processes, in seconds: the kernel counts both in ticks.
_TICK = 0.02

#: Allowed encodings of source. Some Python codecs are not text encodings, or take very long on some input.
_ENCODING = re.compile(
    r"^(utf-8|utf-8-sig|ascii|iso8859-\d+|cp\d+|koi8-[rtu]|mac-\w+|gb\w+|big5\w*|euc_\w+|shift_jis\w*)$")
_LINE_END = re.compile("\r\n|\r|\n")


class SourceLines:
    """The lines of a Python source file in its declared encoding (PEP 263), without line ends.

    Stores the text and the offsets of lines only: a file may have millions of empty lines.
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
    """Lines of the source files that frames name; each file is read once.

    :param folders: the user's source folders, searched first for the longest matching end of a file's path.
    :param anywhere: whether files may also be read at the paths that frames name.
    :param access: reads files with the rights of the target's user.
    :param since: returns the start time of the target in seconds since 1970, or None; a file changed later may differ
        from the running code.
    :param what: ``process`` or ``core``.
    :param directory: returns the working directory of the target, or None; relative paths of frames begin there.
    """

    def __init__(self, folders: Sequence[str] = (), anywhere: bool = True, access: SourceAccess | None = None,
                 since: Callable[[], float | None] = lambda: None, what: str = "process",
                 directory: Callable[[], str | None] = lambda: None) -> None:
        self._folders = folders
        self._anywhere = anywhere
        self._access = access or SourceAccess()
        self._get_since = functools.cache(since)
        self._what = what
        self._directory = functools.cache(directory)
        self._files: dict[str, SourceLines | None] = {}
        self._own_paths: dict[str, str | None] = {}
        # by device and inode: a file may have many names
        self._contents: dict[tuple[int, int], SourceLines] = {}
        self._left = MAX_TOTAL
        self._missing: list[str] = []
        self._newer: list[str] = []
        self._not_read = False

    def __call__(self, path: str, line: int) -> str | None:
        """The text of a line, or None if there is no such file or line."""
        if path not in self._files:
            if len(self._files) >= MAX_FILES:
                self._not_read = True
                return None
            self._files[path] = self._load(path)
        lines = self._files[path]
        return lines[line - 1] if lines is not None and 0 < line <= len(lines) else None

    def own_path(self, path: str) -> str | None:
        """The path in the debugger's own file system of the file that `__call__` reads, or None if it reads none."""
        if path not in self._own_paths:
            if len(self._own_paths) >= MAX_FILES:
                return None
            found = self._find(path, 0) if path.endswith(_SUFFIXES) else None
            self._own_paths[path] = None if found is None else self._own_path(*found[1:])
        return self._own_paths[path]

    def _own_path(self, folder: str | None, name: str) -> str | None:
        return self._access.own_path(name) if folder is None else f"{folder}/{name}"

    def notes(self) -> list[str]:
        """Notes about the requested files, one line each."""
        notes = [f"{printable(path, 300)} is newer than the {self._what}: its lines may differ from the running code"
                 for path in self._newer[:_MANY]]
        if len(self._newer) > _MANY:
            notes.append(f"{len(self._newer) - _MANY} more source files are newer than the {self._what}")
        if self._missing:
            files = "1 file" if len(self._missing) == 1 else f"{len(self._missing)} files"
            notes.append(f"no source for {files}, such as {printable(self._missing[0], 300)}; "
                         "`help set gdbext source-path` shows where gdbext searches")
        if self._not_read:
            notes.append(f"a limit ({MAX_FILES:,} source files, {MAX_TOTAL >> 20} MiB) is reached: lines of other "
                         "files are not shown")
        return notes

    def _load(self, path: str) -> SourceLines | None:
        if not path.endswith(_SUFFIXES):
            return None
        limit = min(MAX_SOURCE, self._left)
        place = self._find(path, limit)
        if place is None:
            self._missing.append(path)
            return None
        found = place[0]
        if found.data is not None:
            if not limit:
                self._not_read = True
                return None
            self._left -= len(found.data)
            self._contents[found.identity] = SourceLines(found.data)
        if self._is_newer(found.changed):
            self._newer.append(path)
        return self._contents[found.identity]

    def _find(self, path: str, limit: int) -> tuple[Contents, str | None, str] | None:
        """Find a file in its possible places; see `_places` for the last two values."""
        for folder, name in self._places(path):
            found = (self._access.named(name, limit, self._contents) if folder is None else
                     self._access.below(folder, name, limit, self._contents))
            if found is not None:
                return found, folder, name
        return None

    def _places(self, path: str) -> Iterator[tuple[str | None, str]]:
        """Possible places of a file, the likeliest first: folder and name, or None and the frame's own path."""
        parts = [part for part in path.split("/") if part not in ("", ".")]
        if ".." in parts:  # a folder before ".." may be a link, and ".." must not lead out of `folders`
            parts = parts[len(parts) - parts[::-1].index(".."):]
        for first in range(len(parts) - 1):
            yield from ((folder, "/".join(parts[first:])) for folder in self._folders)
        if self._anywhere and path.startswith("/"):
            yield None, path
        elif self._anywhere and (directory := self._directory()) is not None and directory.startswith("/"):
            yield None, posixpath.normpath(f"{directory}/{path}")
        # a bare name may belong to another file, so it is tried last
        if parts and (parts[-1] not in _COMMON or path == parts[-1]):
            yield from ((folder, parts[-1]) for folder in self._folders)

    def _is_newer(self, changed: float) -> bool:
        since = self._get_since()
        return since is not None and changed > since + _TICK

