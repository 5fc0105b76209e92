"""Commands change nothing in the target: memory, threads and state are the same afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import gdb_session, interpreters, samples

COMMANDS = (
    "py-threads-locks",
    "py-threads-locks --json",
    "py-deadlocks",
    "py-deadlocks --json",
    "gil-holder",
    "gil-holder --json",
    "rwlock-owner",
    "lock-owner",
    "rwlock-owner {lock}",
    "lock-owner {lock} --json",
    "py-mixed-bt -full",
    "py-mixed-bt -full --json",
    "bt",
    "bt -full",
)
# commands that apply to a program without Python
NATIVE_COMMANDS = tuple(command for command in COMMANDS if not command.startswith("gil-holder"))


@pytest.mark.parametrize("command", NATIVE_COMMANDS)
def test_memory_of_a_native_program_is_unchanged(command: str, tmp_path: Path) -> None:
    """All threads of the sample sleep, so every writable byte must stay the same."""
    with samples.abba("rwlock", tmp_path, rseq=False) as sample:
        lock = sample.truth.locks["one"].address
        before, tids = sample.writable_memory(), sample.tids()
        session = gdb_session.batch(["-p", str(sample.pid)], [command.format(lock=f"{lock:#x}")])
        assert session.status == 0
        assert not sample.is_stopped()
        sample.wait_until_final()
        assert sample.tids() == tids
        assert sample.writable_memory() == before
        assert sample.process.poll() is None


@pytest.mark.parametrize("command", COMMANDS)
def test_python_program_continues(command: str, tmp_path: Path) -> None:
    """Threads waiting for the GIL wake up all the time, so only the lock's own bytes must stay the same."""
    python, symbols = interpreters.use(interpreters.ANY)
    with samples.rapids(python, "rwlock", tmp_path) as sample:
        lock = sample.truth.locks["table"].address
        assert lock is not None
        before, tids = sample.read_memory(lock, 56), sample.tids()
        session = gdb_session.batch(["-p", str(sample.pid)], [command.format(lock=f"{lock:#x}")], symbols=symbols)
        assert session.status == 0
        assert not sample.is_stopped()
        sample.wait_until_final()
        assert sample.tids() == tids
        assert sample.read_memory(lock, 56) == before


@pytest.mark.parametrize("command", ["rwlock-owner", "lock-owner"])
def test_address_that_calls_a_function_is_refused(command: str, tmp_path: Path) -> None:
    """An address is an expression, and GDB would call a function in the target to evaluate this one."""
    with samples.abba("rwlock", tmp_path) as sample:
        session = gdb_session.batch(
            ["-p", str(sample.pid)], ["output calls", f"{command} run_by_nobody()", "output calls"]
        )
        assert session.outputs[0] == session.outputs[2] == "0"
        assert len(session.error_lines(command)) == 1
        assert not sample.is_stopped()


def test_selected_thread_and_frame_stay(tmp_path: Path) -> None:
    python, symbols = interpreters.use(interpreters.ANY)
    ask = ["python print(gdb.selected_thread().ptid)", "python print(gdb.selected_frame().level())"]
    with samples.rapids(python, "readers", tmp_path) as sample:
        lock = sample.truth.locks["table"].address
        commands = ["thread 2", "frame 3", *ask]
        for command in COMMANDS:
            commands += [command.format(lock=f"{lock:#x}"), *ask]
        session = gdb_session.batch(["-p", str(sample.pid)], commands, symbols=symbols)
    assert session.status == 0
    thread, frame = session.outputs[2:4]
    assert frame == "3"
    for index in range(4, len(commands), 3):
        assert session.outputs[index + 1 : index + 3] == (thread, frame), commands[index]
