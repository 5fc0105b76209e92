"""Reads gdbext's JSON in terms of a sample's truth: threads by role, locks by name."""

from __future__ import annotations

from typing import Any

from tests.support.samples import LockTruth, Truth

Json = dict[str, Any]


class Report:
    """A document of `py-threads-locks --json`, or a part of it from another command."""

    def __init__(self, document: Json, truth: Truth, roles: dict[int, str] | None = None) -> None:
        """Join a document with the sample's truth.

        :param roles: role by GDB thread number, for documents without threads.
        """
        self.document = document
        self.truth = truth
        assert document["schema"] == "gdbext/1"
        if roles is None:
            # the tid is read from memory, which may be missing in a truncated core
            roles = {
                row["number"]: truth.role_of(row["lwp"] if row["tid"] is None else row["tid"])
                for row in document["threads"]
            }
        self.roles = roles

    def thread(self, role: str) -> Json:
        """The row of a thread."""
        rows: list[Json] = [row for row in self.document["threads"] if self.roles[row["number"]] == role]
        assert len(rows) == 1, f"{role} is listed {len(rows)} times"
        return rows[0]

    def lock(self, name: str) -> Json:
        """The row of a lock in the truth, which must be listed once."""
        expected = self.truth.locks[name]
        rows: list[Json] = [row for row in self.document["locks"] if row["id"] == expected.id]
        assert len(rows) == 1, f"{expected.id} is listed {len(rows)} times among {self.document['locks']}"
        return rows[0]

    def gil(self) -> Json:
        """The GIL of the only interpreter."""
        (runtime,) = self.document["runtimes"]
        (interpreter,) = runtime["interpreters"]
        gil: Json = interpreter["gil"]
        return gil

    def role(self, number: int | None) -> str | None:
        """The role of a thread reference."""
        return None if number is None else self.roles[number]

    def lock_name(self, lock_id: str) -> str:
        """The name of a lock in the truth, or its id if the truth does not contain it."""
        for name, lock in self.truth.locks.items():
            if lock.id == lock_id:
                return name
        return lock_id

    def edges(self) -> set[tuple[str | None, str, str | None]]:
        """The edges of all deadlocks."""
        return {
            (self.role(edge["waiter"]), self.lock_name(edge["lock"]), self.role(edge["holder"]))
            for deadlock in self.document["deadlocks"]
            for edge in deadlock["edges"]
        }

    def holds(self, role: str) -> set[tuple[str, str, str]]:
        """The name, mode and evidence of each lock in the truth that the thread holds."""
        return {
            (self.lock_name(hold["lock"]), hold["mode"], hold["evidence"])
            for hold in self.thread(role)["holds"]
            if self.lock_name(hold["lock"]) in self.truth.locks
        }

    def python_stack(self, role: str) -> tuple[tuple[str, str, int | None], ...]:
        """The function, file and line of a thread's Python frames, innermost first."""
        return tuple(
            (frame["function"], frame["file"], frame["line"])
            for frame in self.thread(role)["stack"]
            if frame["language"] == "python"
        )

    def check_thread(self, role: str) -> None:
        """Compare the state, wait and held locks of a thread with the truth of a sample with scenes."""
        expected = self.truth.threads[role]
        row = self.thread(role)
        assert row["status"] == ("blocked" if expected.blocked else "running")
        assert row["syscall"] == expected.syscall
        waits = row["waits"]
        wanted = [lock for lock in self.truth.locks.values() if role in lock.waiters]
        if wanted:
            (lock,) = wanted
            assert waits is not None, f"waits for {lock.id}"
            assert waits["lock"] == lock.id
            assert waits["mode"] == ("shared" if role in lock.shared else "exclusive")
            assert waits["timed"] == (role in lock.timed)
        else:
            assert waits is None or waits["lock"].startswith("descriptor:")
        held = {(name, lock.mode, lock.evidence) for name, lock in self.truth.locks.items() if role in lock.holders}
        assert self.holds(role) == held

    def check_lock(self, name: str) -> None:
        """Compare the row of a lock with the truth."""
        expected: LockTruth = self.truth.locks[name]
        row = self.lock(name)
        assert row["kind"] == expected.kind
        assert row["state"] == expected.state
        assert row["orphan"] == expected.orphan
        if expected.address is not None:
            assert int(row["address"], 16) == expected.address
        holders = {self.role(holder["thread"]): (holder["mode"], holder["evidence"]) for holder in row["holders"]}
        assert holders == dict.fromkeys(expected.holders, (expected.mode, expected.evidence))
        assert len(row["holders"]) == len(expected.holders), "a holder is listed twice"
        for holder in row["holders"]:
            assert (holder["why"] is None) == (holder["evidence"] == "recorded")
        assert {self.role(waiter["thread"]) for waiter in row["waiters"]} == set(expected.waiters)
        assert {self.role(number) for number in candidates(row)} == set(expected.candidates)


def candidates(row: Json) -> list[int]:
    """The thread numbers of a lock's candidates, which are listed as numbers or as objects, like holders."""
    return [entry["thread"] if isinstance(entry, dict) else entry for entry in row["candidates"]]
