"""Many snapshots at a time: order, failures, interruption, and stored results."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from gdbext.launcher.snapshots.pool import Record, State, run_all

# -- the pool ------------------------------------------------------------------------------------------------


def test_done_is_called_once_for_each_thing_in_the_calling_thread() -> None:
    done: dict[int, int] = {}
    where = set()

    def note(thing: int, result: int) -> None:
        where.add(threading.get_ident())
        done[thing] = result

    def double(thing: int) -> int:
        return thing * 2

    run_all(range(50), 3, double, note)
    assert done == {number: number * 2 for number in range(50)}
    assert where == {threading.get_ident()}


def test_pool_runs_at_most_that_many_jobs() -> None:
    inside, most = 0, 0
    lock, both = threading.Lock(), threading.Barrier(2)

    def work(thing: int) -> None:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        both.wait(10)  # two are at work, or else this breaks
        with lock:
            inside -= 1

    run_all(range(8), 2, work, lambda thing, result: None)
    assert most == 2


def test_empty_run_calls_nothing() -> None:
    run_all([], 4, lambda thing: thing, lambda thing, result: pytest.fail("called"))


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_exception_in_done_ends_running_work(error: type[BaseException]) -> None:
    ended = threading.Event()
    begun: list[int] = []
    running = threading.Event()

    def work(thing: int) -> int:
        begun.append(thing)
        if thing:
            running.set()
            assert ended.wait(10)
        else:
            assert running.wait(10)
        return thing

    def stop(thing: int, result: int) -> None:
        raise error

    before = threading.active_count()
    with pytest.raises(error):
        run_all(range(100), 2, work, stop, end=ended.set)
    assert ended.is_set()
    assert len(begun) <= 4
    assert threading.active_count() == before


def test_exception_in_work_is_raised() -> None:
    def work(thing: int) -> int:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_all(range(5), 2, work, lambda thing, result: None, end=lambda: None)


# -- what was done -------------------------------------------------------------------------------------------

RECORD = Record("cores/a", 10, 20, "deadlock", "00ff", "it hangs", 3, "x.json.gz")


def test_finished_snapshots_are_loaded_again(tmp_path: Path) -> None:
    state = State(tmp_path / "state")
    assert state.load() == []
    state.add(RECORD)
    state.add(Record("cores/\udcff\n\u2028", 1, 2, problem="not a core", hint="none"))
    again = State(tmp_path / "state")
    assert again.load() == [RECORD, Record("cores/\udcff\n\u2028", 1, 2, problem="not a core", hint="none")]
    state.close()
    assert (tmp_path / "state" / "documents").stat().st_mode & 0o077 == 0


def test_truncated_line_is_ignored(tmp_path: Path) -> None:
    state = State(tmp_path)
    state.add(RECORD)
    state.close()
    snapshots = tmp_path / "snapshots.jsonl"
    whole = snapshots.read_text()
    snapshots.write_text(whole + whole[:30])
    assert state.load() == [RECORD]
    other = Record("cores/b", 1, 1)
    state.add(other)
    state.close()
    assert State(tmp_path).load() == [RECORD, other]


def test_last_snapshot_of_a_file_counts(tmp_path: Path) -> None:
    state = State(tmp_path)
    failed = Record("cores/a", 10, 20, problem="not read within 60 s")
    for record in (failed, RECORD, Record("cores/a", 10, 21)):
        state.add(record)
    assert state.load() == [RECORD, Record("cores/a", 10, 21)]
    state.close()


def test_snapshots_of_another_version_are_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = State(tmp_path)
    state.add(RECORD)
    state.close()
    monkeypatch.setattr("gdbext.__version__", "0.0.0")
    assert State(tmp_path).load() == []


@pytest.mark.parametrize("line", ["", "[]", "{}", "null", '{"format": 1}', "\x00\xff", "\udcff"])
def test_damaged_lines_are_ignored(tmp_path: Path, line: str) -> None:
    state = State(tmp_path)
    (tmp_path / "snapshots.jsonl").write_bytes(line.encode("utf-8", "surrogateescape") + b"\n")
    assert state.load() == []


def test_document_is_read_again_unless_damaged(tmp_path: Path) -> None:
    state = State(tmp_path)
    name = state.store("cores/\udcff", {"schema": "gdbext/1"})
    assert state.read(name) == {"schema": "gdbext/1"}
    assert state.read("gone.json.gz") is None
    (tmp_path / "documents" / name).write_bytes(b"\x1f\x8b\x08")
    assert state.read(name) is None
    assert [path.name for path in (tmp_path / "documents").iterdir()] == [name]


def test_forget_deletes_only_its_own_files(tmp_path: Path) -> None:
    state = State(tmp_path)
    state.store("a", {})
    state.add(RECORD)
    (tmp_path / "mine.txt").write_text("kept")
    state.forget()
    assert state.load() == []
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["documents", "mine.txt"]
