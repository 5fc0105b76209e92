"""The documents of whole sessions are read as reports, which are written as the same documents."""

from __future__ import annotations

from pathlib import Path

from gdbext.schema.read import read_document
from gdbext.schema.write import document
from tests.support import crashes, gdb_session
from tests.support.gdb_session import Result
from tests.support.samples import Sample


def check(session: Result) -> None:
    """Read each document of a session and write it again with the same parts."""
    assert session.status == 0, str(session)
    for index in range(len(session.commands)):
        made = session.document(index)
        assert document(read_document(made), made.keys()) == made, session.commands[index]


def test_documents_of_a_native_deadlock(native: Sample) -> None:
    commands = ("py-threads-locks --json", "py-deadlocks --json", "lock-owner --json")
    check(gdb_session.batch(["-p", str(native.pid)], commands))


def test_documents_of_a_python_deadlock(kernel_core: tuple[Path, Sample]) -> None:
    core, sample = kernel_core
    session = gdb_session.batch([sample.executable, core], (
        "py-threads-locks --tasks --json", "py-mixed-bt -full --json", "gil-holder --json"))
    check(session)
    threads = session.document(0)["threads"]
    assert any(thread["parts"] for thread in threads)


def test_crash_document(tmp_path: Path) -> None:
    with crashes.crash("handle", "3.11", "kernel-core", tmp_path) as crash:
        session = gdb_session.batch(crash.gdb_args, ("py-crash --json",), symbols=crash.symbols)
        check(session)
    assert session.document()["crash"]["parts"]


def test_document_of_a_stack_overflow(tmp_path: Path) -> None:
    """Its document does not list all frames."""
    with crashes.crash("overflow-c", crashes.STORIES["overflow-c"].pythons[-1], "kernel-core", tmp_path) as crash:
        session = gdb_session.batch(crash.gdb_args, ("py-crash --json",), symbols=crash.symbols)
        check(session)
    assert session.document()["crash"]["frames_left_out"] > 0
