"""The plugin of pytest on sessions with tests that hang."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.support.interpreters import CHECKOUT
from tests.support.launcher import environment
from tests.support.patience import patience

SAMPLE = CHECKOUT / "tests" / "samples" / "hung_tests.py"


def session(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "pytest", "-p", "gdbext.launcher.pytest_plugin", "-p", "no:cacheprovider", "-c",
            os.devnull, f"--rootdir={SAMPLE.parent}", "-rA", str(SAMPLE), *map(str, arguments)]


def run_session(*arguments: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(session(*arguments), env=environment(), cwd=folder, text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=patience(120), check=False)


def outcomes(output: str) -> dict[str, str]:
    return {name: outcome for outcome, name in re.findall(r"^(PASSED|FAILED) \S+::(\w+)", output, re.MULTILINE)}


def watchers(pid: int) -> list[int]:
    """The processes beside a session, by their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if f"watching.deadlines import main; main(*({pid}," in path.read_text():
                found.append(int(path.parent.name))
    return found


@pytest.fixture(scope="module")
def hung(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """The output of a session in which Python can be interrupted, and its folder of pages."""
    folder = tmp_path_factory.mktemp("session")
    ran = run_session("--gdbext-timeout=2", "--gdbext-dir=pages", "-k", "not gil", folder=folder)
    assert ran.returncode == 1, ran.stdout
    return ran.stdout, folder / "pages"


def test_tests_beyond_their_limit_fail_and_the_session_goes_on(hung: tuple[str, Path]) -> None:
    assert outcomes(hung[0]) == {
        "test_passes": "PASSED", "test_deadlock": "FAILED", "test_child": "FAILED",
        "test_blocked_loop": "FAILED", "test_ends_late": "FAILED",
        "test_without_limit": "PASSED", "test_passes_after_the_others": "PASSED"}
    assert re.search(r"Failed: the test took longer than 2 s: [A-Z ]+: .* \(gdbext\)", hung[0])
    assert re.search(r"Failed: the test took longer than 1\.5 s: DEADLOCK: 2 threads wait for each other.* "
                     r"\(hung_tests\.py:\d+(, hung_tests\.py:\d+)?\) \(gdbext\)", hung[0])
    assert re.search(r"Failed: the test took longer than \d s: EVENT LOOP BLOCKED: ", hung[0])


def test_report_is_in_the_section_of_the_test(hung: tuple[str, Path]) -> None:
    of_deadlock = hung[0].partition("___ test_deadlock ___")[2].partition("___ test_child ___")[0]
    section = re.split(r"^-+ gdbext -+$", of_deadlock, flags=re.MULTILINE)[1]
    assert "DEADLOCK: 2 threads wait for each other." in section
    assert "with second:" in section
    assert section.count("DEADLOCK: 2 threads") == 1
    assert "... pytest (" in section
    assert "pluggy/_callers.py" not in section


def test_report_has_the_child_of_the_test(hung: tuple[str, Path]) -> None:
    section = hung[0].partition("___ test_child ___")[2].partition("___ test_blocked_loop ___")[0]
    assert "waits for its child" in section or "waits for child" in section, section
    assert "threading.Lock" in section


def test_verdict_is_in_the_junit_file(tmp_path: Path) -> None:
    run_session("--gdbext-timeout=2", "--junit-xml=junit.xml", "-k", "deadlock", folder=tmp_path)
    failure = ElementTree.parse(tmp_path / "junit.xml").find(".//failure")
    assert failure is not None
    assert "s: DEADLOCK: 2 threads wait for each other" in failure.attrib["message"]


def test_each_report_is_a_page(hung: tuple[str, Path]) -> None:
    names = sorted(re.sub(r"-\d+\.html$", "", path.name) for path in hung[1].iterdir())
    failed = ("test_blocked_loop", "test_child", "test_deadlock", "test_ends_late")
    assert names == [f"hung_tests.py-{name}" for name in failed]
    page = next(hung[1].glob("*deadlock*"))
    assert "DEADLOCK" in page.read_text()
    assert page.stat().st_mode & 0o777 == 0o600


def test_process_ends_if_native_code_holds_the_gil(tmp_path: Path) -> None:
    ran = run_session("--gdbext-timeout=1", "--gdbext-exit", "-k", "gil", folder=tmp_path)
    assert ran.returncode == -signal.SIGKILL
    assert "hung_tests.py::test_holds_the_gil took too long; the process is ended now" in ran.stdout
    assert "test_holds_the_gil at " in ran.stdout
    assert "the GIL" in ran.stdout


def test_worker_of_xdist_ends_and_the_others_go_on(tmp_path: Path) -> None:
    ran = run_session("--gdbext-timeout=2", "--gdbext-exit", "-n", "2", "-k", "gil or passes", folder=tmp_path)
    assert ran.returncode == 1, ran.stdout
    assert "test_holds_the_gil took too long; the process is ended now" in ran.stdout
    assert "crashed while running" in ran.stdout
    assert outcomes(ran.stdout)["test_passes_after_the_others"] == "PASSED"


def test_report_of_a_worker_of_xdist_is_in_the_section_of_the_test(tmp_path: Path) -> None:
    ran = run_session("--gdbext-timeout=2", "-n", "2", "-k", "deadlock or passes", folder=tmp_path)
    assert outcomes(ran.stdout) == {"test_passes": "PASSED", "test_deadlock": "FAILED",
                                    "test_passes_after_the_others": "PASSED"}
    assert "DEADLOCK: 2 threads wait for each other." in ran.stdout


@contextlib.contextmanager
def hanging(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A session whose only test holds the GIL forever, after its report was printed."""
    with open(folder / "output", "wb") as output:
        process = subprocess.Popen(session("--gdbext-timeout=1", "-k", "gil"), env=environment(), cwd=folder,
                                   stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        end = time.monotonic() + patience(60)
        while "and has not ended since" not in (folder / "output").read_text():
            assert time.monotonic() < end
            time.sleep(0.1)
        yield process
    finally:
        process.kill()
        process.wait()


def test_report_is_printed_if_the_test_cannot_be_interrupted_and_nothing_is_left_behind(tmp_path: Path) -> None:
    with hanging(tmp_path) as process:
        assert "test_holds_the_gil at " in (tmp_path / "output").read_text()
        assert process.poll() is None
        (watcher,) = watchers(process.pid)
    end = time.monotonic() + patience(20)
    while os.path.exists(f"/proc/{watcher}") and time.monotonic() < end:
        time.sleep(0.1)
    assert watchers(process.pid) == []


def test_session_without_the_options_has_no_second_process(tmp_path: Path) -> None:
    (tmp_path / "test_none.py").write_text(
        "import os\nfrom pathlib import Path\ndef test_none():\n"
        "    assert Path(f'/proc/self/task/{os.getpid()}/children').read_text() == ''\n")
    ran = subprocess.run([*session()[:7], str(tmp_path)], env=environment(), cwd=tmp_path, text=True,
                         capture_output=True, timeout=patience(60), check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
