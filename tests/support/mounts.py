"""Requirements of tests on the mounts of this machine."""

from __future__ import annotations

from pathlib import Path

import pytest


def is_mount_point(folder: str) -> bool:
    """Whether the kernel lists a mount at this path."""
    return folder in [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]


#: For tests that need the file system of `/` in the list of mounts, or whose target has a mount namespace of its own.
needs_mounted_root = pytest.mark.skipif(
    not is_mount_point("/"),
    reason="/ is a chroot and not a mount point: the kernel does not list its file system, and a process in another "
    "mount namespace has other names for its files")
