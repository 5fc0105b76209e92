"""The console script on real processes and cores: its output and exit status, and unharmed targets."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import re
import resource
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gdbext.launcher.snapshots import by_gdb
from gdbext.launcher.snapshots.options import Options, Target
from gdbext.launcher.snapshots.rights import container_kind
from gdbext.launcher.snapshots.snapshot import take_snapshot
from tests.support import cores, gdb_session, interpreters, samples
from tests.support.interpreters import CHECKOUT
from tests.support.launcher import command, environment, launch
from tests.support.patience import patience
from tests.support.report import Report
from tests.support.samples import Sample

#: Python code that GDB runs before gdbext: it sleeps once attached, before the command.
_SLEEPS = ("import gdb, signal, time\n"
           "def execute(command, *rest, _real=gdb.execute, **options):\n"
           "    found = _real(command, *rest, **options)\n"
           "    if command.startswith('set gdbext max-pause'):\n"
           "        {before}\n"
           "        time.sleep(100)\n"
           "    return found\n"
           "gdb.execute = execute\n")

#: Sends SIGINT to the process in its first argument as long as that traces the process in the second one.
_SENDER = """
while :; do
    while read -r name value; do
        if [ "$name" = TracerPid: ] && [ "$value" = "$1" ]; then kill -INT "$1"; fi
    done < "/proc/$2/status"
done
"""

#: Python code that GDB runs first in place of gdbext: it receives SIGINT repeatedly while it attaches.
_INTERRUPTED = f"""
import gdb, os, subprocess
def execute(command, *rest, _real=gdb.execute, **options):
    if "attach " not in command:
        return _real(command, *rest, **options)
    sender = subprocess.Popen(["sh", "-c", {_SENDER!r}, "sh", str(os.getpid()), command.split()[-1]])
    try:
        return _real(command, *rest, **options)
    finally:
        sender.kill()
        sender.wait()
gdb.execute = execute
"""

#: Runs a command under a system call filter that forbids ptrace (101), as in some containers: prctl(2) with
#: PR_SET_NO_NEW_PRIVS (38) and PR_SET_SECCOMP (22); the filter's four instructions are load the number, compare it,
#: fail with EPERM, allow.
_FORBIDS_PTRACE = """
import ctypes, os, struct, sys
code = struct.pack("=" + "HBBI" * 4, 0x20, 0, 0, 0, 0x15, 0, 1, 101, 6, 0, 0, 0x50001, 6, 0, 0, 0x7FFF0000)
buffer = ctypes.create_string_buffer(code)
program = struct.pack("=H6xQ", 4, ctypes.addressof(buffer))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.c_char_p(program), 0, 0) == 0, os.strerror(ctypes.get_errno())
os.execvp(sys.argv[1], sys.argv[1:])
"""


def slow_gdb(folder: Path, before: str = "pass") -> Path:
    """A GDB that stays attached for a long time; `before` is Python code that it runs first."""
    (folder / "slow.py").write_text(_SLEEPS.format(before=before))
    return script(folder / "slow-gdb", f'exec {shutil.which(gdb_session.executable())} -iex '
                                       f'"source {folder / "slow.py"}" "$@"')


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def children(pid: int) -> list[int]:
    """The children of a single-threaded process; empty after it has ended."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def check_unharmed(sample: Sample) -> None:
    """Check that the process runs, is not traced, and is unchanged."""
    for tid in sample.tids():
        assert sample.status(tid, "TracerPid") == "0"
    assert not sample.is_stopped()
    sample.wait_until_final()
    assert sample.process.poll() is None


@pytest.fixture(scope="module")
def deadlocked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sample]:
    """A process deadlocked over the GIL and a rwlock."""
    python, _ = interpreters.use(interpreters.ANY)
    with samples.rapids(python, "rwlock", tmp_path_factory.mktemp("rapids")) as sample:
        yield sample


@contextlib.contextmanager
def own_abba(folder: Path) -> Iterator[tuple[Path, Path, Sample]]:
    """A core of a private copy of a program: the core, the executable, and the program, which has ended."""
    program = folder / "own" / "abba"
    program.parent.mkdir()
    shutil.copy(samples.build("abba"), program)
    with samples.running([program, "rwlock"], folder / "run") as sample:
        yield cores.kernel_core(sample), program, sample


# -- reports ------------------------------------------------------------------------------------------------------

def test_report_of_a_process(deadlocked: Sample, tmp_path: Path) -> None:
    dot = tmp_path / "graph.dot"
    ran = launch("report", str(deadlocked.pid), "--dot", dot)
    assert ran.status == 1
    assert "DEADLOCK: 2 threads wait for each other" in ran.stdout
    assert ran.stdout.startswith("gdbext: ")
    assert ran.stdout.index("\nDEADLOCK: ") < ran.stdout.index('"MainThread" waits for')
    assert "#0" not in ran.stdout.partition("\nThreads:\n")[0]
    (line,) = ran.stderr.splitlines()
    seconds = re.fullmatch(rf"gdbext report: process {deadlocked.pid} was paused for (\d+\.\d\d) s", line)
    assert seconds is not None, line
    assert 0 < float(seconds[1]) < 60
    assert dot.read_text().startswith("digraph gdbext {")
    check_unharmed(deadlocked)


def test_json_of_a_process(deadlocked: Sample) -> None:
    ran = launch("report", str(deadlocked.pid), "--json")
    assert ran.status == 1
    report = Report(ran.document(), deadlocked.truth)
    assert report.document["target"]["kind"] == "live"
    assert report.edges() == set(deadlocked.truth.deadlock)
    assert all(row["stack"] for row in report.document["threads"])


def test_report_of_a_healthy_process() -> None:
    python, _ = interpreters.use(interpreters.ANY)
    with samples.idle(python) as pid:
        ran = launch("report", str(pid), "--stacks=none")
    assert ran.status == 0
    assert re.search("^NOTHING WRONG FOUND: ", ran.stdout, re.MULTILINE)
    assert "#0" not in ran.stdout


@pytest.mark.parametrize("packed", [None, "gzip", "xz", "bzip2", "zstd", "lz4"])
def test_core_without_other_arguments(kernel_core: tuple[Path, Sample], packed: str | None, tmp_path: Path) -> None:
    core, sample = kernel_core
    if packed is not None:
        if shutil.which(packed) is None:
            pytest.skip(f"{packed} is not installed")
        core = tmp_path / "core of it"
        with open(kernel_core[0], "rb") as plain, open(core, "wb") as file:
            subprocess.run([packed, "-1", "-c"], stdin=plain, stdout=file, check=True)
        assert core.stat().st_size < kernel_core[0].stat().st_size
    ran = launch("report", core, "--json", TMPDIR=str(tmp_path))
    assert ran.status == 1
    assert ran.stderr == ""
    report = Report(ran.document(), sample.truth)
    assert report.document["target"]["kind"] == "core"
    assert report.document["crash"]["fault"]["signal"] == "SIGABRT"
    assert report.edges() == set(sample.truth.deadlock)
    assert list(tmp_path.glob("gdbext-*")) == []


@pytest.mark.parametrize("name", ["-", "/dev/stdin"])
@pytest.mark.parametrize("way", ["file", "pipe", "packed"])
def test_core_on_standard_input(kernel_core: tuple[Path, Sample], way: str, name: str) -> None:
    core, _ = kernel_core
    reader = {"file": f"{{}} < {core}", "pipe": f"cat {core} | {{}}", "packed": f"gzip -1c {core} | {{}}"}[way]
    done = subprocess.run(["sh", "-c", reader.format(shlex.join(command("report", name, "--stacks=none")))], text=True,
                          env=environment(), cwd="/", capture_output=True, timeout=patience(120), check=False)
    assert done.returncode == 1, done
    assert "DEADLOCK: 2 threads wait for each other" in done.stdout


def test_characters_outside_the_output_encoding_are_escaped(tmp_path: Path) -> None:
    python, _ = interpreters.use(interpreters.ANY)
    (tmp_path / "job.py").write_text("import sys\ndef gr\u00f6\u00dfe():\n    print(flush=True)\n    sys.stdin.read()\n"
                                     "gr\u00f6\u00dfe()\n", encoding="utf-8")
    with subprocess.Popen([python, tmp_path / "job.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        ran = launch("report", str(process.pid), PYTHONIOENCODING="ascii")
        process.communicate()
    assert ran.status == 0
    assert "gr\\xf6\\xdfe at" in ran.stdout


def test_text_of_a_core_begins_with_the_crash(kernel_core: tuple[Path, Sample]) -> None:
    ran = launch("report", kernel_core[0])
    assert ran.status == 1
    assert ran.stdout.startswith("gdbext: ")
    # a program that hangs was killed: what it waited for comes first
    assert ran.stdout.index("\nDEADLOCK: 2 threads") < ran.stdout.index("\nSIGABRT in thread 1")
    assert ran.stdout.index("\nSIGABRT in thread 1") < ran.stdout.index("\nThreads:\n")
    assert ran.stderr == ""


def test_core_of_a_script_with_a_shebang_finds_the_interpreter(tmp_path: Path) -> None:
    python, _ = interpreters.use(interpreters.ANY)
    program = tmp_path / "crashes"
    program.write_text(f"#!{python}\nimport os\ndef give_up():\n    os.abort()\ngive_up()\n")
    program.chmod(0o755)
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    process = subprocess.Popen([f"./{program.name}"], cwd=tmp_path,
                               preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (hard, hard)))
    process.wait(60)
    found = [path for path in tmp_path.iterdir() if path.name.startswith("core")]
    if not found:
        pytest.skip("the kernel does not write cores to the working directory (core_pattern)")
    ran = launch("report", found[0], "--json")
    assert ran.status == 1
    assert ran.stderr == ""
    document = ran.document()
    assert Path(document["target"]["executable"]).samefile(python)
    functions = [frame["function"] for frame in document["crash"]["stack"] if frame["language"] == "python"]
    assert functions == ["give_up", "<module>"]


def test_processes_and_cores_by_option(deadlocked: Sample, kernel_core: tuple[Path, Sample], tmp_path: Path) -> None:
    pid = str(deadlocked.pid)
    for line in ["dump", pid], ["report", "--pid", pid]:
        ran = launch(*line, "--stacks=none")
        assert ran.status == 1
        assert "DEADLOCK: 2 threads wait for each other" in ran.stdout
        assert f"process {pid} was paused for" in ran.stderr
    nobody = launch("dump", "--name", "no process has this name, except [l]aunchers")
    assert nobody.status == 3
    assert "no process matches" in nobody.complaint()
    (tmp_path / "4711").symlink_to(kernel_core[0])
    ran = launch("report", "--core", tmp_path / "4711", "--stacks=none")
    assert ran.status == 1
    assert "\nSIGABRT in thread 1" in ran.stdout


def test_processes_by_name(tmp_path: Path) -> None:
    """Each process whose command line matches has a report; the launcher and the shells that started it match too."""
    program = tmp_path / "named-for-this-test"
    shutil.copy(samples.build("abba"), program)
    with samples.running([program, "rwlock"], tmp_path / "1") as one, samples.running(
            [program, "mutex"], tmp_path / "2") as two:
        line = shlex.join(command("report", "--name", "named-for-this-test (rwlock|mutex)", "--stacks=none"))
        done = subprocess.run(["sh", "-c", f"{line}; exit $?"], env=environment(), cwd="/", text=True,
                              timeout=patience(120), stdin=subprocess.DEVNULL, capture_output=True, check=False)
        as_json = launch("report", "--name", "^named-for-this", "--json")
        for sample in (one, two):
            check_unharmed(sample)
    assert done.returncode == 1, done
    pids = sorted([str(one.pid), str(two.pid)], key=int)
    assert re.findall(r"^gdbext: .* PID (\d+) on ", done.stdout, re.MULTILINE) == pids
    assert done.stdout.count("DEADLOCK: 2 threads wait for each other") == 2
    assert re.findall(r"process (\d+) was paused for", done.stderr) == pids
    assert as_json.status == 1
    found = [json.loads(line) for line in as_json.stdout.splitlines()]
    assert {document["target"]["pid"] for document in found} == {one.pid, two.pid}
    assert all(gdb_session.violations(document) == [] for document in found)


# -- the files of a core ------------------------------------------------------------------------------------------

def test_moved_files_of_a_core_are_found(tmp_path: Path) -> None:
    """A missing file is reported. A renamed file below a folder is found by build id, one in an image by name."""
    with own_abba(tmp_path) as (core, program, sample):
        elsewhere = tmp_path / "build tree" / "v1.2"
        elsewhere.mkdir(parents=True)
        program.rename(elsewhere / "renamed")
        missing = launch("report", core, "--json")
        assert missing.status == 3, "all that is known is that another process sent a signal"
        assert missing.document()["deadlocks"] == []
        assert re.search(rf"the executable {program} \(build id [0-9a-f]+\) was not found: .*--search", missing.stderr)
        found = launch("report", core, "--json", "--search", tmp_path / "build tree")
        image = tmp_path / "image"
        (image / str(program.parent).lstrip("/")).mkdir(parents=True)
        (elsewhere / "renamed").rename(image / str(program).lstrip("/"))
        (image / "lib64").symlink_to("usr/lib64")
        in_image = launch("report", core, "--json", "--sysroot", image, "--search", "/lib/x86_64-linux-gnu")
    for ran in (found, in_image):
        assert ran.status == 1
        assert ran.stderr == ""
        assert Report(ran.document(), sample.truth).edges() == set(sample.truth.deadlock)


def test_wrong_executable_is_reported_with_both_build_ids(tmp_path: Path) -> None:
    """Both build ids are named. A file that the launcher finds is not used then; one that the user names is."""
    with own_abba(tmp_path) as (core, program, _):
        was, other = build_id(program), samples.build("gather")
        shutil.copy(other, program)
        ran = launch("report", core)
        named = launch("report", core, other)
    for each, end in ((ran, "it is not used"), (named, "it is used because you named it")):
        (line,) = (line for line in each.stderr.splitlines() if end in line)
        assert was in line
        assert build_id(other) in line
    assert "cannot be determined" in ran.stdout
    assert "no deadlock" not in ran.stdout


def build_id(path: Path) -> str:
    notes = subprocess.run(["readelf", "-n", path], capture_output=True, text=True, check=True).stdout
    found = re.search(r"Build ID: ([0-9a-f]+)", notes)
    assert found is not None
    return found[1]


# -- bad input ----------------------------------------------------------------------------------------------------

def test_no_such_process() -> None:
    ran = launch("report", "4194305")
    assert ran.status == 3
    assert "there is no process 4194305" in ran.complaint()


def test_thread_id_instead_of_a_process_id(native: Sample) -> None:
    thread = max(native.tids())
    ran = launch("report", str(thread))
    assert ran.status == 3
    assert f"{thread} is a thread of process {native.pid}" in ran.complaint()


def test_process_that_is_already_traced(native: Sample, tmp_path: Path) -> None:
    gdb = subprocess.Popen([gdb_session.executable(), "-nx", "-q", "-p", str(native.pid)], stdin=subprocess.PIPE,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        samples.wait_until(lambda: native.status(native.pid, "TracerPid") == str(gdb.pid), "GDB has attached")
        ran = launch("report", str(native.pid))
    finally:
        gdb.communicate(b"detach\nquit\n", timeout=patience(120))
    assert ran.status == 1
    assert "\nDEADLOCK: " in ran.stdout
    assert re.search(rf"GDB was not used: process {gdb.pid} \W\S+\W traces the process", ran.stderr)


@pytest.mark.parametrize("what", ["junk", "empty", "executable", "folder", "nothing", "fifo"])
def test_file_that_is_not_a_core(what: str, tmp_path: Path) -> None:
    path = tmp_path / "core"
    if what == "junk":
        path.write_bytes(b"what is this?" * 1000)
    elif what == "empty":
        path.touch()
    elif what == "executable":
        shutil.copy(sys.executable, path)
    elif what == "folder":
        path.mkdir()
    elif what == "fifo":
        os.mkfifo(path)
    ran = launch("report", path)
    assert ran.status == 3
    words = {"junk": "is not a core", "empty": "is empty", "executable": "an executable", "folder": "is a folder",
             "nothing": "No such file", "fifo": "not a regular file"}
    assert words[what] in ran.complaint()


@pytest.mark.parametrize("part", [0.00001, 0.6])
def test_truncated_core_gives_a_partial_report(kernel_core: tuple[Path, Sample], part: float, tmp_path: Path) -> None:
    """A partial report, or one line that says why there is none."""
    core, sample = kernel_core
    whole = core.read_bytes()
    truncated = tmp_path / "core"
    truncated.write_bytes(whole[:max(int(len(whole) * part), 70)])
    ran = launch("report", truncated, "--json")
    if ran.stdout:
        report = Report(ran.document(), sample.truth)
        assert report.document["problems"]
        assert report.edges() <= set(sample.truth.deadlock)
    else:
        assert ran.status == 3
        assert len(ran.stderr.splitlines()) == 1


@pytest.mark.parametrize("part", [0.1, 0.5, 0.9])
def test_truncated_core_reports_no_existing_file_as_missing(kernel_core: tuple[Path, Sample], part: float,
                                                   tmp_path: Path) -> None:
    """Truncation first loses the dynamic linker's list of libraries at the end, not the libraries."""
    truncated = tmp_path / "core"
    shutil.copy(kernel_core[0], truncated)
    size = truncated.stat().st_size
    os.truncate(truncated, int(size * part))
    ran = launch("report", truncated)
    why = (f"the core is truncated: {int(size * part):,} of {size:,} bytes are there, without the dynamic linker's "
           "list of libraries")
    assert ran.status == 3
    assert f", truncated: only {int(size * part):,} of {size:,} bytes are there, " in ran.stdout.splitlines()[0]
    assert re.search(rf"\nMissing: {re.escape(why)}; so .+ may have no names, ", ran.stdout)
    assert f"\nUNKNOWN: whether there is a deadlock cannot be determined ({why})." in ran.stdout.replace("\n    ", " ")
    assert "not found" not in ran.stdout
    assert "is missing" not in ran.stdout
    assert re.search(r"#0 +0x[0-9a-f]+ \(\) in libc\.so\.6\n", ran.stdout), "by the core's own list of mappings"
    assert ran.stderr == f"gdbext report: {why}\n"


def test_core_truncated_in_its_notes(kernel_core: tuple[Path, Sample], tmp_path: Path) -> None:
    truncated = tmp_path / "core"
    shutil.copy(kernel_core[0], truncated)
    size = truncated.stat().st_size
    # p_offset of the kernel's first program header, which is that of the notes
    kept = struct.unpack_from("<Q", truncated.read_bytes(), 64 + 8)[0] + 100
    os.truncate(truncated, kept)
    for verb in ("report", "triage"):
        ran = launch(verb, truncated)
        assert ran.status == 3
        assert f"is truncated: {kept:,} of {size:,} bytes are there, without the threads' registers" in ran.stderr


def test_without_gdb(native: Sample) -> None:
    ran = launch("report", str(native.pid), gdb="/nonexistent/gdb")
    assert ran.status == 4
    assert "/nonexistent/gdb" in ran.complaint()


@pytest.mark.parametrize("verb", ["report", "attach", "install"])
def test_gdb_without_python(verb: str, native: Sample, tmp_path: Path) -> None:
    """A stand-in for a GDB 13.1 configured with --without-python."""
    gdb = script(tmp_path / "gdb", 'case $* in *--version*) echo "GNU gdb (GDB) 13.1";; *) '
                 'echo "Python scripting is not supported in this copy of GDB." >&2; exit 1;; esac')
    ran = launch(verb, *([str(native.pid)] if verb != "install" else []), gdb=gdb)
    assert ran.status == 4
    assert "GNU gdb (GDB) 13.1) has no working Python inside" in ran.complaint()


def test_report_that_cannot_be_written(native: Sample) -> None:
    """A full disk gives an error line, not a verdict."""
    ran = launch("report", str(native.pid), "--dot", "/dev/full")
    assert ran.status == 3
    assert "cannot write /dev/full: No space left" in ran.stderr.splitlines()[-1]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command("report", str(native.pid)), env=environment(), stdout=full, text=True,
                              stderr=subprocess.PIPE, timeout=patience(120), check=False)
    assert done.returncode == 3
    (line,) = (line for line in done.stderr.splitlines() if "was paused for" not in line)
    assert line.startswith("gdbext report: cannot write the report: No space left")


# -- unharmed targets ---------------------------------------------------------------------------------------------

def test_time_out_leaves_the_process_unharmed(native: Sample, tmp_path: Path) -> None:
    # on a loaded machine GDB may not have attached yet
    for seconds in ("1.5", "5", "9"):
        ran = launch("report", str(native.pid), "--timeout", seconds, gdb=slow_gdb(tmp_path))
        assert ran.status == 3
        assert f"was not read within {seconds} s" in ran.stderr.splitlines()[-1]
        if "was paused for" in ran.stderr:
            break
    assert re.search(r"was paused for \d+\.\d\d s", ran.stderr)
    check_unharmed(native)


def test_gdb_that_does_not_end_is_killed_with_its_children(native: Sample, tmp_path: Path) -> None:
    """GDB tries ptrace on a child that stops itself; nobody else would ever end it."""
    gdb = script(tmp_path / "gdb", f"trap '' TERM; sleep 1000 & echo $! > {tmp_path / 'child'}; wait; sleep 1000")
    ran = launch("report", str(native.pid), "--timeout", "1", gdb=gdb)
    assert ran.status == 3
    assert "was not read within 1 s" in ran.stderr
    child = int((tmp_path / "child").read_text())
    samples.wait_until(lambda: not os.path.exists(f"/proc/{child}/exe"), "the child has ended")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_signal_to_the_launcher_ends_gdb(number: signal.Signals, native: Sample, tmp_path: Path) -> None:
    """GDB ends too, and the process continues."""
    launcher = subprocess.Popen(command("report", str(native.pid), gdb=slow_gdb(tmp_path)), env=environment(),
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                preexec_fn=samples.accept_interrupts)
    try:
        samples.wait_until(lambda: native.status(native.pid, "TracerPid") != "0", "GDB has attached")
        gdb = int(native.status(native.pid, "TracerPid"))
        launcher.send_signal(number)
        launcher.communicate(timeout=patience(120))
    finally:
        launcher.kill()
        launcher.wait()
    samples.wait_until(lambda: not os.path.exists(f"/proc/{gdb}/exe"), "GDB has ended")
    # the kernel ends the tracing a moment later
    samples.wait_until(lambda: native.status(native.pid, "TracerPid") == "0", "the process is no longer traced")
    assert launcher.returncode == {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -9}[number]
    check_unharmed(native)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTSTP, signal.SIGUSR1])
def test_repeated_signals_to_gdb_do_not_reach_the_process(number: signal.Signals, tmp_path: Path) -> None:
    """GDB forwards SIGINT to a process that it waits for, and other signals end it without a report."""
    sent = {"before and after": 0, "while GDB is attached": 0}
    with samples.abba("mutex", tmp_path) as sample:
        until = time.monotonic() + patience(120)
        while min(sent.values()) < 20 and time.monotonic() < until:  # on a busy machine few signals arrive in time
            launcher = subprocess.Popen(command("report", str(sample.pid)), env=environment(),
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True)
            while launcher.poll() is None and sample.process.poll() is None and time.monotonic() < until:
                is_attached = sample.status(sample.pid, "TracerPid") != "0"
                for gdb in children(launcher.pid):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(gdb, number)
                        sent["while GDB is attached" if is_attached else "before and after"] += 1
            if time.monotonic() >= until:  # stopped before it becomes GDB
                for process in (*children(launcher.pid), launcher.pid):
                    os.kill(process, signal.SIGKILL)
            said, _ = launcher.communicate(timeout=patience(120))
            check_unharmed(sample)
            assert launcher.returncode == 1
            assert "DEADLOCK: 2 threads wait for each other" in said
    assert min(sent.values()) >= 20, sent


def test_interrupts_during_attach_do_not_reach_the_process(tmp_path: Path) -> None:
    (tmp_path / "interrupted.py").write_text(_INTERRUPTED)
    gdb = script(tmp_path / "gdb", f'exec {shutil.which(gdb_session.executable())} -iex '
                                   f'"source {tmp_path / "interrupted.py"}" "$@"')
    with samples.abba("mutex", tmp_path) as sample:
        for commands in ("detach\nquit\n", "py-deadlocks --confirm 0.1\npy-deadlocks\ndetach\nquit\n"):
            done = subprocess.run(command("attach", str(sample.pid), gdb=gdb), env=environment(HOME="/nonexistent"),
                                  input=commands, text=True, capture_output=True, timeout=patience(120), check=False)
            assert f"(process {sample.pid}) detached" in done.stdout, done.stderr
            check_unharmed(sample)


@pytest.mark.parametrize("before", ["signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])",
                                    "import os; os.kill(os.getpid(), signal.SIGKILL)"], ids=["stuck", "killed"])
def test_process_continues_after_gdb_ends_without_detaching(before: str, native: Sample, tmp_path: Path,
                                          monkeypatch: pytest.MonkeyPatch) -> None:
    """The signal with which GDB stopped the process must not stop it permanently."""
    monkeypatch.setattr(by_gdb, "_PATIENCE", 0.3)
    for seconds in (1.5, 5, 30):
        seen = take_snapshot(Target(pid=native.pid), Options(gdb=str(slow_gdb(tmp_path, before)), timeout=seconds))
        assert seen.status == 3
        assert seen.document is None
        assert seen.problem is not None
        if seen.stopped is not None:
            break
    assert seen.stopped is not None
    check_unharmed(native)


def test_stopped_process_stays_stopped(tmp_path: Path) -> None:
    with samples.abba("rwlock", tmp_path) as sample:
        os.kill(sample.pid, signal.SIGSTOP)
        samples.wait_until(lambda: sample.status(sample.pid, "State").startswith("T"), "it is stopped")
        ran = launch("report", str(sample.pid))
        assert ran.status == 1
        assert sample.status(sample.pid, "TracerPid") == "0"
        samples.wait_until(lambda: sample.status(sample.pid, "State").startswith("T"), "it is stopped again")
        os.kill(sample.pid, signal.SIGCONT)
        check_unharmed(sample)


# -- other verbs --------------------------------------------------------------------------------------------------

def test_attach(native: Sample) -> None:
    done = subprocess.run(command("attach", str(native.pid)), env=environment(HOME="/nonexistent"), text=True,
                          input="py-deadlocks\ndetach\nquit\n", capture_output=True, timeout=patience(120), check=False)
    assert done.returncode == 0
    assert "DEADLOCK: 2 threads wait for each other" in done.stdout
    check_unharmed(native)


def _what_gives_the_right() -> str:
    return ("give the container the capability SYS_PTRACE" if container_kind() else
            "run gdbext as root with CAP_SYS_PTRACE")


def test_attach_without_permission_fails_with_one_line(native: Sample) -> None:
    ran = launch("attach", str(native.pid), by=[sys.executable, "-c", _FORBIDS_PTRACE])
    assert ran.status == 3
    assert ran.stderr.startswith(f"gdbext attach: process {native.pid} may not be traced from ")
    assert _what_gives_the_right() in ran.stderr
    assert ran.stderr.count("\n") == 1
    assert not native.is_stopped()


def test_attach_to_a_core(kernel_core: tuple[Path, Sample], tmp_path: Path) -> None:
    packed = tmp_path / "core.gz"
    packed.write_bytes(gzip.compress(kernel_core[0].read_bytes(), 1))
    done = subprocess.run(command("attach", packed), env=environment(HOME="/nonexistent"), text=True,
                          input="py-deadlocks\nquit\n", capture_output=True, timeout=patience(120), check=False)
    assert "DEADLOCK: 2 threads wait for each other" in done.stdout


def test_install_writes_an_init_file_that_gdb_reads(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "settings")}
    shown = launch("install", **home)
    assert shown.status == 0
    assert list(tmp_path.rglob("*gdbinit")) == [], "only shown"
    assert launch("install", "--write", **home).status == 0
    (file,) = tmp_path.rglob("*gdbinit")
    once = file.read_text()
    indented = "".join(f"  {line}\n" for line in once.splitlines())
    assert f"already loads gdbext:\n{indented}" in launch("install", "--write", **home).stdout
    assert file.read_text() == once
    assert gdb_at_home(home).stdout.startswith("voidShow the verdict")
    assert launch("install", "--remove", **home).stdout == f"Removed from {file}, which had nothing else\n"
    assert 'Undefined command: "py-deadlocks"' in gdb_at_home(home).stderr


def gdb_at_home(home: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Have a GDB that reads its init file show a help text."""
    return subprocess.run([gdb_session.executable(), "-batch", "-ex", "output $existing", "-ex", "help py-deadlocks"],
                          capture_output=True, env={"PATH": os.environ["PATH"], **home}, text=True,
                          timeout=patience(120), check=False)


def test_init_file_is_silent_after_the_package_has_gone(tmp_path: Path) -> None:
    """GDB reads the lines before and after."""
    home = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "settings")}
    package = tmp_path / "lib's folder"
    shutil.copytree(CHECKOUT / "gdbext", package / "gdbext", ignore=shutil.ignore_patterns("__pycache__"))
    ran = subprocess.run(command("install", "--write"), env=environment(**{**home, "PYTHONPATH": str(package)}),
                         cwd="/", text=True, capture_output=True, timeout=patience(120), check=True)
    assert f"{package}/gdbext/gdbext" in ran.stdout
    with (tmp_path / ".gdbinit").open("a") as later:
        later.write("set $existing = 1\n")
    assert gdb_at_home(home).stdout.startswith("1Show the verdict")
    shutil.rmtree(package)
    gone = gdb_at_home(home)
    assert (gone.stdout, gone.stderr) == ("1", 'Undefined command: "py-deadlocks".  Try "help".\n')


@pytest.mark.parametrize("existing", [None, ".gdbinit", "settings/gdb/gdbinit"])
def test_install_keeps_the_init_file_that_gdb_reads(existing: str | None, tmp_path: Path) -> None:
    """An existing ~/.gdbinit, or one written later, is still read."""
    home = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "settings")}
    if existing is not None:
        (tmp_path / existing).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / existing).write_text("set $existing = 1\n")
    ran = launch("install", "--write", **home)
    (file,) = tmp_path.rglob("*gdbinit")
    assert file == tmp_path / (existing or ".gdbinit")
    assert f"Written to {file}, {'a new file' if existing is None else 'at its end'}:" in ran.stdout
    if existing is None:
        with file.open("a") as later:
            later.write("set $existing = 1\n")
    done = gdb_at_home(home)
    assert done.stdout.startswith("1Show the verdict"), done.stderr


def test_doctor() -> None:
    ran = launch("doctor")
    assert ran.status in (0, 3)
    assert f"{shutil.which(gdb_session.executable())}: GDB " in ran.stdout
    assert "Python 3." in ran.stdout
    assert "can be traced" in ran.stdout
    missing = launch("doctor", gdb="/nonexistent/gdb")
    assert missing.status == 4
    assert "missing  --gdb names /nonexistent/gdb" in missing.stdout


# -- containers ---------------------------------------------------------------------------------------------------

@pytest.fixture
def contained(tmp_path: Path) -> Iterator[tuple[int, int]]:
    """A deadlocked program in its own PID and mount namespaces: its process id here, and the one inside."""
    program = samples.build("abba")
    try:
        process = subprocess.Popen(
            # its own /tmp is not visible here
            ["unshare", "--pid", "--mount", "--fork", "--mount-proc", "sh", "-c",
             f"mount -t tmpfs none /mnt && cp {program} /mnt/inside && exec /mnt/inside rwlock"],
            cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    except OSError as error:
        pytest.skip(f"no unshare: {error}")
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        if not line:
            assert process.stderr is not None
            pytest.skip(f"no namespaces can be made here: {process.stderr.read()}")
        (inside,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        samples.wait_until(lambda: Path(f"/proc/{inside}/wchan").exists(), "it runs")
        yield int(inside), json.loads(line)["pid"]
    finally:
        process.kill()
        with contextlib.suppress(UnboundLocalError, ProcessLookupError):
            os.kill(int(inside), signal.SIGKILL)
        process.communicate()


def test_process_in_another_container(contained: tuple[int, int]) -> None:
    outside, inside = contained
    ran = launch("report", str(outside), "--json")
    assert ran.status == 1
    document = ran.document()
    assert document["target"]["executable"].endswith("/mnt/inside")
    assert len(document["deadlocks"]) == 1
    # without the right to enter namespaces, files are read through the root of the process
    less = launch("report", str(outside), "--json",
                  by=["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin"])
    assert f"read through /proc/{outside}/root" in less.stderr
    assert less.document()["deadlocks"] == document["deadlocks"]
    by_its_number = launch("report", str(inside), "--namespace", str(outside), "--json")
    assert by_its_number.status == 1
    assert by_its_number.document()["target"]["pid"] == outside


def test_system_call_filter_that_forbids_ptrace(native: Sample) -> None:
    wrapper = [sys.executable, "-c", _FORBIDS_PTRACE]
    ran = launch("report", str(native.pid), by=wrapper)
    assert ran.status == 3
    assert f"; {_what_gives_the_right()}" in ran.complaint()
    assert not native.is_stopped()
    checked = launch("doctor", by=wrapper)
    assert checked.status == 0, "a process whose threads sleep can be read without GDB"
    assert "note     a seccomp filter forbids ptrace: GDB cannot attach" in checked.stdout


def test_root_without_the_capability(native: Sample) -> None:
    """As in a container: user 0 may not trace processes of other users."""
    if os.geteuid() != 0:
        pytest.skip("only root can give up capabilities of root")
    wrapper = ["setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace"]
    ran = launch("report", str(native.pid), by=wrapper)
    assert ran.status == 3
    assert _what_gives_the_right() in ran.complaint()
