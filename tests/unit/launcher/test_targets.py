"""The targets that a command line names."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from gdbext.launcher import api, cli, named_processes, targets
from gdbext.launcher.snapshots.options import Options, Target
from gdbext.launcher.snapshots.snapshot import Snapshot
from gdbext.launcher.status import FOUND, NO_ANSWER, NOTHING_FOUND
from gdbext.render.escape import NOTHING, Safe


@pytest.fixture(autouse=True)
def _keep_handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(("line", "expected"), [
    ("4711", Target(pid=4711)), ("--pid 4711", Target(pid=4711)), ("./4711", Target(core=Path("4711"))),
    ("--core 4711", Target(core=Path("4711"))), ("--core 4711 app", Target(core=Path("4711"), executable=Path("app"))),
    ("app --core 4711", Target(core=Path("4711"), executable=Path("app"))),
    ("core app", Target(core=Path("core"), executable=Path("app"))), ("-", Target(core=Path("/dev/stdin"))),
    ("--core -", Target(core=Path("/dev/stdin"))), ("--core=--pid", Target(core=Path("--pid"))),
])
@pytest.mark.parametrize("verb", ["report", "attach"])
def test_target_by_position_or_option(verb: str, line: str, expected: Target) -> None:
    options = cli.parser().parse_args([verb, *line.split()])
    assert targets.parse_targets(options) == [expected]
    assert targets.parse_target(options) == expected


@pytest.fixture
def three(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three processes match every pattern."""
    monkeypatch.setattr(named_processes, "find_processes", lambda wanted: [7, 8, 9])


def snapshot(target: Target, status: int = NOTHING_FOUND) -> Snapshot:
    if status not in (NOTHING_FOUND, FOUND):
        return Snapshot(target.name, None, NOTHING, NOTHING, None, 1.0, "it ended", None, status)
    document = json.dumps({"schema": "gdbext/1", "of": target.pid}).encode()
    return Snapshot(target.name, document, Safe(f"text of {target.pid}\n"), Safe(f"digraph {target.pid}\n"), None, 1.0,
                    None, None, status)


@pytest.mark.usefixtures("three")
@pytest.mark.parametrize(("statuses", "status", "taken"), [
    ((0, 0, 0), 0, 3), ((0, 1, 3), 1, 3), ((0, 3, 0), 3, 3), ((4, 0, 0), 4, 1), ((1, 5, 0), 1, 3)])
def test_name_reports_on_each_process_in_turn(statuses: tuple[int, ...], status: int, taken: int,
                                              monkeypatch: pytest.MonkeyPatch,
                                              capsys: pytest.CaptureFixture[str]) -> None:
    left, seen = list(statuses), []

    def take_snapshot(target: Target, options: Options) -> Snapshot:
        seen.append(target.pid)
        return snapshot(target, left.pop(0))

    monkeypatch.setattr(api, "take_snapshot", take_snapshot)
    assert cli.main(["report", "--name", "x"]) == status
    assert seen == [7, 8, 9][:taken]
    captured = capsys.readouterr()
    read = [pid for pid, each in zip(seen, statuses) if each in (NOTHING_FOUND, FOUND)]
    assert captured.out == "\n".join(f"text of {pid}\n" for pid in read)
    failed = [pid for pid, each in zip(seen, statuses) if each not in (NOTHING_FOUND, FOUND)]
    name = "process {}: " if len(seen) > 1 else ""
    assert [line for line in captured.err.splitlines() if "it ended" in line] == [
        f"gdbext report: {name.format(pid)}it ended" for pid in failed]


@pytest.mark.usefixtures("three")
def test_name_with_files_has_all_processes_in_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                   capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(api, "take_snapshot", lambda target, options: snapshot(target))
    assert cli.main(["report", "--name", "x", "--json", "--dot", str(tmp_path / "graph")]) == 0
    assert capsys.readouterr().out == "".join(f'{{"schema": "gdbext/1", "of": {pid}}}\n' for pid in (7, 8, 9))
    assert (tmp_path / "graph").read_text() == "digraph 7\ndigraph 8\ndigraph 9\n"


@pytest.mark.usefixtures("three")
def test_interrupt_keeps_the_reports_before_it(monkeypatch: pytest.MonkeyPatch,
                                               capsys: pytest.CaptureFixture[str]) -> None:
    def take_snapshot(target: Target, options: Options) -> Snapshot:
        if target.pid == 8:
            raise KeyboardInterrupt
        return snapshot(target)

    monkeypatch.setattr(api, "take_snapshot", take_snapshot)
    assert cli.main(["report", "--name", "x"]) == 130
    assert "text of 7\n" in capsys.readouterr().out


@pytest.mark.usefixtures("three")
@pytest.mark.parametrize("arguments", [["attach", "--name", "x"], ["report", "--name", "x", "--children"]])
def test_verb_of_one_process_refuses_several(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(arguments) == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"gdbext {arguments[0]}: --name x matches 3 processes, and this needs one: 7, 8, 9; name one: --pid PID")


@pytest.mark.parametrize("verb", ["report", "attach"])
def test_name_without_a_match_is_one_line(verb: str, monkeypatch: pytest.MonkeyPatch,
                                          capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(named_processes, "find_processes", lambda wanted: [])
    monkeypatch.setattr(targets, "container_kind", lambda: "Docker")
    assert cli.main([verb, "--name", "a.*\x1b"]) == NO_ANSWER
    assert capsys.readouterr().err == (f"gdbext {verb}: no process matches a.*\\x1b; `ps -e` lists the processes; "
                                       "inside a container only its own are visible\n")
