"""Whether a process or a core belongs to another user."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gdbext.launcher.snapshots.rights import core_is_anothers, process_is_anothers, why_not_traced
from tests.support.fake_core import core, process_information

NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root changes users")


def test_own_process_is_not_anothers() -> None:
    assert not process_is_anothers(os.getpid())


@as_root
@pytest.mark.parametrize("ids", [(NOBODY, NOBODY, NOBODY), (0, NOBODY, 0), (NOBODY, 0, 0)])
def test_process_with_any_other_user_id_is_anothers(ids: tuple[int, int, int]) -> None:
    code = f"import os, sys; os.setresuid{ids}; print(flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert process_is_anothers(process.pid)
        process.communicate()


@as_root
@pytest.mark.parametrize(("ids", "why"), [
    ((NOBODY, 0, 0), "you started it, but it runs a set-user-ID program with the rights of user 0"),
    ((NOBODY, NOBODY, 0), "you started it, but it runs a set-user-ID program with the rights of user 0"),
    ((0, 0, 0), f"it belongs to user 0, you are user {NOBODY}")])
def test_refusal_names_the_user_whose_rights_a_process_has(ids: tuple[int, int, int], why: str,
                                                          monkeypatch: pytest.MonkeyPatch) -> None:
    code = f"import os, sys; os.setresuid{ids}; print(flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        monkeypatch.setattr(os, "geteuid", lambda: NOBODY)
        assert why_not_traced(process.pid)[0] == f"process {process.pid} may not be traced: {why}"
        monkeypatch.undo()
        process.communicate()


@as_root
@pytest.mark.parametrize(("owner", "user", "expected"), [
    (0, 0, False), (0, None, False), (NOBODY, 0, True), (0, NOBODY, True), (NOBODY, None, True)])
def test_core_is_anothers_by_its_file_or_its_process(owner: int, user: int | None, expected: bool,
                                                     tmp_path: Path) -> None:
    path = tmp_path / "core"
    path.write_bytes(core([], process_information(user, user) if user is not None else b""))
    os.chown(path, owner, -1)
    assert core_is_anothers(str(path)) == expected


def test_file_that_is_no_core_is_not_anothers(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no core")
    assert not core_is_anothers(str(tmp_path / "text"))
