from __future__ import annotations

from dataclasses import replace

import pytest

from gdbext.model import DERIVED, Greenlet, GreenletWait, PyFrame, Report
from gdbext.model.reasons import because
from gdbext.model.verdict import Verdict
from gdbext.narrate import greenlets
from gdbext.narrate.names import Facts
from gdbext.narrate.sentences import sentence, verdict_title
from gdbext.narrate.verdict import how_known
from gdbext.narrate.words import plain
from tests.support.fake_report import healthy

LIBRARY = PyFrame("sleep", "sleep", "/opt/app/gevent/hub.py", 166)
OWN = PyFrame("take", "take", "/app/job.py", 7)


def of(address: int, waits: GreenletWait | None = None, *, main: bool = False) -> Greenlet:
    return Greenlet(address, "Greenlet", 1, "suspended", main, (LIBRARY, OWN), waits)


def facts(*members: Greenlet, cycles: tuple[tuple[int, ...], ...] = (), verdict: Verdict | None = None) -> Facts:
    report: Report = replace(healthy(), greenlets=members, greenlet_cycles=cycles, verdict=verdict)
    return Facts(report)


LOCKED = GreenletWait("gevent.lock.RLock", 0x90, "lock", locked=True)
HELD = replace(LOCKED, holders=(2,), evidence=DERIVED, why=because("in-greenlet-with-block"), taken_at=OWN)


@pytest.mark.parametrize(("waits", "words"), [
    (GreenletWait("ready", others=1), "is ready to run"),
    (GreenletWait("timer", timed=True), "sleeps"),
    (GreenletWait("io", others=1, timed=True), "waits for input or output, with a timeout"),
    (GreenletWait("gevent.event.Event", 0x90, others=1), "waits for gevent.event.Event 0x90"),
    (LOCKED, "waits for gevent.lock.RLock 0x90 lock; its holder is not known"),
    (HELD, "waits for gevent.lock.RLock 0x90 lock, held by greenlet 0x2 (take job.py:7), taken at job.py:7"),
    (GreenletWait("gevent.wait", greenlets=(2,), others=1),
     "waits for the end of greenlet 0x2 (take job.py:7) and 1 other object (gevent.wait)"),
    (None, "is suspended")])
def test_what_a_greenlet_waits_for(waits: GreenletWait | None, words: str) -> None:
    assert plain(greenlets.doing(facts(of(1, waits), of(2)), of(1, waits))) == words


def test_wait_of_several_greenlets_for_different_objects() -> None:
    members = [of(1, replace(LOCKED, address=0x80)), of(2, LOCKED)]
    assert plain(greenlets.doing(facts(*members), members[0], members)) == (
        "waits for another gevent.lock.RLock; its holder is not known")


def test_counts_of_waits() -> None:
    report = facts(of(1, HELD), of(2, GreenletWait("io")), of(3, GreenletWait("io")), of(4), of(5, LOCKED),
                   of(6, GreenletWait("timer", timed=True)), of(7, GreenletWait("gevent.queue.Queue")),
                   of(8, GreenletWait(greenlets=(1,))), of(9, GreenletWait("ready")), of(10, main=True)).report
    assert plain(greenlets.counts(report)) == (
        "9 greenlets suspended: 2 for input or output, 1 for a lock, 1 for something unknown, 1 for a lock without a "
        "known holder, 1 for a time, 1 for an event, a queue or a result, 1 for the end of other greenlets, 1 "
        "ready to run")
    assert greenlets.counts(healthy()) == ()


def test_cycle_of_greenlets() -> None:
    members = (of(1, HELD), of(2, GreenletWait(greenlets=(1,))))
    found = facts(*members, cycles=((1, 2),), verdict=Verdict("greenlet-cycle", greenlets=(1, 2)))
    assert verdict_title(found.verdict) == "DEADLOCK OF GREENLETS"
    assert plain(sentence(found)) == "2 greenlets wait for each other"
    assert [plain(words) for words in how_known(found)] == [
        "recorded: what wakes each greenlet", "derived: a suspended greenlet is inside a `with` block of the lock"]
    assert [plain(words) for words in greenlets.cycle(found, members)] == [
        "Cycle of greenlets without a timeout; they continue only if one of them is killed:",
        "Greenlet 0x1 (take job.py:7) waits for gevent.lock.RLock 0x90 lock, held by greenlet 0x2 (take job.py:7), "
        "taken at job.py:7", "Greenlet 0x2 (take job.py:7) waits for the end of greenlet 0x1 (take job.py:7)"]


def test_cycle_with_a_main_greenlet_also_ends_with_its_loop() -> None:
    alone = of(1, replace(HELD, holders=(1,)), main=True)
    assert plain(greenlets.cycle(facts(alone), [alone])[0]) == (
        "Cycle of greenlets without a timeout; it continues only if it is killed, or if its event loop has nothing "
        "else to wait for (LoopExit):")
    hub = PyFrame("switch", "switch", "/opt/app/eventlet/hubs/hub.py", 310)
    assert plain(greenlets.cycle(facts(alone), [replace(alone, stack=(hub, OWN))])[0]) == (
        "Cycle of greenlets without a timeout; it continues only if it is killed:")
    assert greenlets.place(replace(alone, stack=(hub, OWN))) == "take job.py:7"


def test_sentences_of_greenlets_that_are_not_in_a_cycle() -> None:
    members = (of(1, HELD), of(2, GreenletWait("io", others=1)), of(3, LOCKED))
    behind = facts(*members, verdict=Verdict("blocked-behind", (1,), greenlets=(2, 1)))
    assert plain(sentence(behind)) == (
        "1 greenlet waits behind another: greenlet 0x2 (take job.py:7) waits for input or output")
    unknown = facts(*members, verdict=Verdict("unknown", greenlets=(3, 1)))
    assert plain(sentence(unknown)) == (
        "greenlet 0x3 (take job.py:7) waits for gevent.lock.RLock 0x90 lock; its holder is not known; 1 more greenlet "
        "waits for such a lock")
