"""Errors: one line that says what to do next, and a failing exit status of GDB."""

from __future__ import annotations

import contextlib
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import combinations, differential, gdb_session, launcher, samples
from tests.support.gdb_session import Result
from tests.support.patience import patience
from tests.support.report import Report
from tests.support.samples import Sample

COMMANDS = (
    "gil-holder",
    "rwlock-owner",
    "rwlock-owner 0x1000",
    "lock-owner",
    "py-threads-locks",
    "py-deadlocks",
    "py-mixed-bt",
)
BAD_ADDRESSES = (
    "&not_a_lock",
    "&main",
    "0x10",
    "0",
    "-1",
    "0xffffffffffffff00",
    "nonesuch_symbol",
    "(((",
    "1 +",
    '"table"',
    "table_lock table_lock",
    "--nonesuch",
)
BAD_OPTIONS = (
    "gil-holder --nonesuch",
    "gil-holder 1",
    "py-deadlocks now",
    "py-threads-locks --stacks=sideways",
    "py-threads-locks --stacks",
    "py-threads-locks 999",
    "py-threads-locks --dot /nonexistent/folder/file.dot",
)


def check_failures(session: Result) -> list[str]:
    """Check that each command failed with one line, and return these lines."""
    assert session.status != 0
    assert "Traceback" not in session.stderr
    assert "Python Exception" not in session.stderr
    assert "Error occurred in Python" not in session.stderr
    names = [command.split()[0] for command in session.commands]
    lines = [line for line in session.stderr.splitlines() if line.partition(": ")[0] in names]
    assert [line.partition(": ")[0] for line in lines] == names
    for command, line in zip(session.commands, lines):
        assert re.fullmatch(r"[\w-]+: .+; .+", line), f"{command}: what happened; what to do next"
    assert set(session.outputs) == {""}, "a failure prints no part of an answer"
    return lines


def check_failure(session: Result) -> str:
    """Check that the only command failed with one line, and return that line."""
    (line,) = check_failures(session)
    return line


def test_commands_without_a_process_fail() -> None:
    session = gdb_session.batch([], [f"{command}{options}" for command in COMMANDS for options in ("", " --json")])
    assert session.stderr.splitlines() == check_failures(session)


def test_program_before_its_start_fails() -> None:
    session = gdb_session.batch([samples.build("abba")], COMMANDS)
    assert session.stderr.splitlines() == check_failures(session)


@pytest.mark.parametrize("variant", ["future", "random", "loop"])
def test_unknown_python_version_shows_the_native_part(variant: str, tmp_path: Path) -> None:
    """The native part of the report is shown, the rest is refused in one line, and no command is slow."""
    with samples.impostor(variant, tmp_path) as sample:
        session = differential.batch(sample, ["-p", str(sample.pid)], ["py-threads-locks --json"])
        verdict = gdb_session.batch(["-p", str(sample.pid)], ["py-deadlocks"], timeout=patience(60))
        holder = gdb_session.batch(["-p", str(sample.pid)], ["gil-holder"], timeout=patience(60))
    assert session.status == 1
    (line,) = session.error_lines("py-threads-locks")
    assert "Python" in line
    report = Report(session.document(), sample.truth)
    assert report.document["runtimes"] == []
    report.check_lock("mutex")
    report.check_lock("end")
    assert report.edges() == set(sample.truth.deadlock)
    assert verdict.status == 1
    assert "\nDEADLOCK: " in verdict.outputs[0]
    assert "Python" in check_failure(holder)


def test_uninitialised_python_fails(tmp_path: Path) -> None:
    with samples.impostor("zero", tmp_path) as sample:
        session = differential.batch(sample, ["-p", str(sample.pid)], ["py-threads-locks --json"])
    (runtime,) = session.document()["runtimes"]
    assert runtime["interpreters"] == []
    assert "not initialised" in str(session.document()["problems"])
    assert session.status == 0


def test_python_commands_without_python_fail(native: Sample) -> None:
    session = gdb_session.batch(["-p", str(native.pid)], ["gil-holder"])
    assert "python" in check_failure(session).lower()
    session = gdb_session.batch(["-p", str(native.pid)], ["py-threads-locks --json"])
    assert session.status == 0
    assert session.document()["runtimes"] == []
    assert len(session.document()["threads"]) == 3


@pytest.mark.parametrize("command", ["rwlock-owner", "lock-owner"])
def test_bad_address_fails(native: Sample, command: str) -> None:
    check_failures(gdb_session.batch(["-p", str(native.pid)], [f"{command} {bad}" for bad in BAD_ADDRESSES]))


def test_bad_options_fail(native: Sample) -> None:
    check_failures(gdb_session.batch(["-p", str(native.pid)], BAD_OPTIONS))


def test_gdb_continues_after_a_failed_command(native: Sample) -> None:
    """The exit status is that of the last command, so a script can continue after a failure."""
    session = gdb_session.batch(["-p", str(native.pid)], ["rwlock-owner 0x10", "py-deadlocks --json"])
    assert len(session.error_lines("rwlock-owner")) == 1
    assert session.status == 0
    assert len(session.document(1)["deadlocks"]) == 1


def test_core_without_executable_is_a_partial_report(kernel_core: tuple[Path, Sample]) -> None:
    """GDB then has no symbols and no libraries: the report shows what it can and names what is missing."""
    core, sample = kernel_core
    session = gdb_session.batch(["-c", core], ["py-threads-locks --json"])
    assert session.status == 1
    (line,) = session.error_lines("py-threads-locks")
    assert "executable" in line
    document = session.document()
    assert "executable" in str(document["problems"])
    assert {row["lwp"] for row in document["threads"]} == {thread.tid for thread in sample.truth.threads.values()}
    assert {row["syscall"] for row in document["threads"]} == {"futex"}
    assert document["deadlocks"] == []


def test_core_without_executable_has_no_verdict(kernel_core: tuple[Path, Sample]) -> None:
    """That nothing is wrong would be wrong: the locks could not be read."""
    core, _ = kernel_core
    session = gdb_session.batch(["-c", core], ["py-deadlocks"])
    assert session.status == 1
    assert "cannot be determined" in session.outputs[0]
    assert "no deadlock" not in session.outputs[0]


@pytest.mark.parametrize("seed", combinations.seeds(6))
def test_truncated_core_has_no_false_deadlock(kernel_core: tuple[Path, Sample], seed: int, tmp_path: Path) -> None:
    """A full disk leaves half a core: it gives a partial report or one line, but never a false deadlock."""
    core, sample = kernel_core
    whole = core.read_bytes()
    truncated = tmp_path / "core"
    truncated.write_bytes(whole[: random.Random(seed).randrange(4096, len(whole))])
    session = gdb_session.batch([sample.executable, truncated], ["py-threads-locks --json"])
    if session.status != 0:
        check_failure(session)
        return
    document = session.document()
    report = Report(document, sample.truth)
    assert document["problems"] or report.edges() == set(sample.truth.deadlock)
    assert report.edges() <= set(sample.truth.deadlock)


def test_gil_holder_of_a_truncated_core_fails(kernel_core: tuple[Path, Sample], tmp_path: Path) -> None:
    """The list of loaded libraries is missing, so it is unknown whether the process has a Python."""
    core, sample = kernel_core
    truncated = tmp_path / "core"
    truncated.write_bytes(core.read_bytes()[: core.stat().st_size // 2])
    session = gdb_session.batch([sample.executable, truncated], ["gil-holder"])
    assert session.status == 1
    (line,) = session.error_lines("gil-holder")
    assert "the core is truncated" in line
    assert "no Python was found" not in line


def test_file_that_is_not_a_core_fails(tmp_path: Path) -> None:
    junk = tmp_path / "core"
    junk.write_bytes(random.Random(1).randbytes(65536))
    check_failure(gdb_session.batch(["-c", junk], ["py-deadlocks"]))


@contextlib.contextmanager
def hanging_in(library: Path) -> Iterator[int]:
    """A process that waits in a function of a library; its PID."""
    source = library.parent / "hang.c"
    source.write_text("#include <unistd.h>\nvoid hang(void) { for (;;) pause(); }\n")
    built = library.parent / "built.so"  # gcc cannot write to all names
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", built, source], check=True)
    built.rename(library)
    program = f"import ctypes; library = ctypes.CDLL({str(library)!r}); print('ready', flush=True); library.hang()"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            samples.wait_until(lambda: " 34 " in f" {Path(f'/proc/{process.pid}/syscall').read_text()}", "pause")
            yield process.pid
        finally:
            process.kill()


def test_library_with_a_newline_in_its_name_has_that_name(tmp_path: Path) -> None:
    """The kernel escapes it, and GDB prints it as it is."""
    with hanging_in(tmp_path / "lib\nodd.so") as pid:
        for option in (["--no-gdb"], ["--gdb", gdb_session.executable()]):
            seen = launcher.launch_by(launcher.command("report", str(pid), *option, "--json", gdb=None))
            modules = {frame.get("module") for frame in seen.document()["threads"][0]["stack"]}
            assert "lib\nodd.so" in modules, option
            assert not any(each.startswith("lib\\") or each == "lib" for each in modules if each), option


@pytest.mark.parametrize("forged", [
    "0x0000000000001000 - 0x00007fffffffffff is .text in ", "0x0000000000001000 - 0x00007fffffffffff is .text",
    "`/etc/hostname', file type elf64-x86-64."])
def test_name_of_a_library_cannot_forge_a_line_of_gdb(tmp_path: Path, forged: str) -> None:
    """Frames were attributed to the library that the name named."""
    folder = tmp_path / f"odd\nLocal core dump file:\n\t{forged}\nLocal exec file:\n\t{forged}"
    folder.mkdir(parents=True)
    core = tmp_path / "core"
    with hanging_in(folder / "libcuda.so") as pid:
        subprocess.run(["gdb", "-nx", "-batch", "-p", str(pid), "-ex", f"gcore {core}"], check=True,
                       capture_output=True)
        for target in (str(pid), str(core)):
            seen = launcher.launch_by(launcher.command("report", target, "--gdb", gdb_session.executable(), "--json",
                                                       gdb=None))
            modules = [frame["module"] for frame in seen.document()["threads"][0]["stack"] if frame.get("module")]
            assert modules[0].startswith("libc.so"), target
            is_live = target == str(pid)
            assert seen.document()["target"]["kind"] == ("live" if is_live else "core")
            # the headings in the name hide libraries of a core from gdbext, but no frame gets a wrong one
            assert modules.count("libcuda.so") == 1 if is_live else "libcuda.so" not in modules, target


def test_core_of_another_processor_is_named_by_its_header(tmp_path: Path) -> None:
    """A GDB for x86-64 calls the processor of such a core i386, its default."""
    core = tmp_path / "core"
    with hanging_in(tmp_path / "libodd.so") as pid:
        subprocess.run(["gdb", "-nx", "-batch", "-p", str(pid), "-ex", f"gcore {core}"], check=True,
                       capture_output=True)
    with core.open("r+b") as file:
        file.seek(18)
        file.write(b"\xb7\0")  # e_machine: EM_AARCH64
    session = gdb_session.batch(["-c", str(core)], ["py-deadlocks"])
    assert check_failures(session) == [
        "py-deadlocks: the core's processor is aarch64, which this GDB does not know; "
        "use gdb-multiarch, or `gdbext report CORE`, which needs no GDB"]
    seen = launcher.launch_by(launcher.command("report", str(core), "--gdb", gdb_session.executable(), gdb=None))
    assert (seen.status, seen.stdout) == (3, "")
    assert "the core's processor is aarch64, which this GDB does not know" in seen.stderr
