"""The table of mounts of a process.

Source: Linux 6.1 Documentation/filesystems/proc.rst, 3.5 (mountinfo).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gdbext.inferior.proc.files import read_lines
from gdbext.record import record

_OCTAL = re.compile(r"\\([0-7]{3})")


@record
class Mount:
    """A mount: `device` as in the table of file locks (``fe:01``), `root` the mounted folder of the file system.

    `options` are those of the file system.
    """

    number: int
    device: str
    root: str
    folder: str
    file_system: str
    options: tuple[str, ...]


def iter_mounts(process: int | str, root: str = "/proc") -> Iterator[Mount]:
    """Iterate over the mounts in a process's root directory; the kernel lists no others."""
    for line in read_lines(f"{root}/{process}/mountinfo"):
        head, _, tail = line.partition(" - ")
        try:
            number, _, device, top, folder = head.split(" ")[:5]
            major, minor = device.split(":")
            kind, *_, options = tail.split(" ")
            # the kernel escapes spaces and the like
            yield Mount(int(number), f"{int(major):02x}:{int(minor):02x}", top,
                        _OCTAL.sub(lambda match: chr(int(match[1], 8)), folder), kind, tuple(options.split(",")))
        except ValueError:
            continue
