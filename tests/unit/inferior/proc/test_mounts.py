"""The table of mounts, from a fake directory tree."""

from __future__ import annotations

from pathlib import Path

from gdbext.inferior.proc.mounts import Mount, iter_mounts, mount_of
from tests.support.fake_proc import FakeProc


def test_mounts_have_devices_folders_and_options(tmp_path: Path) -> None:
    fake = FakeProc(tmp_path)
    fake.write("7/mountinfo", "22 1 254:16 /srv /a\\040b rw,nosuid shared:1 master:2 - ext4 /dev/vda rw,data=ordered\n"
                              "23 1 0:5 / /proc rw - proc proc rw\n24 1 x:5 / /bad rw - proc proc rw\n25 1 0:5 / /cut")
    assert list(iter_mounts(7, str(tmp_path))) == [
        Mount(22, "fe:10", "/srv", "/a b", "ext4", "/dev/vda", ("rw", "data=ordered")),
        Mount(23, "00:05", "/", "/proc", "proc", "proc", ("rw",))]
    assert list(iter_mounts(8, str(tmp_path))) == []


def test_mount_of_a_path() -> None:
    folders = ("/", "/mnt", "/mnt/a b", "/mnt")
    mounts = [Mount(i, "00:01", "/", folder, "ext4", "/dev/vda", ()) for i, folder in enumerate(folders)]
    for path, number in (("/x", 0), ("/mnt", 3), ("/mnt/c", 3), ("/mntx", 0), ("/mnt/a b/c", 2)):
        found = mount_of(path, mounts)
        assert found is not None
        assert found.number == number
    assert mount_of("/x", []) is None
