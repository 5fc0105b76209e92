from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from tests.support.fake_page import boxes, look, overlapping, page, pool, ring, two_and_two
from tests.support.fake_report import COUNTED, gil_deadlock, inferred_deadlock, orphaned


def test_graph_of_a_deadlock() -> None:
    made = page(look(gil_deadlock()))
    found = boxes(made)
    kinds = {anchor: kind for anchor, (kind, *_) in found.items()}
    assert kinds == {"#t0-1": "node thread bad", "#t0-2": "node thread bad", "#t0-3": "node thread",
                     "#l0-0": "node lock bad", "#l0-2": "node lock bad"}
    assert overlapping(found) == []
    # threads are in one column and locks in another
    columns = {(kind.split()[1], round((left + right) / 2)) for kind, left, _, right, _ in found.values()}
    assert len(columns) == 2
    assert min(columns, key=lambda column: column[1])[0] == "thread"
    lines = Counter(attributes["class"] for tag, attributes in made.elements if tag == "path" and "class" in attributes)
    assert lines == {"line recorded bad": 2, "line waits bad": 2, "line waits": 1}
    assert {"waits to write", "waits to read", "held by", "waits", "update job.py:41", "the GIL", '"loader"'} <= {
        text for way, text in made.texts if way and way[-1] == "text"}


def test_locks_without_waiters_are_not_drawn() -> None:
    # no thread waits for the lock with candidates
    assert "0x6000" not in page(look(gil_deadlock())).text("svg")
    assert len(boxes(page(look(inferred_deadlock())))) == 4
    assert boxes(page(look(orphaned())))["#l0-0"][0] == "node lock bad"


def test_inferred_holders_and_candidates_have_different_lines() -> None:
    report = inferred_deadlock()
    assert page(look(report)).having(class_="line inferred bad") == ["path"]
    locks = tuple(replace(lock, holders=(), candidates=(1, 2)) if lock.id == COUNTED else lock for lock in report.locks)
    made = page(look(replace(report, locks=locks, deadlocks=())))
    assert made.having(class_="line candidate") == ["path", "path"]
    assert "dots: a candidate" in made.text()


def test_threads_with_the_same_wait_are_one_node() -> None:
    found = boxes(page(look(pool(500), small=False)))
    assert len(found) == 5
    assert "#t0-3" in found


@pytest.mark.parametrize("count", [1, 2, 3, 5, 12, 40])
def test_cycles_of_any_length(count: int) -> None:
    made = page(look(ring(count), small=False))
    found = boxes(made)
    assert len(found) == 2 * count
    assert {kind for kind, *_ in found.values()} == {"node thread bad", "node lock bad"}
    assert overlapping(found) == []
    lines = [attributes["class"] for tag, attributes in made.elements if tag == "path" and "class" in attributes]
    assert Counter(lines) == {"line waits bad": count, "line recorded bad": count}
    # a cycle is two nodes wide
    (svg,) = [attributes for tag, attributes in made.elements if tag == "svg" and "viewbox" in attributes]
    assert min(float(svg["width"] or ""), float(svg["height"] or "")) < 500


@pytest.mark.parametrize("length", range(8, 60, 4))
@pytest.mark.parametrize("is_ring", [False, True])
def test_two_threads_and_two_locks_fit_a_small_window(length: int, is_ring: bool) -> None:
    made = page(look(two_and_two(length, is_ring)))
    (svg,) = [attributes for tag, attributes in made.elements if tag == "svg" and "viewbox" in attributes]
    assert len(boxes(made)) == 4
    assert overlapping(boxes(made)) == []
    assert float(svg["width"] or "") <= 1_000


def test_number_of_undrawn_nodes_is_shown() -> None:
    text = page(look(ring(300), small=False)).text()
    assert "510 more threads and locks are not drawn" in text
    assert "and 288 more like these" in text


def test_threads_that_wait_for_several_others_do_not_overlap() -> None:
    # thread 1 waits for 2, 2 for 3, 3 for 4; and 1 waits for a barrier at which 4 has not arrived
    report = ring(4)
    locks = list(report.locks)
    locks[0] = replace(locks[0], waiters=())
    locks[1] = replace(locks[1], holders=(*locks[1].holders, replace(locks[1].holders[0], thread=4)))
    threads = (*report.threads[:3], replace(report.threads[3], waits=None))
    made = look(replace(report, threads=threads, locks=tuple(locks), deadlocks=()))
    found = boxes(page(made))
    assert len(found) == 7
    assert overlapping(found) == []
    lines = [attributes for tag, attributes in page(made).elements
             if tag == "path" and "line" in (attributes.get("class") or "")]
    assert len(lines) == 7
