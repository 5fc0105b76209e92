from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from gdbext.launcher import kernel_cores


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(kernel_cores, "_USES_PID", tmp_path / "uses_pid")
    monkeypatch.setattr(kernel_cores, "_PATTERN", tmp_path / "pattern")
    monkeypatch.setattr(kernel_cores, "_PATIENCE", 0.0)
    monkeypatch.setattr(kernel_cores, "_in_namespace", lambda: False)
    (tmp_path / "uses_pid").write_text("0\n")
    return tmp_path


def core(folder: Path, name: str, time: float = 2000) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"core")
    os.utime(path, (time, time))
    return path


@pytest.mark.parametrize(("pattern", "name"), [
    ("core", "core"), ("core.%p", "core.41"), ("/cores/core.%e.%p.%t", "cores/core.server.41.1700000000"),
    ("%E-%P", "!usr!bin!server-41"), ("100%%-%p", "100%-41"), ("core[%p]", "core[41]")])
def test_core_is_found_by_the_pattern(folder: Path, pattern: str, name: str) -> None:
    (folder / "pattern").write_text(pattern.replace("/cores", f"{folder}/cores") + "\n")
    made = core(folder, name)
    core(folder, name.replace("41", "42") + ".other")
    assert kernel_cores.find_core(41, str(folder), 1999) == made
    assert kernel_cores.find_core(41, str(folder), 3000) is None, "it is of an earlier process"


def test_core_has_the_pid_at_its_end(folder: Path) -> None:
    (folder / "pattern").write_text("core")
    (folder / "uses_pid").write_text("1")
    made = core(folder, "core.41")
    assert kernel_cores.find_core(41, str(folder), 0) == made


@pytest.mark.parametrize("name", ["core.server.1000.4f2a.41.1700000000000000.zst", "core.server.1000.4f2a.41.17.lz4"])
def test_core_that_systemd_keeps(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    (folder / "pattern").write_text("|/usr/lib/systemd/systemd-coredump %P %u %g %s %t %c %h")
    monkeypatch.setattr(kernel_cores, "_KEPT", {"systemd-coredump": f"{folder}/kept/core.*.{{pid}}.*"})
    made = core(folder, f"kept/{name}")
    assert kernel_cores.find_core(41, str(folder), 0) == made
    assert kernel_cores.find_core(4, str(folder), 0) is None


@pytest.mark.parametrize(("pattern", "limits", "said"), [
    ("core", (0, -1), "next time: ulimit -c unlimited"), ("core", (0, 0), "docker run --ulimit core=-1"),
    ("", (-1, -1), "kernel.core_pattern is empty"), ("core.%p", (-1, -1), "no core was found by kernel.core_pattern"),
    ("|/usr/lib/systemd/systemd-coredump %P", (0, 0), "coredumpctl list"),
    ("|/usr/share/apport/apport %p", (0, 0), "/var/crash"),
    ("|/none/such %p", (0, 0), "that program does not exist")])
def test_why_there_is_no_core(folder: Path, monkeypatch: pytest.MonkeyPatch, pattern: str, limits: tuple[int, int],
                              said: str) -> None:
    (folder / "pattern").write_text(pattern)
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(kernel_cores, "container_kind", lambda: None)
    assert said in kernel_cores.why_no_core()


def test_program_that_keeps_cores_may_be_outside_of_the_container(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_cores, "container_kind", lambda: "Docker")
    assert "that program runs outside of this container" in kernel_cores.who_keeps("|/none/such %p")
