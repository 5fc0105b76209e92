"""Processes and their threads, on a /proc of files."""

from __future__ import annotations

from pathlib import Path

from gdbext.launcher.processes.tree import mappings, process_tree, thread_states
from tests.support.fake_host import Host
from tests.support.fake_proc import FakeProc


def test_tree_has_descendants_parents_first(tmp_path: Path) -> None:
    fake = FakeProc(tmp_path)
    for pid, parent in ((300, 100), (200, 100), (250, 200), (400, 1)):
        fake.process(pid, "a (name) R 7", parent)
    assert process_tree(100, str(tmp_path)) == [(100, 1), (200, 100), (300, 100), (250, 200)]
    fake.write("200/stat", "200 (x) Z 100 1 1\n")
    assert [pid for pid, _ in process_tree(100, str(tmp_path))] == [100, 300]


def test_thread_states_have_calls_and_switches(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.process(100, "read", [3, 0x7F00, 16])
    host.process(100, None, tid=101)
    found = thread_states(100, str(host.root))
    assert found is not None
    assert (found[100].call, found[100].arguments[:3], found[100].stack, found[100].switches) == (
        0, (3, 0x7F00, 16), 0x7FFC0000, 6)
    assert found[101].call is None
    assert thread_states(999, str(host.root)) == {}


def test_mappings_have_files_and_offsets(tmp_path: Path) -> None:
    fake = FakeProc(tmp_path)
    fake.write("100/maps", "00010000-00011000 rw-s 00000200 00:01 77   /dev/zero (deleted)\nnonsense\n")
    (region,) = mappings(100, str(tmp_path)) or ()
    assert (region.start, region.end, region.offset, region.file) == (0x10000, 0x11000, 0x200, ("00:01", 77))
    assert (region.shared, region.path) == (True, "/dev/zero (deleted)")
    assert mappings(999, str(tmp_path)) is None
