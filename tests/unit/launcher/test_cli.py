"""The command line: verbs, options, messages and exit statuses."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from gdbext.launcher import api, cli
from gdbext.launcher.snapshots.options import Options, Target
from gdbext.launcher.snapshots.snapshot import Snapshot
from gdbext.launcher.status import NO_ANSWER, NO_GDB
from gdbext.launcher.verbs import completion
from gdbext.render.brief import brief_json, brief_text
from gdbext.render.escape import NOTHING, Safe
from gdbext.render.shown import Shown
from gdbext.render.style import PLAIN
from tests.support.documents import as_json
from tests.support.fake_report import gil_deadlock
from tests.support.interpreters import CHECKOUT

VERBS = ("report", "dump", "show", "diff", "issue", "attach", "triage", "ranks", "dask", "run", "watch", "known",
         "install", "doctor", "completion")
DOCUMENT = {"schema": "gdbext/1"}


def seen(status: int = 0, problem: str | None = None) -> Snapshot:
    if problem:
        return Snapshot("process 5", None, NOTHING, NOTHING, 0.25, 1.0, problem, "do this", status, ("a note",))
    return Snapshot("process 5", json.dumps(DOCUMENT).encode(), Safe("text\n"), Safe("digraph {}\n"), 0.25, 1.0,
                    None, None, status, ("a note",))


@pytest.fixture
def targets_and_options(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Target, Options]]:
    """The targets and options of `take_snapshot`, which returns a fixed answer."""
    found: list[tuple[Target, Options]] = []

    def take_snapshot(target: Target, options: Options) -> Snapshot:
        found.append((target, options))
        return seen(1)

    monkeypatch.setattr(api, "take_snapshot", take_snapshot)
    return found


@pytest.fixture(autouse=True)
def _keep_handlers() -> object:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_every_verb_has_help_with_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["--help"])
    assert ended.value.code == 0
    assert "exit status:" in capsys.readouterr().out
    assert tuple(module.NAME for module in cli.modules()) == VERBS
    for verb in VERBS:
        with pytest.raises(SystemExit):
            cli.main([verb, "--help"])
        text = capsys.readouterr().out
        assert f"\n  gdbext {verb}" in text, verb


@pytest.mark.parametrize("arguments", [
    [], ["nonesuch"], ["report", "5", "--nonesuch"], ["report", "5", "--timeout", "0"],
    ["report", "5", "--timeout", "soon"], ["report", "5", "--search", "/nonexistent"], ["report", "5", "--stacks=all"],
    ["report", "1", "2", "3"], ["report", "--pid", "5", "--core", "x"], ["report", "5", "--color=sometimes"],
    ["install", "--nonesuch"], ["install", "--write", "--remove"], ["completion", "fish"],
])
def test_invalid_command_line_exits_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert ended.value.code == 2
    check_usage(arguments[0] if arguments and arguments != ["nonesuch"] else "", capsys)


@pytest.mark.parametrize(("arguments", "verb", "error"), [
    (["repotr", "5"], "", "unknown verb repotr; did you mean report?"),
    (["g\x1bnicorn"], "", "unknown verb g\\x1bnicorn; `gdbext report --name PATTERN` reports on processes by their "
                          "command line"),
    (["report", "5", "--jsno"], "report", "unknown arguments: --jsno; did you mean --json?"),
    (["5", "--tiemout=3"], "report", "unknown arguments: --tiemout=3; did you mean --timeout?"),
    (["report", "5", "--nonesuch"], "report", "unknown arguments: --nonesuch"),
])
def test_close_name_is_proposed_for_an_unknown_verb_or_option(arguments: list[str], verb: str, error: str,
                                                              capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert ended.value.code == 2
    assert check_usage(verb, capsys) == f"gdbext {verb}".rstrip() + f": error: {error}"


def test_target_in_place_of_a_verb_is_reported_on(targets_and_options: list[tuple[Target, Options]], tmp_path: Path,
                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("core.4711", "dump", "doctor"):  # verbs come first
        (tmp_path / name).touch()
    assert cli.main(["4711", "--alone"]) == cli.main(["core.4711", "app"]) == 1
    assert [target for target, _ in targets_and_options] == [
        Target(pid=4711), Target(core=Path("core.4711"), executable=Path("app"))]


def test_brief_report_is_made_of_the_document(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
                                              tmp_path: Path) -> None:
    def take_snapshot(target: Target, options: Options) -> Snapshot:
        assert not options.text_only
        return dataclasses.replace(seen(1), document_json=as_json(gil_deadlock()).encode())

    monkeypatch.setattr(api, "take_snapshot", take_snapshot)
    assert cli.main(["report", "5", "--brief", "--dot", str(tmp_path / "graph")]) == 1
    assert capsys.readouterr().out == brief_text(gil_deadlock(), PLAIN)
    assert (tmp_path / "graph").read_text() == "digraph {}\n"
    assert cli.main(["report", "5", "--brief", "--json"]) == 1
    assert capsys.readouterr().out == brief_json(gil_deadlock())


def test_name_of_a_program_in_place_of_a_target_is_proposed_as_a_pattern(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["report", "gunicorn"]) == NO_ANSWER
    assert capsys.readouterr().err == (
        "gdbext report: gunicorn: No such file or directory; name a core, or the number of a process; `gdbext report "
        "--name gunicorn` reports on processes by their command line\n")
    assert cli.main(["report", "./gunicorn x"]) == NO_ANSWER
    assert "--name" not in capsys.readouterr().err


def check_usage(verb: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Check that the only output is the usage of a verb and one line; return the line."""
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"usage: gdbext {verb}".rstrip() + " ")
    *usage, line = captured.err.splitlines()
    assert all(each.startswith(("usage: ", "  ")) for each in usage)
    assert line.startswith(f"gdbext {verb}".rstrip() + ": ")
    return line


@pytest.mark.parametrize("arguments", [
    [], ["core", "--namespace", "1"], ["5", "--json", "--dot", "-"], ["5", "6", "--pid", "7"], ["5", "--pid", "7"],
    ["5", "--name", "x"], ["core", "app", "--core", "x"], ["--name", "x", "--namespace", "1"],
    ["--core", "x", "--children"], ["5", "--children", "--dot", "x"], ["5", "--children", "--brief"]])
def test_options_that_contradict_are_bad_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["report", *arguments]) == 2
    assert "; " in check_usage("report", capsys)


@pytest.mark.parametrize("verb", ["report", "attach"])
@pytest.mark.parametrize(("arguments", "complaint"), [
    (["--pid", "x"], "argument --pid: x is not the number of a process"),
    (["--pid", "-5"], "argument --pid: -5 is not the number of a process"),
    (["5", "--namespace", "x"], "argument --namespace: x is not the number of a process"),
    (["--name", ""], "argument --name: an empty pattern matches every process"),
    (["--name", "a("], "argument --name: a( is not a regular expression: missing ), unterminated subpattern at "
                       "position 1"),
    (["--name", "a{99999999999}"], "argument --name: a{99999999999} is not a regular expression: the repetition number "
                                   "is too large"),
])
def test_invalid_value_is_one_line_after_the_usage(verb: str, arguments: list[str], complaint: str,
                                                   capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main([verb, *arguments])
    assert ended.value.code == 2
    assert check_usage(verb, capsys) == f"gdbext {verb}: error: {complaint}"


@pytest.fixture
def fake_gdb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A GDB that only prints its versions."""
    gdb = tmp_path / "gdb"
    gdb.write_text("""#!/bin/sh
echo 'gdbext-probe:{"version": "13.1", "python": [3, 11, 2], "pygments": null}'
""")
    gdb.chmod(0o755)
    monkeypatch.setenv("GDBEXT_GDB", str(gdb))


@pytest.mark.usefixtures("fake_gdb")
@pytest.mark.parametrize("line", ["report {}", "attach {}", "triage {}", "dask {}", "report --core {}", "dump {}",
                                  "show {}"])
def test_file_that_does_not_exist_has_the_same_status_in_every_verb(line: str,
                                                                    capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(line.format("/nonexistent").split()) == NO_ANSWER
    (complaint,) = capsys.readouterr().err.splitlines()
    assert "/nonexistent" in complaint


@pytest.mark.usefixtures("fake_gdb")
@pytest.mark.parametrize("line", ["report {}", "attach {}", "triage {}", "watch {}", "report --pid {}",
                                  "attach --pid {}"])
@pytest.mark.parametrize("pid", ["0", "4194305", "99999999999999999999"])
def test_process_that_does_not_exist_has_the_same_status_in_every_verb(pid: str, line: str,
                                                                       capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(line.format(pid).split()) == NO_ANSWER
    captured = capsys.readouterr()
    assert f"there is no process {pid}; `ps -e` lists the processes" in captured.out + captured.err


# -- what goes wrong ends with no verdict ---------------------------------------------------------------------------

#: A command line of each verb.
LINES = {"report": ["report", "5"], "show": ["show", "x.json"], "issue": ["issue", "5"],
         "dump": ["dump", "5"], "diff": ["diff", "x.json", "y.json"], "attach": ["attach", "5"],
         "triage": ["triage", "5"], "dask": ["dask", "tcp://x:1"],
         "ranks": ["ranks", "5"],
         "run": ["run", "--", "true"], "watch": ["watch", "5"],
         "install": ["install"], "known": ["known"], "doctor": ["doctor"], "completion": ["completion", "bash"]}


@pytest.mark.parametrize("error", [
    AttributeError("x"), KeyError(0), RecursionError(), MemoryError(), NotImplementedError("a\nb"), StopIteration(),
    UnicodeEncodeError("ascii", "\xe9", 0, 1, "no"), ArithmeticError("\x1b[2J"), SystemExit(1), SystemExit(5),
    SystemExit("it failed"), SystemExit(None)], ids=repr)
@pytest.mark.parametrize("verb", VERBS)
def test_mistake_of_a_verb_has_one_line_and_is_no_verdict(verb: str, error: BaseException,
                                                           monkeypatch: pytest.MonkeyPatch,
                                                           capsys: pytest.CaptureFixture[str]) -> None:
    def run(options: object) -> int:
        raise error

    module = next(module for module in cli.modules() if verb == module.NAME)
    monkeypatch.setattr(module, "run", run)
    assert cli.main(LINES[verb]) == NO_ANSWER
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"gdbext {verb}: internal error: ")
    assert line.endswith("; please report it")
    assert line.isprintable()


def shell(command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a launcher, called ``$GDBEXT``, in a shell."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment.update(variables, GDBEXT=f"{sys.executable} -m gdbext", PYTHONPATH=str(CHECKOUT))
    return subprocess.run(["sh", "-c", command], encoding="latin-1", capture_output=True, check=False,
                          stdin=subprocess.DEVNULL, env=environment)


@pytest.mark.parametrize("closed", [">&-", "<&- >&-"])
@pytest.mark.parametrize("verb", VERBS)
def test_closed_standard_output_is_one_line(verb: str, closed: str) -> None:
    done = shell(f"$GDBEXT {' '.join(LINES[verb])} {closed}")
    assert (done.returncode, done.stdout) == (NO_ANSWER, "")
    assert done.stderr == ("gdbext: standard output is closed, so the report cannot be written; "
                           "redirect it to a file: > FILE\n")


@pytest.mark.parametrize("elsewhere", ["2>&-", "2>/dev/full", "2>&- >&-", ">/dev/full", ">/dev/full 2>/dev/full"])
def test_message_that_cannot_be_written_does_not_change_the_status(elsewhere: str) -> None:
    done = shell(f"$GDBEXT report /nonexistent {elsewhere}")
    assert done.returncode == NO_ANSWER
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("line", ["--help", "report --help", "completion bash", "--version"])
def test_help_on_a_full_disk_is_one_line(line: str) -> None:
    done = shell(f"$GDBEXT {line} >/dev/full")
    assert done.returncode == NO_ANSWER
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(("encoding", "text"), [
    ("ascii", "gr\\xf6\\u4e00"), ("latin-1:strict", "gr\u00f6\\u4e00"), ("utf-8", "gr\u00c3\u00b6\u00e4\u00b8\u0080")])
def test_letters_that_the_encoding_lacks_are_escaped(encoding: str, text: str) -> None:
    program = ("from gdbext.launcher import cli; from gdbext.launcher.verbs import report; "
               "report.run = lambda options: print('gr\u00f6\u4e00') or 0; raise SystemExit(cli.main(['report', '5']))")
    done = shell(f'{sys.executable} -c "{program}"', PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", f"{text}\n")


@pytest.mark.parametrize("folder", ["~nobody-of-that-name/x", "x" * 5000, "/etc/passwd/x"])
def test_search_folder_that_does_not_exist_is_bad_usage(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["report", "5", "--search", folder])
    assert ended.value.code == 2
    assert "is not a folder" in capsys.readouterr().err


def test_targets_and_options_are_parsed(targets_and_options: list[tuple[Target, Options]], tmp_path: Path) -> None:
    for arguments in (["4711"], ["./4711"], ["core", "app"]):
        assert cli.main(["report", *arguments, "--search", str(tmp_path), "--timeout=2.5", "--each"]) == 1
    assert [target for target, _ in targets_and_options] == [
        Target(pid=4711), Target(core=Path("4711")), Target(core=Path("core"), executable=Path("app"))]
    options = targets_and_options[0][1]
    assert (options.timeout, options.search, options.each, options.stacks) == (2.5, (tmp_path,), True, "full")
    assert options.colour is False, "no terminal"


@pytest.mark.parametrize(("arguments", "environment", "colour"), [
    ([], {}, False), (["--color=always"], {}, True), (["--color=always"], {"NO_COLOR": "1"}, True),
    ([], {"FORCE_COLOR": "1"}, True), (["--color=never"], {"FORCE_COLOR": "1"}, False),
    (["--color=auto"], {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
])
def test_option_and_environment_choose_colour(arguments: list[str], environment: dict[str, str], colour: bool,
                                              targets_and_options: list[tuple[Target, Options]],
                                              monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert cli.main(["report", "5", *arguments]) == 1
    assert [options.colour for _, options in targets_and_options] == [colour]


@pytest.mark.usefixtures("targets_and_options")
def test_output_is_text_json_or_dot(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert cli.main(["report", "5"]) == 1
    text = capsys.readouterr()
    assert text.out == "text\n"
    assert text.err == "gdbext report: a note\ngdbext report: process 5 was paused for 0.25 s\n"
    cli.main(["report", "5", "--json"])
    assert capsys.readouterr().out == '{"schema": "gdbext/1"}\n'
    cli.main(["report", "5", "--dot", "-"])
    assert capsys.readouterr().out == "digraph {}\n"
    cli.main(["report", "5", "--dot", str(tmp_path / "graph")])
    assert (tmp_path / "graph").read_text() == "digraph {}\n"


def test_problem_is_one_escaped_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(api, "take_snapshot", lambda target, options: seen(NO_GDB, "no gdb\x1b[2J"))
    assert cli.main(["report", "5"]) == NO_GDB
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines()[-1] == r"gdbext report: no gdb\x1b[2J; do this"


def test_ctrl_c_exits_with_130(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def take_snapshot(target: Target, options: Options) -> Snapshot:
        raise KeyboardInterrupt

    monkeypatch.setattr(api, "take_snapshot", take_snapshot)
    assert cli.main(["report", "5"]) == 130
    assert capsys.readouterr().err == "gdbext report: interrupted\n"


def test_closed_pipe_is_silent() -> None:
    """As in `gdbext completion bash | head -1`."""
    done = subprocess.run(f"{sys.executable} -m gdbext completion zsh | true", shell=True, capture_output=True,
                          text=True, check=False, cwd=Path(cli.__file__).parents[2])
    assert done.stderr == ""


@pytest.mark.parametrize(("typed", "offered"), [
    (["gdbext", "re"], ["report"]),
    (["gdbext", "report", "--sta"], ["--stacks"]),
    (["gdbext", "report", "--stacks", ""], ["full", "top", "none"]),
    (["gdbext", "install", "--w"], ["--write"]),
    (["gdbext", "install", "--r"], ["--remove"]),
    (["gdbext", "completion", "b"], ["bash"]),
    (["gdbext", "report", "1"], None),
    (["gdbext", "report", "--na"], ["--name", "--namespace", "--native"]),
    (["gdbext", "report", "--co"], ["--core", "--color"]),
    (["gdbext", "triage", "--color", ""], ["auto", "always", "never"]),
    (["gdbext", "dask", "--no-p"], ["--no-pager"]),
    (["gdbext", "attach", "--core", "f"], ["file", "folder"]),
    (["gdbext", "report", "--pid", "1s"], []),
    (["gdbext", "triage", "core", "1"], None),
    (["gdbext", "report", "--namespace", "1s"], []),
    (["gdbext", "report", "--sysroot", "f"], ["folder"]),
    (["gdbext", "report", "--html", "f"], ["file", "folder"]),
])
def test_bash_completes(typed: list[str], offered: list[str] | None, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for name in ("file", "1st.core"):
        (tmp_path / name).touch()
    (tmp_path / "completion").write_text(completion.script("bash"))
    words = " ".join(f"'{word}'" for word in typed)
    script = (f"source ./completion; COMP_WORDS=({words}); COMP_CWORD={len(typed) - 1}; _shtab_gdbext; "
              "printf '%s\\n' \"${COMPREPLY[@]}\"")
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert done.stderr == ""
    found = done.stdout.split()
    assert found == offered if offered is not None else {"1", "1st.core"} <= set(found), "processes and files"


def test_zsh_gets_all_verbs_and_options() -> None:
    text = completion.script("zsh")
    assert text.startswith("#compdef gdbext\n")
    for module in cli.modules():
        assert f"\n    {module.NAME}:'{module.HELP}'" in text.replace("\\", "")
        assert f"\n        {module.NAME}) " in text
    assert '"*--search[' in text
    assert '"--stacks[how much of each stack is shown (default\\: full)]:stacks:(full top none)"' in text
    assert text.count(":{_pids; _files}") == 5, "report, dump, issue, attach, triage"
    assert "\n        dump) " in text


def test_completion_without_shtab_says_what_to_install(monkeypatch: pytest.MonkeyPatch,
                                                       capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert cli.main(["completion", "bash"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("gdbext completion: completion needs shtab, which cannot be imported: ")
    assert captured.err.endswith("; pip install shtab\n")
    assert len(captured.err.splitlines()) == 1


def test_no_stop_means_no_gdb(targets_and_options: list[tuple[Target, Options]],
                              capsys: pytest.CaptureFixture[str]) -> None:
    """GDB stops the process."""
    cli.main(["report", "5", "--no-stop"])
    (_, options), = targets_and_options
    assert (options.without_gdb, options.may_stop) == (True, False)
    assert cli.main(["report", "5", "--no-stop", "--gdb", "gdb"]) == 2
    assert "leave out one of --gdb and --no-stop" in capsys.readouterr().err


@pytest.mark.parametrize(("arguments", "shown"), [
    ((), True), (("--html", "page"), False), (("--dot", "graph"), False), (("--html", "page", "--values"), True)])
def test_values_of_others_are_shown_unless_a_file_gets_them(
        arguments: Sequence[str], shown: bool, targets_and_options: list[tuple[Target, Options]],
        capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Snapshot, "for_page", lambda self: Shown("process 5", None, "no answer"))
    assert cli.main(["report", str(os.getpid()), *arguments]) == 1
    ((_, options),) = targets_and_options
    assert options.values_of_others == shown


def test_standard_output_may_be_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with open(tmp_path / "out", "w") as file:
        monkeypatch.setattr(sys, "stdout", file)
        assert not cli.shows_values(argparse.Namespace(values_of_others=False))
        assert cli.shows_values(argparse.Namespace(values_of_others=True))
