"""`gdbext run` on real programs."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support import cores, samples
from tests.support.interpreters import CHECKOUT
from tests.support.launcher import environment
from tests.support.patience import patience

HANGS = [sys.executable, str(CHECKOUT / "tests" / "samples" / "hangs.py")]
PATIENCE = patience(60)


def start(*arguments: str, output: Path) -> subprocess.Popen[bytes]:
    with open(output, "wb") as file:
        return subprocess.Popen([sys.executable, "-m", "gdbext", "run", *arguments], env=environment(), stdout=file,
                                stderr=file, stdin=subprocess.DEVNULL, start_new_session=True)


def run(*arguments: str) -> tuple[int, str, str]:
    done = subprocess.run([sys.executable, "-m", "gdbext", "run", *arguments], env=environment(), capture_output=True,
                          text=True, stdin=subprocess.DEVNULL, timeout=PATIENCE, check=False)
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout, done.stderr


def wait_for(text: str, output: Path) -> str:
    end = time.monotonic() + PATIENCE
    while text not in output.read_text():
        assert time.monotonic() < end, output.read_text()
        time.sleep(0.05)
    return output.read_text()


def pid_in(output: Path) -> int:
    """The PID that hangs.py prints."""
    wait_for("\n", output)
    return int(output.read_text().split()[0])


def has_ended(pid: int) -> bool:
    end = time.monotonic() + patience(20)
    while time.monotonic() < end:
        try:
            if samples.thread_state(pid) == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize(("command", "status"), [
    (["sh", "-c", "echo out; exit 7"], 7), (["sh", "-c", "echo out; kill -KILL $$"], 137),
    (["echo", "out"], 0)])
def test_status_and_output_are_those_of_the_program(command: list[str], status: int) -> None:
    *ended, errors = run("--after", "1h", "--", *command)
    assert ended == [status, "out\n"]
    assert ("was ended by SIGKILL" in errors) if status == 128 + signal.SIGKILL else errors == ""


def test_program_that_does_not_exist_has_status_127() -> None:
    assert run("/nonexistent/program")[0] == 127
    assert run("/etc/passwd")[0] == 126


def test_no_program_is_bad_usage() -> None:
    status, _, errors = run("--after", "1m")
    assert status == 2
    assert "there is no program to run" in errors


def test_report_after_a_time_and_end_of_the_tree(tmp_path: Path) -> None:
    status, output, errors = run("--after", "1.5", "--exit", "--html", str(tmp_path), "--", *HANGS, "orphaned")
    assert status == 124
    assert "has run for 1.5 s\n" in errors
    assert "LOCK WITHOUT OWNER" in errors
    assert "waits for the end of process" in errors
    assert has_ended(int(output))  # the child of the program
    (page,) = tmp_path.iterdir()
    assert "LOCK WITHOUT OWNER" in page.read_text()


def test_report_when_nothing_moves_and_the_program_goes_on(tmp_path: Path) -> None:
    output = tmp_path / "output"
    process = start("--idle", "1", "--", *HANGS, "deadlock", output=output)
    try:
        text = wait_for("program start", output)
        assert "has done nothing for 1 s\n" in text
        assert "DEADLOCK: 2 threads wait for each other" in text
        pid = pid_in(output)
        assert process.poll() is None
        # SIGTERM reaches the program
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 128 + signal.SIGTERM
        assert has_ended(pid)
    finally:
        process.kill()
        process.wait()


def test_program_that_works_is_not_idle() -> None:
    script = "end=$(($(date +%s) + 3)); while [ $(date +%s) -lt $end ]; do :; done"
    assert run("--idle", "1", "--exit", "--", "sh", "-c", script) == (0, "", "")


def test_report_on_a_signal_each_time(tmp_path: Path) -> None:
    output = tmp_path / "output"
    process = start("--on-signal", "USR1", "--", *HANGS, "deadlock", output=output)
    try:
        pid = pid_in(output)
        for count in (1, 2):
            process.send_signal(signal.SIGUSR1)
            end = time.monotonic() + PATIENCE
            while output.read_text().count("has received SIGUSR1") < count:
                assert time.monotonic() < end
                time.sleep(0.05)
        # as Ctrl-C at a terminal, which signals all of its processes
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(PATIENCE) in (1, 128 + signal.SIGINT)
        assert has_ended(pid)
    finally:
        process.kill()
        process.wait()


def test_program_ends_with_a_launcher_that_is_killed(tmp_path: Path) -> None:
    output = tmp_path / "output"
    process = start("--after", "1h", "--", *HANGS, "deadlock", output=output)
    pid = pid_in(output)
    process.kill()
    process.wait()
    assert has_ended(pid)


def test_launcher_does_not_touch_a_program_that_it_waits_for(tmp_path: Path) -> None:
    """No tracer, and next to no time of its own."""
    output = tmp_path / "output"
    process = start("--after", "1h", "--idle", "1h", "--", *HANGS, "deadlock", output=output)
    try:
        pid = pid_in(output)
        time.sleep(0.5)
        before = _ticks(process.pid)
        time.sleep(2)
        assert _ticks(process.pid) - before <= 2  # of 200
        assert "TracerPid:\t0\n" in Path(f"/proc/{pid}/status").read_text()
    finally:
        process.terminate()
        process.wait()


def _ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


# -- programs that die of a signal ---------------------------------------------------------------------------------

ABORTS = "import os\n\ndef give_up():\n    os.abort()\n\ngive_up()\n"


def run_in(folder: Path, limit: str, code: str) -> subprocess.CompletedProcess[str]:
    """Run Python code in a folder, with a limit on the size of cores."""
    (folder / "dies.py").write_text(code)
    command = f"ulimit -S -c {limit}; exec {sys.executable} -m gdbext run -- {sys.executable} dies.py"
    return subprocess.run(["sh", "-c", command], cwd=folder, env=environment(), capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=PATIENCE, check=False)


def test_program_that_dies_is_explained_by_its_core(tmp_path: Path) -> None:
    cores.prefix()
    done = run_in(tmp_path, "$(ulimit -H -c)", ABORTS)
    if not list(tmp_path.glob("core*")):
        pytest.skip("the kernel wrote no core: the hard limit on the size of cores may be too low")
    assert done.returncode == 128 + signal.SIGABRT
    assert "was ended by SIGABRT\ngdbext run: its core is /" in done.stderr
    assert "CRASH: SIGABRT" in done.stderr
    assert re.search(r"in .*give_up at \S*dies.py:4", done.stderr)
    assert "Traceback" not in done.stderr


def test_program_that_dies_without_a_core_says_how_to_get_one(tmp_path: Path) -> None:
    cores.prefix()
    (tmp_path / "core").write_bytes(b"of long ago")
    os.utime(tmp_path / "core", (0, 0))
    done = run_in(tmp_path, "0", ABORTS)
    assert done.returncode == 128 + signal.SIGABRT
    assert "the limit on the size of cores is 0, so there is no core; next time: ulimit -c unlimited" in done.stderr
    assert "CRASH" not in done.stderr


def test_program_that_is_killed_is_not_a_matter_of_memory(tmp_path: Path) -> None:
    done = run_in(tmp_path, "0", "import os\nos.kill(os.getpid(), 9)\n")
    assert done.returncode == 128 + signal.SIGKILL
    assert re.search(r"was ended by SIGKILL: by a process, not by the kernel for lack of memory; its largest process "
                     r"used [\d,]+ MiB of memory\n", done.stderr)
