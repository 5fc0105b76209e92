"""What `redact` takes out of a report, and what it keeps."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from gdbext.commands.answer import whole_text
from gdbext.model import Local, NamedObject, PyFrame, Report
from gdbext.model.reasons import because
from gdbext.narrate.names import Facts
from gdbext.narrate.sentences import sentence
from gdbext.narrate.words import plain
from gdbext.redact import TAKEN, Redaction, program_of, redact, short_path
from gdbext.render.brief import brief_json, brief_text
from gdbext.render.style import PLAIN
from gdbext.render.text import TextRenderer
from gdbext.verdict.judge import verdict_of
from tests.support import fake_report
from tests.support.documents import as_json

REPORTS = [getattr(fake_report, name)() for name in (
    "gil_deadlock", "world_that_does_not_stop", "inferred_deadlock", "orphaned", "left_behind", "standstill",
    "without_verdict", "stopped", "traced", "healthy", "asyncio", "crashed")]
SECRETS = ("alice", "tok123", "acme", "dbhost", "10.1.2.3", "fe80::1", "bob@example.org", "carol", "/srv/", "hunter2")


def text(report: Report) -> str:
    return whole_text(TextRenderer(report, PLAIN, lambda path, line: None), True, "full")


def private() -> Report:
    """A report with something private in each member that may have it."""
    report = fake_report.gil_deadlock()
    first, *others = report.threads
    frame = PyFrame("work", "Job.work", "/home/alice/acme/app/job.py", 3)
    first = dataclasses.replace(
        first, name="carol-loader", stack=(frame, *first.stack), parts=(),
        variables=((Local("x", "str", "'hunter2'"),),),
        blocked_on=because("of-descriptor", fd=3, end=because("other-end", ends=(
            because("process-running", pid=7, name="db", command="/srv/acme/db --password tok123"),))))
    locks = tuple([dataclasses.replace(lock, name="fd 3, /srv/acme/My Files/q3.db", of_object=NamedObject(
        "Account", "name", "'hunter2'")) for lock in report.locks])
    target = dataclasses.replace(report.target, host="dbhost.example.org", executable="/home/alice/venv/bin/python3",
                                 command_line="/home/alice/venv/bin/python3 /srv/acme/job.py --token tok123")
    notes = tuple([because("text", text=note) for note in (
        "TCP 10.1.2.3:5432 of dbhost, UDP [fe80::1]:53 at /data/acme/x", "written by bob@example.org for carol")])
    return dataclasses.replace(report, target=target, threads=(first, *others), locks=locks, notes=notes)


@pytest.mark.parametrize("show", [text, as_json, lambda report: brief_text(report, PLAIN), brief_json],
                         ids=["text", "json", "brief", "brief-json"])
def test_nothing_private_remains_in_any_form(show: Any) -> None:
    shown = show(redact(private(), ["carol"]))
    assert [secret for secret in SECRETS if secret in shown] == []
    assert any(secret in show(private()) for secret in SECRETS)


def test_last_line_lists_what_was_taken_out() -> None:
    taken = ("Left out: what is private: the arguments of the program, the name of the machine, the name of the user, "
             "folders of files, addresses, values, names of objects, source lines")
    report = redact(private(), ["carol"])
    assert text(report).splitlines()[-1] == taken
    assert brief_text(report, PLAIN).splitlines()[-1].endswith("; " + taken.partition(": ")[2])
    plain_report = dataclasses.replace(fake_report.healthy(), threads=(), locks=(), notes=())
    assert text(redact(plain_report, source=True)).splitlines()[-1].startswith("Left out: what is private")


@pytest.mark.parametrize("report", REPORTS)
def test_verdict_does_not_change(report: Report) -> None:
    made = redact(report, ["work", "loader"])
    assert verdict_of(made) == verdict_of(report)
    assert [len(thread.stack) for thread in made.threads] == [len(thread.stack) for thread in report.threads]
    assert redact(made) == made  # and nothing is left to take out
    assert plain(sentence(Facts(redact(report)))).count(" ") == plain(sentence(Facts(report))).count(" ")


def test_second_redaction_keeps_the_list_of_the_first() -> None:
    once = redact(private(), ["carol"])
    assert redact(once).problems[-1] == once.problems[-1]


@pytest.mark.parametrize(("path", "short"), [
    ("/home/alice/acme/app/job.py", ".../job.py"), ("/home/alice/job.py", "~/job.py"), ("/root/job.py", "~/job.py"),
    ("/srv/acme/worker/__main__.py", ".../worker/__main__.py"), ("/srv/data/q3.db", ".../q3.db"),
    ("/opt/v/lib/python3.11/site-packages/requests/api.py", ".../site-packages/requests/api.py"),
    ("/opt/py/lib/python3.11/threading.py", ".../lib/python3.11/threading.py"),
    ("/usr/lib/python3.11/threading.py", "/usr/lib/python3.11/threading.py"), ("<frozen importlib>", ) * 2,
    ("/usr/local/lib/python3.11/site-packages/a/b.py", ".../site-packages/a/b.py"), ("job.py", "job.py"),
    ("/dev/shm/sem.x", "/dev/shm/sem.x"), ("src/acme/job.py", ".../job.py")])
def test_path_keeps_what_is_the_same_on_each_machine(path: str, short: str) -> None:
    assert short_path(path) == short_path(short) == short


@pytest.mark.parametrize(("command", "program"), [
    ("/home/a/bin/python3 -u /srv/job.py --token x", "python3 job.py"),
    ("python -m acme.tool --x", "python -m acme.tool"),
    ("python3 -c 'secret.py'", "python3"), ("/srv/bin/server --password x", "server"), ("", ""),
    ("python3 /srv/acme/secret arg.py", "python3")])
def test_program_is_named_without_arguments(command: str, program: str) -> None:
    assert program_of(command) == program == program_of(program)


def test_addresses_of_this_machine_and_words_of_the_model_remain() -> None:
    redaction = Redaction(None, ["mutex", "alice"])
    kept = "127.0.0.1:80 [::1]:80 0.0.0.0:1 version 3.11.7"
    assert redaction(kept) == kept
    assert redaction(because("records-no-owner", what="mutex")) == because("records-no-owner", what="mutex")
    assert redaction.taken == set()
    assert redaction("alice's malice") == "USER's malice"
    assert redaction.taken == {"user"}


def test_message_of_the_c_library_remains() -> None:
    redaction = Redaction(None)
    for message, left in (("free(): invalid pointer", "free(): invalid pointer"), ("no customer Bob", "...")):
        assert redaction(because("abort-after", message=message)) == because("abort-after", message=left)


def test_several_machines_remain_distinct() -> None:
    @dataclasses.dataclass
    class Member:
        host: str

    assert [each.host for each in Redaction(None)((Member("a"), Member("b"), Member("a")))] == [
        "HOST1", "HOST2", "HOST1"]


def test_all_that_may_be_taken_out_has_words() -> None:
    from gdbext.narrate.reasons import explain

    assert explain(because("redacted", taken=TAKEN)).count(",") == len(TAKEN) - 1
