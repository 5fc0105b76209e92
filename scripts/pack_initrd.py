"""Writes a folder as an initial RAM disk (cpio, format newc) to standard output: every file is root's.

Source: Linux 6.1 Documentation/driver-api/early-userspace/buffer-format.rst.
"""

from __future__ import annotations

import os
import stat
import sys
from typing import BinaryIO


def write_entry(out: BinaryIO, name: str, mode: int, data: bytes, number: int) -> None:
    """Write one file, folder or link; the contents of a link are its target."""
    encoded = os.fsencode(name) + b"\0"
    fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(encoded), 0)
    head = b"070701" + b"".join(b"%08x" % field for field in fields) + encoded
    out.write(head + bytes(-len(head) % 4) + data + bytes(-len(data) % 4))


def pack(folder: str, out: BinaryIO) -> None:
    """Write a folder with everything in it."""
    number = 0
    for parent, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted((*folders, *files)):
            path = os.path.join(parent, name)
            status = os.lstat(path)
            if stat.S_ISLNK(status.st_mode):
                data = os.fsencode(os.readlink(path))
            elif stat.S_ISREG(status.st_mode):
                with open(path, "rb") as file:
                    data = file.read()
            elif stat.S_ISDIR(status.st_mode):
                data = b""
            else:
                continue
            number += 1
            write_entry(out, os.path.relpath(path, folder), status.st_mode, data, number)
    write_entry(out, "TRAILER!!!", 0, b"", 0)


if __name__ == "__main__":
    pack(sys.argv[1], sys.stdout.buffer)
