"""gevent and eventlet: what greenlets wait for, which greenlet holds the lock, cycles of greenlets, and the verdict."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import cores, gdb_session, interpreters, launcher, packages, samples
from tests.support.report import Json
from tests.support.samples import SOURCES

# the first and the last release with wheels for one version of Python, and one without symbols
PAIRS = (("3.9-stripped", "gevent-22.10.2"), ("3.11", "gevent-24.2.1"), ("3.13", "gevent-26.9.0"),
         ("3.9-stripped", "eventlet-0.33.3"), ("3.11", "eventlet-0.36.1"), ("3.13", "eventlet-0.41.3"))


@pytest.mark.parametrize("variant", ["cycles", "waits", "patched"])
@pytest.mark.parametrize(("name", "release"), PAIRS)
def test_waits_holders_and_cycles(name: str, release: str, variant: str, tmp_path: Path) -> None:
    python, symbols = interpreters.use(name)
    path = packages.use_locks(release, name.partition("-")[0])
    program = f"{release.partition('-')[0]}_waits.py"
    documents: dict[str, Json] = {}
    with samples.running([python, "-W", "ignore", SOURCES / program, variant], tmp_path,
                         variables={"PYTHONPATH": str(path)}) as sample:
        documents["direct"] = launcher.launch_by(launcher.command(
            "report", str(sample.pid), "--no-gdb", "--json", gdb=None)).document()
        # cores are the same for all; one session with GDB for each release
        for target in ("live", "gcore") if variant == "cycles" else ("gcore",):
            with cores.place(sample, sample.executable, target) as where:
                documents[target] = gdb_session.batch(where, ["py-deadlocks --json"], symbols=symbols,
                                                      directory=sample.directory).document()
        hubs = [row for row in sample.truth.greenlets if row["role"] == "hub"]
        truth = [row for row in sample.truth.greenlets if row not in hubs]
    role = {row["id"]: row["role"] for row in truth}
    for where_from, document in documents.items():
        found = {role[row["id"]]: row["waits"] for row in document["greenlets"] if row["id"] in role}
        kinds = {row["id"]: row["kind"] for row in document["greenlets"]}
        assert [(row["id"], row["kind"]) for row in hubs if kinds[row["id"]] != row["kind"]] == [], where_from
        for row in truth:
            waits = found[row["role"]]
            assert waits is not None, (where_from, row)
            assert (waits["kind"] or "", [role[each] for each in waits["holders"]], waits["timed"]) == (
                row["kind"], [row["holder"]] if row["holder"] else [], row["timed"]), (where_from, row)
            assert bool(waits["taken_at"]) == bool(row["holder"]), (where_from, row)
        assert [sorted(role[each] for each in cycle) for cycle in sorted_cycles(document, role)] == [
            sorted(each["role"] for each in truth if each["cycle"] == i)
            for i in range(1 + max((each["cycle"] for each in truth if each["cycle"] is not None), default=-1))
        ], where_from
        verdict = document["verdict"]
        if variant == "waits":
            assert (verdict["kind"], [role[each] for each in verdict["greenlets"]]) == (
                "blocked-behind", ["reads", "behind reads"]), where_from
            assert "greenlet_cycles" not in document
        else:
            assert (verdict["kind"], verdict["ends_by_itself"]) == ("greenlet-cycle", False), where_from
            assert verdict["evidence"] in ("recorded", "derived"), where_from


def sorted_cycles(document: Json, role: dict[str, str]) -> list[list[str]]:
    """The cycles in the order in which the sample has made their greenlets."""
    order = [*role.values()]
    return sorted(document.get("greenlet_cycles", []), key=lambda cycle: min(order.index(role[each]) for each in cycle))
