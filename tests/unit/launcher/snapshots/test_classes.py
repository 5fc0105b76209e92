"""Which documents are in one class, and the text and JSON of classes."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import json
import re
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from gdbext.launcher.snapshots import classes
from gdbext.launcher.snapshots.classes import Failure, Grouping, Signature, Triage, merge
from gdbext.model import Crash, Fault, MixedStack
from gdbext.narrate.classes import CRASH, DEADLOCK, KINDS, OTHER, UNKNOWN
from gdbext.narrate.names import Facts
from gdbext.render.style import Style
from gdbext.schema.read import read_document
from gdbext.schema.write import PARTS, document
from tests.support.fake_report import HOSTILE, gil_deadlock, healthy, hostile, inferred_deadlock, orphaned
from tests.support.interpreters import CHECKOUT
from tests.support.reasons import text

Json = dict[str, Any]

SCHEMA: Json = json.loads((CHECKOUT / "docs" / "gdbext-triage-1.schema.json").read_text(encoding="utf-8"))


def violations(made: Json) -> list[str]:
    return [f"{error.json_path}: {error.message[:200]}" for error in Draft202012Validator(SCHEMA).iter_errors(made)]


def deadlocked() -> Json:
    return document(gil_deadlock())


def frame(function: str | None, module: str | None = "libdrv.so", pc: int = 0x1000) -> Json:
    return {"language": "native", "function": function, "module": module, "pc": hex(pc), "file": None, "line": None}


def py(function: str, file: str = "/app/job.py", line: int = 3) -> Json:
    return {"language": "python", "function": function, "qualified_name": function, "file": file, "line": line,
            "columns": None, "kind": None}


def crashed(*stack: Json, guilty: int | None = 0, kind: str = "null-pointer", recursion: Json | None = None) -> Json:
    fault = Fault("SIGSEGV", None, kind, text("read 8 bytes at 0x0"))
    made = document(dataclasses.replace(healthy(), crash=Crash(1, fault, MixedStack())), (*PARTS, "crash"))
    made["crash"].update(stack=list(stack), guilty_frame=guilty, recursion=recursion)
    return made


def signature(made: Json) -> Signature:
    return classes.signature(read_document(made))


def cycle_text(made: Json) -> str:
    return classes.first_cycle(Facts(read_document(made)))


def threads(*stacks: list[Json]) -> Json:
    made = document(healthy())
    first = made["threads"][0]
    made["threads"] = [{**first, "number": number, "lwp": number, "stack": stack}
                       for number, stack in enumerate(stacks, 1)]
    return made


def with_edges(made: Json, edges: list[Json]) -> Json:
    """The document with other edges of its deadlock, and threads that wait as these say."""
    made["deadlocks"][0].update(edges=edges, threads=[edge["waiter"] for edge in edges])
    known = {thread["number"]: thread for thread in made["threads"]}
    first, waits = made["threads"][0], made["threads"][0]["waits"]
    for edge in edges:
        number = edge["waiter"]
        known[number] = {**known.get(number, {**first, "number": number, "lwp": number}),
                         "waits": {**waits, "lock": edge["lock"]}}
    made["threads"] = list(known.values())
    return made


def key(made: Json) -> str:
    return signature(made).key


def moved(made: Any, by: int = 0x10000) -> Any:
    """The same with every address elsewhere, as it is in another run of the program."""
    text = re.sub(r"0x([0-9a-f]+)", lambda match: hex(int(match[1], 16) + by), json.dumps(made))
    again = json.loads(text)
    for thread in again["threads"]:
        thread["lwp"] += by
        thread["tid"] = thread["tid"] and thread["tid"] + by
    again["target"]["pid"] += by
    return again


# -- verdicts ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("report", [gil_deadlock, inferred_deadlock, orphaned, healthy])
def test_addresses_and_numbers_do_not_change_the_class(report: Any) -> None:
    made = document(report())
    assert key(moved(made)) == key(made)


def test_kind_of_each_verdict() -> None:
    assert signature(deadlocked()).kind == DEADLOCK
    assert signature(crashed(frame("get"))).kind == CRASH
    assert signature(document(healthy())).kind == OTHER
    # somebody has killed it, maybe since it hung
    assert signature(crashed(frame("get"), kind="sent")).kind == OTHER
    both = {**deadlocked(), "crash": crashed(frame("get"))["crash"]}
    assert signature(both).kind == DEADLOCK


def test_deadlocks_with_other_frames_differ() -> None:
    found = {key(document(report())) for report in (gil_deadlock, inferred_deadlock, orphaned)}
    assert len(found) == 3


@pytest.mark.parametrize("change", ["kind", "name", "orphan"])
def test_deadlock_of_another_lock_differs(change: str) -> None:
    made = deadlocked()
    made["locks"][0][change] = {"kind": "mutex", "name": "in libother.so", "orphan": "thread exited"}[change]
    assert key(made) != key(deadlocked())


def test_deadlock_at_another_place_differs() -> None:
    made = deadlocked()
    made["threads"][0]["stack"][1]["function"] = "drop_table"
    assert key(made) != key(deadlocked())
    # where the C library waits, and what called the function that waits, does not count
    made = deadlocked()
    made["threads"][0]["stack"][0]["function"] = "__futex_wait"
    made["threads"][0]["stack"][2]["line"] = 99
    made["threads"][0]["stack"][3]["function"] = "other_main"
    assert key(made) == key(deadlocked())


def test_threads_stuck_behind_do_not_change_the_class() -> None:
    made = deadlocked()
    made["threads"].pop()
    made["deadlocks"][0]["stuck_behind"] = []
    assert key(made) == key(deadlocked())


def test_order_and_count_of_edges_do_not_change_the_class() -> None:
    made = deadlocked()
    made["deadlocks"][0]["edges"].reverse()
    assert key(made) == key(deadlocked())
    renamed = deadlocked()
    renamed["threads"][1]["python_name"] = "loader_12"
    other = deadlocked()
    other["threads"][1]["python_name"] = "loader_3"
    assert key(renamed) == key(other) != key(deadlocked())


def test_title_of_a_deadlock() -> None:
    assert signature(deadlocked()).title == "deadlock of 2 threads: the GIL, pthread rwlock in libdrv.so"
    assert cycle_text(deadlocked()) == (
        'thread 1 "MainThread" waits for pthread rwlock in libdrv.so of thread 2 "loader"; '
        'thread 2 "loader" waits for the GIL of thread 1 "MainThread"')
    orphan = document(orphaned())
    assert signature(orphan).title == "deadlock of 1 thread: pthread mutex accounts in bank (thread exited)"
    assert cycle_text(orphan) == 'thread 1 "bank" waits for pthread mutex accounts in bank, thread exited'


def test_title_names_locks() -> None:
    lock = {**deadlocked()["locks"][0], "name": None, "holders": [], "waiters": []}
    locks = {f"{kind}:{at}": {**lock, "id": f"{kind}:{at}", "kind": kind}
             for kind, at in (("mutex", "0x1"), ("mutex", "0x2"), ("thread-exit", "0x3"), ("gil", "1"), ("gil", "0"))}
    made = deadlocked()
    made["locks"] = list(locks.values())
    with_edges(made, [{"waiter": at, "lock": lock, "holder": at % 5 + 1} for at, lock in enumerate(locks, 1)])
    assert signature(made).title == (
        "deadlock of 5 threads: the GIL gil:1, the GIL, 2 x pthread mutex, the end of a thread")
    assert "thread 3 waits for the end of thread 4" in re.sub(' ".*?"', "", cycle_text(made))
    # one that is not in the document
    made["locks"], made["deadlocks"][0]["edges"] = [], made["deadlocks"][0]["edges"][:1]
    assert signature(made).title == "deadlock of 5 threads: pthread mutex"
    report = gil_deadlock()
    deadlock = dataclasses.replace(report.deadlocks[0], edges=(), threads=tuple(range(1200)))
    assert classes.signature(dataclasses.replace(report, deadlocks=(deadlock,))).title == "deadlock of 1,200 threads"


def test_title_counts_further_deadlocks() -> None:
    made = deadlocked()
    made["deadlocks"] *= 3
    assert signature(made).title.endswith("libdrv.so; and 2 more deadlocks")
    assert key(made) == key(deadlocked())


def test_cycle_of_many_threads_is_cut() -> None:
    made = deadlocked()
    made["deadlocks"][0]["edges"] *= 5
    assert signature(made).title == signature(deadlocked()).title
    assert cycle_text(made) == cycle_text(deadlocked())
    for number in range(9):
        made["locks"].append({**made["locks"][0], "id": f"rwlock:{number}", "name": f"lock {number}"})
        made["deadlocks"][0]["edges"].append({"waiter": 1, "lock": f"rwlock:{number}", "holder": 2})
    assert signature(made).title.endswith(", pthread rwlock lock 1, and 7 more")
    assert cycle_text(made).endswith("; and 7 more")


def test_threads_that_wait_for_the_same_lock_share_a_link() -> None:
    made = deadlocked()
    lock = made["deadlocks"][0]["edges"][0]["lock"]
    with_edges(made, [{"waiter": number, "lock": lock, "holder": None} for number in (1, *range(3, 100))])
    state = next(each["state"] for each in made["locks"] if each["id"] == lock)
    assert cycle_text(made) == f"threads 1, 3-99 wait for pthread rwlock in libdrv.so, {state}"


# -- crashes -------------------------------------------------------------------------------------------------


def test_crashes_differ_by_fault_and_frames() -> None:
    base = [frame("get"), frame("call"), py("work"), py("main"), py("<module>")]
    made = crashed(*base)
    assert key(crashed(frame("get", pc=0x999), *base[1:])) == key(made)
    assert key(crashed(*base[:3], py("other"), base[4])) == key(made)
    assert key(crashed(base[0], frame("other"), *base[2:])) != key(made)
    assert key(crashed(frame("get", "libx.so"), *base[1:])) != key(made)
    assert key(crashed(*base, kind="null-call")) != key(made)
    assert key(crashed(*base, guilty=1)) != key(made)
    assert signature(made).title == "SIGSEGV, null-pointer in get (libdrv.so): read 8 bytes at 0x0"


def test_depth_of_a_recursion_does_not_change_the_class() -> None:
    def stack(rounds: int, first: int) -> Json:
        frames = [frame(name) for name in itertools.islice(itertools.cycle("abc"), first, first + 3 * rounds)]
        return crashed(*frames, recursion={"round": [0, 1, 2], "rounds": rounds, "frames": 99, "whole": False,
                                           "stack_used": None})

    assert key(stack(5, 0)) == key(stack(9, 1))


def test_aborts_without_a_guilty_frame_differ_by_their_callers() -> None:
    """The first frames are those of the C library in every abort."""
    runtime = [frame(name, "libc.so.6") for name in ("pthread_kill", "raise", "abort", "malloc_printerr", "free")]

    def aborted(*callers: Json, message: str | None = None) -> Json:
        made = crashed(*runtime, *callers, guilty=None, kind="abort")
        made["crash"]["fault"]["message"] = message
        return made

    first, second = aborted(frame("close_log"), frame("main")), aborted(frame("send_row"), frame("main"))
    assert key(first) != key(second)
    assert " in close_log (" in signature(first).title
    numbers = [key(aborted(frame("close_log"), message=f"bad row {number}")) for number in (7, 8)]
    assert numbers[0] == numbers[1] != key(aborted(frame("close_log"), message="no space"))


def test_crash_without_frames_has_a_title() -> None:
    assert signature(crashed(guilty=None)).title == "SIGSEGV, null-pointer: read 8 bytes at 0x0"


# -- stacks --------------------------------------------------------------------------------------------------


def test_order_and_count_of_stacks_do_not_change_the_class() -> None:
    one, two = [frame("read", "libc.so.6"), py("main")], [py("work"), frame("start_thread", "libc.so.6")]
    assert key(threads(one, two)) == key(threads(two, one, two))
    assert key(threads(one, two)) != key(threads(one))
    assert key(threads([frame("read", "libc.so.6"), py("main", line=9)])) == key(threads(one))
    assert key(threads([py("main"), py("main"), py("main")])) == key(threads([py("main")]))


def test_numbers_in_file_names_do_not_change_the_class() -> None:
    one = threads([py("<module>", "/tmp/ipykernel_123/99.py")])
    assert key(one) == key(threads([py("<module>", "/tmp/ipykernel_7/1000.py")]))


def test_title_without_a_verdict_describes_the_first_thread() -> None:
    made = threads([frame("read", "libc.so.6"), frame("take"), py("main", line=7)])
    made["threads"][0].update(status="blocked", syscall="read")
    assert signature(made).title == 'COMPUTING: thread 1 "MainThread" is blocked in read in main (job.py:7)'
    assert signature(threads()).title == "COMPUTING: no threads"
    assert signature(threads([frame("read", "libc.so.6")])).title == 'COMPUTING: thread 1 "MainThread" runs'


MPI, LOOP = "libmpi.so.40", "libopen-pal.so.40"
ALLREDUCE, REDUCE = frame("PMPI_Allreduce", MPI), frame("reduce", "solver")


def in_mpi(*inside: Json, call: Json = ALLREDUCE, caller: Json = REDUCE) -> Json:
    return threads([*inside, call, caller, frame("main", "solver")])


def test_frames_inside_an_mpi_call_do_not_change_the_class() -> None:
    one = in_mpi(frame("sched_yield", "libc.so.6"), frame("ompi_sync_wait_mt", LOOP))
    assert key(one) == key(in_mpi(frame(None, "mca_btl_vader.so"), frame("opal_progress", LOOP)))
    assert key(one) == key(in_mpi())
    assert key(one) != key(in_mpi(frame("opal_progress", LOOP), call=frame("PMPI_Recv", MPI)))
    assert key(one) != key(in_mpi(frame("opal_progress", LOOP), caller=frame("assemble", "solver")))
    # a function of MPI's own calls another one
    assert key(one) != key(in_mpi(frame("PMPI_Recv", MPI)))
    # linked statically
    static = frame("MPI_Allreduce", "solver")
    assert key(in_mpi(frame("progress", "solver"), call=static)) == key(in_mpi(frame("poll", "solver"), call=static))


def test_callback_of_mpi_changes_the_class() -> None:
    assert key(in_mpi(frame("sum", "solver"), frame("ompi_op", MPI))) != key(in_mpi(frame("ompi_op", MPI)))
    assert key(in_mpi(py("sum"), frame("ompi_op", MPI))) != key(in_mpi(frame("ompi_op", MPI)))


def test_name_with_the_prefix_of_mpi_is_not_mpi() -> None:
    own, other = frame("MPIR_Wait", MPI), frame("poll", MPI)
    assert key(threads([other, own])) != key(threads([own]))


def test_title_of_a_wait_in_mpi() -> None:
    made = in_mpi(frame("sched_yield", "libc.so.6"), frame("ompi_sync_wait_mt", LOOP))
    made["threads"][0].update(status="running", syscall=None)
    said = 'COMPUTING: thread 1 "MainThread" runs in PMPI_Allreduce (libmpi.so.40) called by '
    assert signature(made).title == said + "reduce (solver)"
    made["threads"][0]["stack"][-1:] = [py("solve", line=7)]
    assert signature(made).title == said + "solve (job.py:7)"
    made["threads"][0]["stack"][3:] = []
    assert signature(made).title == said.removesuffix(" called by ")


def test_merged_stacks_branch_where_stacks_differ() -> None:
    made = threads([py("get"), py("work"), py("main")], [py("get"), py("work"), py("main")],
                   [py("put"), py("work"), py("main")], [py("main")])
    assert classes.merged_stacks(read_document(made).threads) == [
        "     4 main (job.py)",
        "     3 - work (job.py)",
        "     2   - get (job.py)",
        "     1   - put (job.py)",
    ]
    made = threads([py("read"), py("get"), py("main")], [py("write"), py("put")])
    assert classes.merged_stacks(read_document(made).threads) == [
        "     1 - main (job.py)",
        "     1   get (job.py)",
        "     1   read (job.py)",
        "     1 - put (job.py)",
        "     1   write (job.py)",
    ]


def test_merged_stacks_name_the_files_of_the_representative() -> None:
    """Numbers in names of files do not count in the class, but a reader needs the names as they are."""
    small = threads([py("wait", "/app/s3_v2.py"), py("barrier", "/lib/distributed_c10d.py")])
    large = threads(*[[py("wait", "/app/s4_v7.py"), py("barrier", "/lib/distributed_c10d.py")]] * 2)
    (found,) = merge([("large", large), ("small", small)])
    lines = classes.text(Triage((found,))).splitlines()
    assert lines[-2:] == ["        1 barrier (distributed_c10d.py)", "        1 wait (s3_v2.py)"]


def test_merged_stacks_are_cut() -> None:
    made = threads(*[[py(f"f{number}")] for number in range(99)])
    found = classes.merged_stacks(read_document(made).threads, 5)
    assert len(found) == 6
    assert found[-1].strip() == "..."


def test_deep_stack_is_merged_without_recursion() -> None:
    made = threads([py(f"f{number}") for number in range(5000)])
    assert len(classes.merged_stacks(read_document(made).threads, 10_000)) == 5000


# -- classes -------------------------------------------------------------------------------------------------


def many() -> list[tuple[str, Json]]:
    crash = [(f"crash{number}", crashed(frame("get"))) for number in range(3)]
    other = [(f"other{number}", threads([py("main")])) for number in range(9)]
    return [*other, *crash, ("rare", threads([py("rare")])), ("dead", deadlocked()), ("dead2", moved(deadlocked()))]


def test_classes_are_sorted_by_kind_and_size() -> None:
    found = merge(many())
    assert [(each.kind, len(each.members)) for each in found] == [(DEADLOCK, 2), (CRASH, 3), (OTHER, 9), (OTHER, 1)]
    assert found[0].members == ("dead", "dead2")
    assert [KINDS.index(each.kind) for each in found] == sorted(KINDS.index(each.kind) for each in found)


def test_representative_has_the_fewest_threads_in_any_order() -> None:
    small, large = threads([py("main")]), threads([py("main")], [py("main")])
    for order in itertools.permutations([("b", small), ("a", large), ("c", small)]):
        (found,) = merge(order)
        assert found.representative == "b"
        assert found.document == small
        assert found.members == ("a", "b", "c")


def test_only_the_document_of_the_representative_is_kept() -> None:
    grouping = Grouping()
    for name in ("b", "a", "c"):
        grouping.add(name, signature(deadlocked()), 3, {"schema": name})
    assert grouping.classes()[0].document == {"schema": "a"}


def test_exit_status_of_triage() -> None:
    bad = (Failure("x", "not a core"),)
    assert Triage(merge(many())).status == 1
    assert Triage(merge(many()[:2]), bad).status == 3
    assert Triage(merge(many()[:2])).status == 0
    assert Triage(merge(many()), bad).status == 1
    assert Triage((), processes={"deadlocks": [{}]}).status == 1


# -- reports -------------------------------------------------------------------------------------------------


def whole() -> Triage:
    return Triage(merge(many()), (Failure("cores/x", "not a core", "name a core"),), (Failure("other1", "cut off"),))


def test_text_lists_classes_and_failures() -> None:
    text = classes.text(whole())
    assert text.splitlines()[0] == "15 cores: 2 deadlocked, 3 crashed, 10 neither; 4 classes; 1 could not be read"
    assert "\n1. 2 x deadlock of 2 threads: the GIL, pthread rwlock in libdrv.so\n" in text
    assert '\n   thread 1 "MainThread" waits for pthread rwlock in libdrv.so of thread 2 "loader"; thread 2 ' in text
    assert "2. 3 x crash: SIGSEGV, null-pointer in get (libdrv.so)" in text
    assert "other0, other1, other2, other3 and 5 more" in text
    assert "Not read:\n   cores/x: not a core; name a core" in text
    assert "Read in part:\n   other1: cut off" in text
    assert text.index("x deadlock of") < text.index("crash:") < text.index("COMPUTING:")


@pytest.mark.parametrize("problem", ["cores/x is not a core", "cores/x: Permission denied"])
def test_name_of_a_target_in_its_problem_is_not_repeated(problem: str) -> None:
    assert classes.failure_line(Failure("cores/x", problem, "name a core")) == f"{problem}; name a core"
    assert classes.failure_line(Failure("cores/x", f"1{problem}")) == f"cores/x: 1{problem}"


def test_deadlocks_and_crashes_are_coloured() -> None:
    coloured = classes.text(whole(), style=Style(True))
    assert "\n1. 2 x \x1b[1;31mdeadlock of 2 threads: the GIL, pthread rwlock in libdrv.so\x1b[0m\n" in coloured
    assert "\n2. 3 x \x1b[1;31mcrash: SIGSEGV, null-pointer in get (libdrv.so)" in coloured
    assert coloured.count("\x1b[1;31m") == 2
    assert coloured.replace("\x1b[1;31m", "").replace("\x1b[0m", "") == classes.text(whole())


def test_text_escapes_control_characters() -> None:
    report = hostile(gil_deadlock())
    text = classes.text(Triage(merge([(HOSTILE, document(report)), ("b", document(hostile(healthy())))]),
                               (Failure(HOSTILE, HOSTILE, HOSTILE),)))
    assert "\\x1b" in text
    assert all(line.isprintable() for line in text.splitlines())
    assert len(text.splitlines()) < 40


def test_document_follows_the_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    made = classes.as_document(whole())
    assert violations(made) == []
    assert made["count"] == 15
    assert [each["count"] for each in made["classes"]] == [2, 3, 9, 1]
    assert json.loads(json.dumps(made)) == made
    for path, value in ((("classes", 0, "kind"), "hang"), (("classes", 0, "count"), 0), (("failures", 0, "target"), 1)):
        other = copy.deepcopy(made)
        at: Any = other
        for step in path[:-1]:
            at = at[step]
        at[path[-1]] = value
        assert violations(other)


def test_schema_is_strict_and_describes_each_member() -> None:
    for noun in (SCHEMA, *(noun for noun in SCHEMA["$defs"].values() if "properties" in noun)):
        assert noun["additionalProperties"] is False
        missing = {name for name, member in noun["properties"].items() if "description" not in member}
        assert missing <= {"count", "deadlocks", "pid", "why"}  # whose name is all that there is to say


def test_page_shows_representatives_and_failures() -> None:
    found = whole()
    representatives = [each.representative for each in found.classes]
    assert [row["representative"] for row in classes.class_rows(found)] == representatives
    shown = classes.shown_targets(found)
    assert {each.target for each in shown} == {*representatives, "cores/x"}
    assert dataclasses.asdict(found.failures[0])["hint"] == shown[-1].hint


def test_document_without_optional_parts_has_a_signature() -> None:
    made = {name: value for name, value in deadlocked().items() if name not in PARTS or name == "problems"}
    assert signature(made).kind == UNKNOWN
