"""What a process runs on: its distribution of Linux, and the packages of Python files, by their ``dist-info`` folders.

Sources: os-release(5); "Recording installed projects" of the Python packaging specifications.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable

from gdbext.inferior.proc.files import MOST_CHARACTERS

#: The folder of packages and the name of one in the path of a file.
_PACKAGE = re.compile(r"(/.*/(?:site|dist)-packages)/([^/]+)")
_INFO = re.compile(r"(.+?)-([^-]+)(?:-py[\d.]+)?\.(?:dist|egg)-info")
_NAME = re.compile(r'^PRETTY_NAME="?([^"\n]*)', re.MULTILINE)
#: How many packages are named, how many are installed in one folder, and how much is read of a file.
_MOST_NAMED, _MOST_INSTALLED, _MOST_BYTES = 40, 5_000, 1 << 16


def distribution(root: str) -> str | None:
    """The name of a distribution with its version; None if it is not known.

    :param root: the folder that contains its files.
    """
    for name in ("etc/os-release", "usr/lib/os-release"):
        found = _NAME.search(_read(f"{root}/{name}"))
        if found:
            return found[1][:MOST_CHARACTERS]
    return None


def packages(files: Iterable[str], root: str, before: float | None = None) -> list[tuple[str, str]]:
    """The names and versions of the installed packages that contain some files, in the order of the files.

    :param root: the folder that contains the process's files.
    :param before: packages that were installed later, in seconds since 1970, do not count.
    """
    installed: dict[str, dict[str, str]] = {}
    found: dict[tuple[str, str], None] = {}
    for folder, module in dict.fromkeys(match.groups() for match in map(_PACKAGE.match, files) if match):
        if folder not in installed:
            installed[folder] = _installed(root + folder)
        info = _info_of(root + folder, module.partition(".")[0], installed[folder])
        match = _INFO.fullmatch(info or "")
        if info is not None and match and (before is None or _changed(f"{root}{folder}/{info}") <= before):
            found[match[1].replace("_", "-"), match[2]] = None
    return list(found)[:_MOST_NAMED]


def _installed(folder: str) -> dict[str, str]:
    """The names of ``dist-info`` folders by the normalised names of packages."""
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry, _ in zip(entries, range(_MOST_INSTALLED))]
    except OSError:
        return {}
    return {_normalised(match[1]): match[0] for match in map(_INFO.fullmatch, names) if match}


def _info_of(folder: str, module: str, installed: dict[str, str]) -> str | None:
    """The ``dist-info`` folder of the package that contains a module; many modules have the name of their package."""
    own = installed.get(_normalised(module))
    if own is not None:
        return own
    having = [info for info in installed.values()
              if module in _read(f"{folder}/{info}/top_level.txt").split()
              or re.search(rf"^{re.escape(module)}[/.]", _read(f"{folder}/{info}/RECORD"), re.MULTILINE)]
    return having[0] if len(having) == 1 else None


def _normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _changed(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return float("inf")


def _read(path: str) -> str:
    try:
        # opening a FIFO would block
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return (os.read(descriptor, _MOST_BYTES) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b"").decode(
            "utf-8", "replace")
    except OSError:
        return ""
    finally:
        os.close(descriptor)
