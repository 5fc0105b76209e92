"""The verb `show`: saved reports without their targets."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gdbext.commands.answer import whole_text
from gdbext.launcher import cli
from gdbext.launcher.status import BAD_USAGE, FOUND, NO_ANSWER, NOTHING_FOUND, OUTSIDE
from gdbext.model import Report
from gdbext.render.brief import brief_json, brief_text
from gdbext.render.style import PLAIN
from gdbext.render.text import TextRenderer
from gdbext.schema.write import ALL_PARTS
from tests.support.documents import as_json
from tests.support.fake_report import asyncio, crashed, gil_deadlock, healthy, stopped


def renderer(report: Report) -> TextRenderer:
    return TextRenderer(report, PLAIN, lambda path, line: None)


@pytest.fixture(autouse=True)
def _surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def shown(capsys: pytest.CaptureFixture[str], document: str, *words: str, status: int = FOUND) -> str:
    Path("found.json").write_text(document, encoding="utf-8")
    assert cli.main(["show", "found.json", *words]) == status
    return capsys.readouterr().out


@pytest.mark.parametrize("report", [gil_deadlock(), asyncio(), crashed()], ids=["deadlock", "tasks", "crash"])
def test_whole_report_has_all_sections(report: Report, capsys: pytest.CaptureFixture[str]) -> None:
    document = as_json(report, ALL_PARTS)
    assert shown(capsys, document) == whole_text(renderer(report), False, "full")
    assert shown(capsys, document, "--stacks=top", "--each") == whole_text(renderer(report), True, "top")
    assert shown(capsys, document, "--brief") == brief_text(report, PLAIN)
    assert shown(capsys, document, "--brief", "--json") == brief_json(report)
    assert json.loads(shown(capsys, document, "--json")) == json.loads(document)
    shown(capsys, document, "--html", "page.html")
    assert os.path.getsize("page.html") > 1_000


def test_file_in_place_of_a_verb_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    Path("found.json").write_text(as_json(gil_deadlock()), encoding="utf-8")
    assert cli.main(["found.json", "verdict"]) == FOUND
    assert capsys.readouterr().out == renderer(gil_deadlock()).deadlocks()


def test_question_about_a_thread(capsys: pytest.CaptureFixture[str]) -> None:
    document = as_json(gil_deadlock())
    text = shown(capsys, document, "thread", "2")
    assert text.startswith("""\
Thread 2 (LWP 886, TID 2) "loader" waits for the GIL, held by thread 1 "MainThread"
  holds pthread rwlock 0x5591e0c0 in libdrv.so
""")
    assert "  #1   work at /app/job.py:17\n" in text
    assert shown(capsys, document, "thread", "886") == text  # its LWP
    assert "#1" not in shown(capsys, document, "thread", "2", "--stacks=none")
    made = json.loads(shown(capsys, document, "thread", "2", "--json"))
    assert (made["number"], made["waits"]["lock"]) == (2, "gil:0")


def test_thread_of_the_verdict_has_its_wait_without_the_verdict_above(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, as_json(healthy()), "thread", "1", status=NOTHING_FOUND)
    assert text.startswith('Thread 1 (LWP 885, TID 1) "MainThread" runs\n')


def test_question_about_a_lock(capsys: pytest.CaptureFixture[str]) -> None:
    document = as_json(gil_deadlock())
    text = shown(capsys, document, "lock", "rwlock:0x5591e0c0")
    assert text.startswith("Pthread rwlock 0x5591e0c0 in libdrv.so, write-locked by thread 2 \"loader\"\n  holder: ")
    assert shown(capsys, document, "lock", "0x5591e0c0") == text
    assert json.loads(shown(capsys, document, "lock", "gil:0", "--json"))["state"] == "held"


def test_verdict_of_a_report(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, as_json(stopped()), "verdict", status=OUTSIDE) == renderer(stopped()).deadlocks()
    assert json.loads(shown(capsys, as_json(stopped()), "verdict", "--json", status=OUTSIDE))["kind"] == "stopped"


@pytest.mark.parametrize(("question", "complaint"), [
    (["thread", "9"], "there is no thread 9 in the report; it has threads 1-5"),
    (["lock", "0x9\x1b"], "there is no lock 0x9\\x1b in the report; it has rwlock:0x5591e0c0, rwlock:0x6000, gil:0"),
    (["thread"], "thread is not a question about a report; ask for `verdict`, `thread N` or `lock ID`"),
    (["verdict", "3"], "verdict 3 is not a question about a report; ask for `verdict`, `thread N` or `lock ID`"),
])
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_question_that_the_report_cannot_answer_is_bad_usage(question: list[str], complaint: str, options: list[str],
                                                             capsys: pytest.CaptureFixture[str]) -> None:
    Path("found.json").write_text(as_json(gil_deadlock()), encoding="utf-8")
    assert cli.main(["show", "found.json", *question, *options]) == BAD_USAGE
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines()[-1] == f"gdbext show: {complaint}"


@pytest.mark.parametrize("text", ["", "{", "[]", "5", "{}", '{"schema": "gdbext-triage/1"}', "[" * 100_000])
def test_file_that_is_no_document_is_one_line(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, text, status=NO_ANSWER) == ""


def tree(verdict: Any, deadlocks: Any) -> str:
    document = json.loads(as_json(healthy()))
    document["processes"] = {"deadlocks": deadlocks, "tree": [
        {"target": "process 885", "verdict": "children", "title": "WAITS FOR CHILD PROCESSES", "sentence": "it waits"},
        {"target": "process 886", "verdict": verdict, "title": "DEADLOCK", "sentence": "2 threads \x1b wait"},
        {"target": "process 887", "verdict": None, "title": None, "sentence": None}]}
    return json.dumps(document)


def test_other_processes_that_explain_the_hang_come_first(capsys: pytest.CaptureFixture[str]) -> None:
    lines = ["process 885: WAITS FOR CHILD PROCESSES: it waits", "process 886: DEADLOCK: 2 threads \\x1b wait",
             "process 887: not read"]
    document = tree("deadlock", [])
    for words in ((), ("verdict",)):
        assert shown(capsys, document, *words).splitlines()[:4] == [*lines, ""]
    assert shown(capsys, document, "--brief").splitlines()[1:4] == lines
    # an innocent twin
    assert shown(capsys, tree("computing", []), status=NOTHING_FOUND).splitlines()[0] == lines[0]
    between = tree("computing", [{"processes": [885, 886], "evidence": "derived", "why": "both wait"}])
    assert shown(capsys, between).splitlines()[3] == "Deadlock between processes 885, 886 (derived: both wait)"


@pytest.mark.parametrize("broken", [[5], {}, None, "x"])
def test_processes_that_do_not_follow_the_schema_are_one_line(broken: object,
                                                              capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, tree([], broken), status=NO_ANSWER) == ""
    document = {**json.loads(as_json(healthy())), "processes": broken or []}
    assert shown(capsys, json.dumps(document), status=NO_ANSWER) == ""
