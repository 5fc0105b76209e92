"""The table of mounts of a process.

Source: Linux 6.1 Documentation/filesystems/proc.rst, 3.5 (mountinfo).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gdbext.inferior.proc.files import read_lines
from gdbext.record import record

_OCTAL = re.compile(r"\\([0-7]{3})")


@record
class Mount:
    """A mount: `device` as in the table of file locks (``fe:01``), `root` the mounted folder of the file system.

    `source` is the device, server or name that was mounted. `options` are those of the file system.
    """

    number: int
    device: str
    root: str
    folder: str
    file_system: str
    source: str
    options: tuple[str, ...]

    @property
    def is_fuse(self) -> bool:
        """Whether a process serves the file system: its kind is ``fuse``, ``fuseblk`` or ``fuse.sshfs``."""
        return self.file_system.startswith("fuse") and self.file_system != "fusectl"


def iter_mounts(process: int | str, root: str = "/proc") -> Iterator[Mount]:
    """Iterate over the mounts in a process's root directory; the kernel lists no others."""
    for line in read_lines(f"{root}/{process}/mountinfo"):
        head, _, tail = line.partition(" - ")
        try:
            number, _, device, top, folder = head.split(" ")[:5]
            major, minor = device.split(":")
            kind, source, options = tail.split(" ")
            # the kernel escapes spaces and the like
            yield Mount(int(number), f"{int(major):02x}:{int(minor):02x}", top, _unescaped(folder), kind,
                        _unescaped(source), tuple(options.split(",")))
        except ValueError:
            continue


def _unescaped(text: str) -> str:
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), text)


def mount_of(path: str, mounts: Iterable[Mount]) -> Mount | None:
    """The mount that an absolute path leads to, without symbolic links; the last one of several on a folder."""
    found: Mount | None = None
    for mount in mounts:
        is_above = mount.folder == "/" or path == mount.folder or path.startswith(mount.folder + "/")
        if is_above and (found is None or len(mount.folder) >= len(found.folder)):
            found = mount
    return found
