from __future__ import annotations

from dataclasses import dataclass

import pytest

from gdbext.model import EXCLUSIVE, RECORDED, Lock, Thread, Wait
from gdbext.model.reasons import Reason, because
from gdbext.verdict.standstill import prove_standstill

LOCK = "semaphore:0x1000"


@dataclass
class Answers:
    """Doubts with given answers; the default ones leave no doubt."""

    forked: bool = False
    alone: bool = False
    unread: Reason | None = None
    sleeps: bool = True
    private: bool = True
    signals: bool = False

    def was_forked(self) -> bool:
        return self.forked

    def first_wants_lock_alone(self) -> bool:
        return self.alone

    def why_no_verdict(self) -> Reason | None:
        return self.unread

    def all_would_sleep_again(self) -> bool:
        return self.sleeps

    def only_threads_wake(self) -> bool:
        return self.private

    def may_get_signals(self) -> bool:
        return self.signals


def threads(count: int) -> list[Thread]:
    """Threads that all wait for one semaphore."""
    wait = Wait(LOCK, EXCLUSIVE, False, RECORDED, None)
    return [Thread(number, 100 + number, 100 + number, "worker", None, None, None, "blocked", "futex", (), wait)
            for number in range(1, count + 1)]


LOCKS = {LOCK: Lock(LOCK, "semaphore", 0x1000, None, "locked", (), ())}


def test_standstill_without_doubts() -> None:
    found = prove_standstill(threads(2), LOCKS, 1, Answers())
    assert found is not None
    assert (found.threads, found.standstill) == ((1, 2), True)


@pytest.mark.parametrize("doubts", [Answers(unread=because("text", text="unread")), Answers(sleeps=False),
                                    Answers(private=False), Answers(signals=True)])
def test_any_doubt_prevents_a_standstill(doubts: Answers) -> None:
    assert prove_standstill(threads(2), LOCKS, 1, doubts) is None


def test_signals_do_not_release_the_lock_that_the_only_thread_wants() -> None:
    found = prove_standstill(threads(1), LOCKS, 1, Answers(alone=True, signals=True))
    assert found is not None
    assert found.why is not None
    assert found.why.code == "no-other-thread"
    assert prove_standstill(threads(2), LOCKS, 1, Answers(alone=True, signals=True)) is None


@pytest.mark.parametrize("forked", [True, False])
def test_fork_is_only_a_cause_in_a_child_of_fork(forked: bool) -> None:
    found = prove_standstill(threads(1), LOCKS, 1, Answers(alone=True, forked=forked))
    assert found is not None
    assert found.why == because("no-other-thread", owner_unknown=int(forked))
