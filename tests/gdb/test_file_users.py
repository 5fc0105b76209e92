"""Threads that use the descriptor through which a file is locked are candidates; a core does not show descriptors."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support import cores, differential, interpreters, samples
from tests.support.report import Report

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can chroot")


@pytest.mark.parametrize(("name", "arguments"), [
    ("3.11", ()), ("3.13-stripped", ()), ("3.13t", ()),
    # the kernel then does not list the mount that has the files
    pytest.param("3.12", ("chroot",), marks=needs_root, id="3.12-chroot")])
def test_file_users(name: str, arguments: Sequence[str], tmp_path: Path) -> None:
    """By a `with` block of the file, by an attribute of the block's manager, and by a variable with the descriptor."""
    python, symbols = interpreters.use(name)
    with samples.running([python, samples.SOURCES / "file_users.py", *arguments], tmp_path) as sample:
        session = differential.batch(sample, ["-p", str(sample.pid)], [differential.COMMAND], symbols=symbols,
                                     directory=sample.directory)
        report = Report(session.document(0), sample.truth)
        assert report.document["problems"] == []
        for lock in sample.truth.locks:
            report.check_lock(lock)
        for role in sample.truth.threads:
            report.check_thread(role)
        assert report.edges() == set()
        if name == "3.11":
            core = cores.gdb_core(sample)
            locks = differential.batch(sample, [sample.executable, core], [differential.COMMAND], symbols=symbols,
                                       directory=sample.directory).document(0)["locks"]
            found = [lock for lock in locks if lock["kind"] == "file-lock"]
            assert len(found) == len(sample.truth.locks)
            assert all(lock["holders"] == lock["candidates"] == [] for lock in found)
