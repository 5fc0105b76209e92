"""Cores of an arm64 machine, read on this one without GDB."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support import arm64
from tests.support.launcher import launch


def report(name: str) -> tuple[dict[str, Any], int]:
    core, folder, root = arm64.core(name)
    ran = launch("report", core, "--json", "--sysroot", root, "--search", folder, gdb=None)
    return ran.document(), ran.status


@pytest.mark.parametrize(("name", "kind"), [("abba", "mutex"), ("rwlocks", "rwlock")])
def test_native_locks_name_their_owners(name: str, kind: str) -> None:
    document, status = report(name)
    truth = json.loads((arm64.core(name)[1] / f"{name}.out").read_text(encoding="utf-8").splitlines()[0])
    assert (document["verdict"]["kind"], status) == ("deadlock", 1)
    assert document["target"]["architecture"] == "aarch64"
    assert document["target"]["libc"] == "glibc 2.36"
    cycle, = document["deadlocks"]
    assert cycle["evidence"] == "recorded"
    locks = {row["id"]: row for row in document["locks"]}
    lwps = {row["number"]: row["lwp"] for row in document["threads"]}
    found = {(int(locks[edge["lock"]]["address"], 16), lwps[edge["holder"]]) for edge in cycle["edges"]}
    assert all(locks[edge["lock"]]["kind"] == kind for edge in cycle["edges"])
    assert found == {(int(lock["address"], 16), truth["threads"][lock["holders"][0]]["tid"])
                     for lock in truth["locks"].values() if lock["holders"]}


def test_python_locks_are_held_by_their_with_blocks() -> None:
    document, status = report("locks")
    assert (document["verdict"]["kind"], status) == ("deadlock", 1)
    runtime, = document["runtimes"]
    assert runtime["version"] == "3.11.2"
    cycle, = document["deadlocks"]
    names = {row["number"]: row["python_name"] for row in document["threads"]}
    assert {(names[edge["waiter"]], names[edge["holder"]]) for edge in cycle["edges"]} == {
        ("ship", "refill"), ("refill", "ship")}
    assert cycle["evidence"] == "derived"


#: What each way to crash is explained as: kind, the access, its size, operands and their origins.
EXPLAINED: dict[str, tuple[str, str | None, int | None, dict[str, int | None], str]] = {
    "member": ("null-member", "read", 8, {"[x0, #8]": 8, "x0": 0}, "x0 was read from [x0, #16]"),
    "element": ("null-element", "write", 8, {"[x0, x1, lsl #3]": 24, "x0": 0, "x1": 3}, "set by `mov x1, #0x3`"),
    "call": ("null-call", "execute", None, {"x1": 0}, "data: function in arm64_crashes"),
    "tagged": ("non-canonical", "read", 8, {"x0": 0x4141414141414141}, "computed by `movk x0, #0x4141, lsl #48`"),
    "stack": ("stack-overflow", "write", 16, {"sp": None}, ""),
    "trap": ("trap", None, None, {}, ""),
    "handler": ("null-member", "read", 8, {"[x1, #8]": 8, "x1": 0}, "data: head in arm64_crashes"),
}


@pytest.mark.parametrize("way", EXPLAINED)
def test_crashes_are_explained_by_their_instruction(way: str) -> None:
    document, status = report(way)
    kind, access, size, operands, origin = EXPLAINED[way]
    fault = document["crash"]["fault"]
    assert (document["verdict"]["kind"], status) == ("crash", 1)
    assert (fault["kind"], fault["access"], fault["size"]) == (kind, access, size)
    found = {each["text"]: int(each["value"], 16) for each in fault["operands"]}
    assert found.keys() >= operands.keys()
    assert all(value is None or found[text] == value for text, value in operands.items())
    assert origin in str(fault["operands"])


def test_threads_that_wait_for_work_are_no_deadlock() -> None:
    document, status = report("healthy")
    assert document["deadlocks"] == []
    assert (document["verdict"]["kind"], status) == ("idle", 0)
