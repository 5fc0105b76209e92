"""What the launcher finds around it: GDBs, rights, containers, init files."""

from __future__ import annotations

import argparse
import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from gdbext.inferior.proc import status as status_module
from gdbext.launcher import cli, kernel_cores
from gdbext.launcher.snapshots import containers, elf, finding, rights
from gdbext.launcher.snapshots.finding import Gdb, find_gdb, probe
from gdbext.launcher.snapshots.programs import HOME, environment, source_line
from gdbext.launcher.status import NO_GDB, NoGdb, Unreadable
from gdbext.launcher.verbs import doctor, install

GOOD = 'gdbext-probe:{"version": "13.1", "python": [3, 11, 2], "pygments": null}'


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def _surroundings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("GDBEXT_GDB", raising=False)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


# -- GDBs ---------------------------------------------------------------------------------------------------------

def test_gdb_is_found_by_option_variable_and_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two, three = (script(tmp_path / name, "") for name in ("gdb", "second", "third"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_gdb() == str(one)
    monkeypatch.setenv("GDBEXT_GDB", "second")
    assert find_gdb() == str(two)
    assert find_gdb(str(three)) == str(three)
    for named, why in ((None, r"\$GDBEXT_GDB names nonesuch"), ("/nonexistent", "--gdb names /nonexistent")):
        monkeypatch.setenv("GDBEXT_GDB", "nonesuch")
        with pytest.raises(NoGdb, match=why):
            find_gdb(named)
    monkeypatch.delenv("GDBEXT_GDB")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(NoGdb, match=r"no gdb on \$PATH"):
        find_gdb()
    # that of the extra is beside the Python that runs gdbext
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    assert find_gdb() == str(one)


def test_probe_reads_versions(tmp_path: Path) -> None:
    gdb = probe(str(script(tmp_path / "gdb", f"echo warning; echo '{GOOD}'")))
    assert gdb == Gdb(str(tmp_path / "gdb"), "GDB 13.1", (3, 11, 2), None)
    assert gdb.release == 13
    gdb.check()


@pytest.mark.parametrize(("text", "why"), [
    ("case $* in --version) echo GNU gdb 13.1;; esac", r"GNU gdb 13.1\) has no working Python inside"),
    ("echo '" + GOOD.replace("[3, 11, 2]", "[3, 6, 8]") + "'", "has Python 3.6.8 inside, 3.9 or later is needed"),
    ("echo hello", "is not a GDB: hello"),
    ("exit 1", "is not a GDB: it prints nothing"),
])
def test_unusable_gdb_is_an_error(text: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(NoGdb, match=why):
        probe(str(script(tmp_path / "gdb", text))).check()


def test_gdb_that_does_not_run_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "gdb"
    path.write_bytes(b"\x7fELFnonsense")
    path.chmod(0o755)
    with pytest.raises(NoGdb, match="does not run: Exec format error"):
        probe(str(path))
    monkeypatch.setattr(finding, "_PATIENCE", 0.1)
    with pytest.raises(NoGdb, match=r"prints nothing within 0.1 s"):
        probe(str(script(tmp_path / "slow", "exec sleep 10")))


def test_environment_of_gdb_has_no_python_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """The virtual environment of the tests would break the Python inside GDB."""
    monkeypatch.setenv("PYTHONPATH", "/ours")
    monkeypatch.setenv("PYTHONHOME", "/ours")
    monkeypatch.setenv("DEBUGINFOD_URLS", "https://debuginfod.example")
    monkeypatch.setenv("LANG", "de_DE.UTF-8")
    assert not {"PYTHONPATH", "PYTHONHOME", "DEBUGINFOD_URLS"} & environment().keys()
    assert environment()["LC_ALL"] == "C.UTF-8"
    assert environment(debuginfod=True)["DEBUGINFOD_URLS"] == "https://debuginfod.example"


# -- rights -------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize(("status", "uid", "scope", "why", "remedy"), [
    ({"TracerPid": "77"}, 0, None, r"already traced by process 77 \(gdb\)", "end that one"),
    ({"Uid": "0\t0\t0\t0"}, 1000, 0, "it belongs to user 0, you are user 1000", "sudo"),
    ({"Uid": "1000\t1000\t1000\t1000"}, 1000, 1, "ptrace_scope is 1", "ptrace_scope=0"),
    ({"Uid": "1000\t1000\t1000\t1000"}, 1000, 3, "ptrace_scope is 3", "core"),
    ({"Uid": "0\t0\t0\t0", "Seccomp": "2"}, 0, None, "from here: the capability or a system call is denied",
     "outside of what has dropped it"),
    ({"Uid": "1000\t1000\t1000\t1000"}, 1000, 0, "more rights than you", "root"),
])
def test_missing_right_to_trace_has_a_hint(status: Mapping[str, str], uid: int, scope: int | None, why: str,
                                           remedy: str,
                                           monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    monkeypatch.setattr(rights, "ptrace_scope", lambda: scope)
    monkeypatch.setattr(rights, "container_kind", lambda: None)
    for module in (rights, status_module):
        monkeypatch.setattr(module, "status_field",
                            lambda pid, name: {"CapEff": "0", "Name": "gdb", **status}.get(name))
    what, hint = rights.why_not_traced(5)
    assert re.search(why, what)
    assert remedy in hint


def test_container_is_named_only_inside_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rights, "has_capability", lambda number: False)
    monkeypatch.setattr(rights, "ptrace_scope", lambda: None)
    for module in (rights, status_module):
        monkeypatch.setattr(module, "status_field", lambda pid, name: {"Seccomp": "2", "Name": "gdb"}.get(name))
    monkeypatch.setattr(rights, "container_kind", lambda: "Docker")
    assert "container" in " ".join(rights.why_not_traced(5))
    assert "--cap-add=SYS_PTRACE" in rights.why_not_traced(5)[1]
    monkeypatch.setattr(rights, "container_kind", lambda: None)
    assert "container" not in " ".join(rights.why_not_traced(5))


def test_doctor_says_what_is_possible_without_gdb(monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
                                                  capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("GDBEXT_GDB", raising=False)
    assert doctor.run(argparse.Namespace(gdb=None)) == NO_GDB
    first, remedy, note, *_ = capsys.readouterr().out.splitlines()
    assert "there is no gdb on $PATH" in first
    assert "apt install gdb" in remedy
    assert note.split(maxsplit=1)[1].startswith("processes and cores are read without GDB; it adds")


def test_doctor_names_the_missing_capability_in_a_container(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(doctor, "ptrace_scope", lambda: None)
    monkeypatch.setattr(doctor, "has_capability", lambda number: False)
    monkeypatch.setattr(doctor, "container_kind", lambda: "Docker")
    monkeypatch.setattr(doctor, "status_field", lambda pid, name: "0")
    (found,) = doctor.check_rights()
    assert found.state == "missing"
    assert found.remedy.startswith("docker run --cap-add=SYS_PTRACE")


@pytest.mark.parametrize("machine", ["riscv64", "ppc64le"])
def test_doctor_names_a_processor_that_is_not_supported(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(doctor.check_processor()) == []
    monkeypatch.setattr(os, "uname", lambda: os.uname_result(("Linux", "host", "6.1", "#1", machine)))
    (found,) = doctor.check_processor()
    assert (found.state, found.remedy) == ("missing", "only x86-64 and arm64 are decoded")
    assert found.what.startswith(f"the processor of this machine is {machine}: ")


@pytest.mark.parametrize(("namespace", "words"), [
    ("user:[4026531837]", ["processes of all users can be traced (CAP_SYS_PTRACE)"]),
    ("user:[4026532200]", ["processes of this user namespace can be traced (CAP_SYS_PTRACE in it only)",
                           "processes outside of this user namespace, and programs with more rights, cannot"])])
def test_doctor_says_how_far_the_capability_reaches(namespace: str, words: list[str],
                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "readlink", lambda path: {"/proc/self/ns/user": namespace}[path])
    monkeypatch.setattr(doctor, "ptrace_scope", lambda: None)
    monkeypatch.setattr(doctor, "has_capability", lambda number: True)
    monkeypatch.setattr(doctor, "container_kind", lambda: None)
    monkeypatch.setattr(doctor, "status_field", lambda pid, name: "0")
    assert [found.what for found in doctor.check_rights()] == words


#: Refuses ptrace, process_vm_readv and kcmp as a filter of a container does, and runs a command.
FILTERED = """\
import ctypes, os, struct, sys
load, refuse, allow = struct.pack("<HBBI", 0x20, 0, 0, 0), (6, 0, 0, 0x50001), (6, 0, 0, 0x7FFF0000)
code = load + b"".join(struct.pack("<HBBI", 0x15, 0, 1, number) + struct.pack("<HBBI", *refuse)
                       for number in (101, 310, 312)) + struct.pack("<HBBI", *allow)
text = ctypes.create_string_buffer(code, len(code))
program = ctypes.create_string_buffer(struct.pack("<H6xQ", len(code) // 8, ctypes.addressof(text)))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
assert libc.prctl(22, 2, program, 0, 0) == 0  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


def test_filter_that_forbids_ptrace_is_nothing_missing_where_a_report_works() -> None:
    def filtered(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-c", FILTERED, *arguments], capture_output=True, text=True,
                              timeout=60, check=False, cwd=HOME)

    found = filtered("-c", "from gdbext.launcher.verbs import doctor\n"
                           "for each in doctor.check_rights(): print(each.state, each.what)")
    assert "note a seccomp filter forbids ptrace: GDB cannot attach" in found.stdout, found.stderr
    assert "missing a seccomp" not in found.stdout
    with subprocess.Popen([sys.executable, "-c", "print(flush=True); input()"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        program.stdout.readline()
        report = filtered("-m", "gdbext", "report", str(program.pid))
        program.kill()
    assert report.returncode == 0, report.stderr
    assert "NOTHING WRONG FOUND: the only thread waits to read from fd 0" in report.stdout


@pytest.mark.parametrize(("pattern", "soft", "words"), [
    ("core", resource.RLIM_INFINITY, ["working directory"]),
    ("core", 0, ["leave no cores", "ulimit -c unlimited"]),
    ("core", 1 << 20, ["cut off at 1,024 KiB"]),
    ("/nonexistent/core.%p", resource.RLIM_INFINITY, ["there is no such folder", "mkdir -p /nonexistent"]),
    ("|/lib/systemd/systemd-coredump %P", 0, ["cores go to a program", "coredumpctl"]),
    ("", resource.RLIM_INFINITY, ["no cores are made"]),
])
def test_doctor_checks_cores(pattern: str, soft: int, words: list[str], monkeypatch: pytest.MonkeyPatch,
                             tmp_path: Path) -> None:
    (tmp_path / "core_pattern").write_text(pattern + "\n")
    monkeypatch.setattr(kernel_cores, "_PATTERN", tmp_path / "core_pattern")
    monkeypatch.setattr(resource, "getrlimit", lambda which: (soft, resource.RLIM_INFINITY))
    text = "\n".join(f"{found.what} {found.remedy}" for found in doctor.check_cores())
    for word in words:
        assert word in text


# -- processes ----------------------------------------------------------------------------------------------------

def test_unreadable_processes_are_refused() -> None:
    with pytest.raises(Unreadable, match="this launcher itself"):
        containers.check_process(os.getpid())
    with pytest.raises(Unreadable, match="no process 4194305"):
        containers.check_process(4194305)
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    with pytest.raises(Unreadable, match=f"process {child} has ended; its parent, {os.getpid()}"):
        containers.check_process(child)
    os.waitpid(child, 0)


def test_process_of_another_processor_is_refused_before_it_is_paused(monkeypatch: pytest.MonkeyPatch) -> None:
    containers.check_process(os.getppid())
    monkeypatch.setattr(elf, "is_decoded", lambda machine: machine == "aarch64")
    with pytest.raises(Unreadable, match=f"process {os.getppid()}: the processor is x86_64"):
        containers.check_process(os.getppid())


def test_pid_of_another_namespace_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = {("20", "NStgid"): "20", ("30", "NStgid"): "30\t7", ("30", "Name"): "server", ("40", "NStgid"): "40\t8"}
    links = {"/proc/30/ns/pid": "pid:[2]", "/proc/40/ns/pid": "pid:[2]", "/proc/self/ns/pid": "pid:[1]"}
    monkeypatch.setattr(os, "listdir", lambda path: ["20", "30", "40", "self"])
    monkeypatch.setattr(os, "readlink", lambda path: links[path])
    for module in (containers, rights, status_module):
        monkeypatch.setattr(module, "status_field", lambda pid, name: numbers.get((str(pid), name)))
    assert containers.processes_called(7) == [30]
    assert containers.in_namespace_of(7, 40) == 30
    with pytest.raises(Unreadable, match="no process 7 here; other PID namespaces have one") as error:
        containers.check_process(7)
    assert "30 (server)" in error.value.hint
    with pytest.raises(Unreadable, match="no process 9 in the PID namespace of process 40"):
        containers.in_namespace_of(9, 40)


# -- init files ---------------------------------------------------------------------------------------------------

@pytest.mark.parametrize(("version", "existing", "written"), [
    ("13.1", [], ".gdbinit"),
    ("13.1", [".gdbinit"], ".gdbinit"),
    ("13.1", [".gdbinit", "settings/gdb/gdbinit"], "settings/gdb/gdbinit"),
    ("10.1", ["settings/gdb/gdbinit"], ".gdbinit"),
])
def test_install_shows_and_writes_the_line(version: str, existing: list[str], written: str, tmp_path: Path,
                                           monkeypatch: pytest.MonkeyPatch,
                                           capsys: pytest.CaptureFixture[str]) -> None:
    """The file that this GDB reads; what is in it stays, and it gets the lines once."""
    home = tmp_path / "home"
    for name in existing:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("set history save on")
    home.mkdir(exist_ok=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "settings"))
    gdb = script(tmp_path / "gdb", f"echo '{GOOD.replace('13.1', version)}'")
    before = {path: path.read_text() for path in home.rglob("*gdbinit")}
    assert cli.main(["install", "--gdb", str(gdb)]) == 0
    assert {path: path.read_text() for path in home.rglob("*gdbinit")} == before
    for _ in range(2):
        assert cli.main(["install", "--gdb", str(gdb), "--write"]) == 0
    file = home / written
    assert file.read_text() == "set history save on\n" * (written in existing) + install.loading_lines()
    assert "already loads gdbext" in capsys.readouterr().out
    assert {path: text for path, text in before.items() if path != file} == {
        path: path.read_text() for path in home.rglob("*gdbinit") if path != file}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder, and a GDB that reads .gdbinit there."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    monkeypatch.setenv("GDBEXT_GDB", str(script(tmp_path / "gdb", f"echo '{GOOD}'")))
    return tmp_path


OTHER_COPY = install.loading_lines().replace(str(HOME), "/other/lib's")


@pytest.mark.parametrize("earlier", [source_line() + "\n", source_line(), OTHER_COPY,
                                     OTHER_COPY + "set height 0\n" + source_line(), OTHER_COPY * 3])
def test_install_replaces_earlier_lines_where_they_are(earlier: str, home: Path,
                                                       capsys: pytest.CaptureFixture[str]) -> None:
    file = home / ".gdbinit"
    file.write_bytes(b"set width 0\xff\n" + earlier.encode())
    file.chmod(0o600)
    for _ in range(2):
        assert cli.main(["install", "--write"]) == 0
    rest = b"set height 0\n" if "height" in earlier else b""
    assert file.read_bytes() == b"set width 0\xff\n" + install.loading_lines().encode() + rest
    assert file.stat().st_mode & 0o777 == 0o600
    assert "in place of earlier ones" in capsys.readouterr().out
    assert cli.main(["install", "--remove"]) == 0
    assert file.read_bytes() == b"set width 0\xff\n" + rest


def test_remove_leaves_everything_else(home: Path, monkeypatch: pytest.MonkeyPatch,
                                       capsys: pytest.CaptureFixture[str]) -> None:
    """It needs no GDB. Lines of the user stay, also those that load another copy."""
    monkeypatch.setenv("GDBEXT_GDB", "/nonexistent")
    kept = "set width 0\n# " + source_line() + "\nsource /other/gdbext/gdbext\n"
    (home / ".gdbinit").write_text(source_line() + "\n" + kept + OTHER_COPY)
    (home / "settings" / "gdb").mkdir(parents=True)
    (home / "settings" / "gdb" / "gdbinit").write_text(install.loading_lines())
    linked = home / "dotfiles"
    assert cli.main(["install", "--remove"]) == 0
    assert (home / ".gdbinit").read_text() == kept
    assert not (home / "settings" / "gdb" / "gdbinit").exists(), "as an empty file it would hide .gdbinit"
    assert capsys.readouterr().out == (
        f"Removed from {home}/settings/gdb/gdbinit, which had nothing else\nRemoved from {home}/.gdbinit\n")
    linked.write_text(install.loading_lines())
    (home / "settings" / "gdb" / "gdbinit").symlink_to(linked)
    assert cli.main(["install", "--remove"]) == 0
    assert linked.read_text() == ""
    assert (home / "settings" / "gdb" / "gdbinit").is_symlink()
    capsys.readouterr()
    assert cli.main(["install", "--remove"]) == 0
    assert capsys.readouterr().out.startswith("Nothing to remove: ")


def test_install_to_an_unwritable_file_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                   capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    monkeypatch.setenv("HOME", str(tmp_path / "file"))
    gdb = script(tmp_path / "gdb", f"echo '{GOOD}'")
    assert cli.main(["install", "--gdb", str(gdb), "--write"]) == 3
    assert "cannot write" in capsys.readouterr().err
