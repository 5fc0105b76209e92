"""Threads that have acquired Python locks by calls of ``acquire``, without `with`.

`acquires.py deadlocks` hangs in deadlocks of two threads, `acquires.py waits` in waits that are none. A second argument
`profiled` lets the interpreter instrument the code, as a profiler does. Prints one JSON line about itself, see
tests/support/samples.py, and writes the file more.json: {"taken": {LOCK: [FUNCTION, LINE]}, "why": {LOCK: CODE}}.
`#: NAME` marks the line that acquires the lock of that name. Runs on CPython 3.8 and later.
"""

import contextlib
import json
import os
import re
import sys
import threading
from typing import Any, Callable

import pylocks  # type: ignore[import-not-found]
from pylocks import BEHIND, EDGES, LOCKS, PEOPLE, STANDING, THREADS, hold, meet, stand, start, until

with open(__file__, encoding="utf-8") as own_source:
    LINES = {
        match.group(1): number
        for number, line in enumerate(own_source, 1)
        for match in [re.search(r"#: ([\w-]+)$", line)]
        if match
    }
ATTEMPTS = 3000
TAKEN = {}  # type: dict[str, tuple[str, int]]
WHY = {}  # type: dict[str, str | None]


def tell(
    name: str,
    lock: Any,
    waiters: "list[str]",
    holder: "str | None" = None,
    taken_in: str = "",
    why: "str | None" = None,
    evidence: str = "inferred",
    candidates: "tuple[str, ...]" = (),
    really: "str | None" = None,
) -> None:
    pylocks.tell(name, "py-lock", id(lock), "locked", waiters, holder, evidence if holder else None, candidates)
    if really:
        LOCKS[name]["really"] = [really]
    WHY[name] = why
    if holder:
        TAKEN[name] = (taken_in, LINES[name])


# -- deadlocks ------------------------------------------------------------------------------------------------


def local_first(one: Any, other: Any, role: str, point: str) -> None:
    one.acquire()  #: local
    try:
        meet(point)
        stand(role)
        other.acquire()
        try:
            pass
        finally:
            other.release()
    finally:
        one.release()


class Pair:
    """Two locks in attributes, one of them in a slot, taken in two methods each."""

    __slots__ = ("__dict__", "left")

    def __init__(self) -> None:
        self.left = threading.Lock()
        self.right = threading.Lock()

    def from_left(self) -> None:
        self.left.acquire()  #: left
        try:
            meet("pair")
            self.then_right()
        finally:
            self.left.release()

    def then_right(self) -> None:
        stand("lefty")
        self.right.acquire()
        try:
            pass
        finally:
            self.right.release()

    def from_right(self) -> None:
        # again and again: the lock has been released before, and the interpreter has specialised the code
        for attempt in range(ATTEMPTS):
            if not self.right.acquire(timeout=100.0):  #: right
                raise RuntimeError("too late")
            try:
                if attempt < ATTEMPTS - 1:
                    continue
                meet("pair")
                stand("righty")
                self.left.acquire()
                self.left.release()
            finally:
                self.right.release()


north, south = threading.Lock(), threading.Lock()


def to_south() -> None:
    global south
    if north.acquire(False):  #: north
        try:
            meet("poles")
            stand("amundsen")
            with south:
                pass
        finally:
            print("never printed")
            north.release()
    south = south


def to_north() -> None:
    with south:  #: south
        meet("poles")
        stand("peary")
        north.acquire()
        north.release()


def closures() -> None:
    inner, outer = threading.Lock(), threading.Lock()

    def go_in() -> None:
        outer.acquire()  #: outer
        meet("shell")
        stand("nautilus")
        inner.acquire()
        inner.release()
        outer.release()

    @contextlib.contextmanager
    def inside():  # type: ignore[no-untyped-def]
        inner.acquire()  #: inner
        try:
            yield
        finally:
            inner.release()

    def go_out() -> None:
        with inside():
            meet("shell")
            stand("snail")
            outer.acquire()
            outer.release()

    start("nautilus", go_in, alone=False)
    start("snail", go_out)
    tell("outer", outer, ["snail"], "nautilus", "go_in", "acquired-by-call-normally")
    tell("inner", inner, ["nautilus"], "snail", "inside", "acquired-by-call")
    EDGES.extend((("nautilus", "inner", "snail"), ("snail", "outer", "nautilus")))


def quarrels() -> None:
    one, other = threading.Lock(), threading.Lock()
    start("romulus", lambda: local_first(one, other, "romulus", "rome"), alone=False)
    start("remus", lambda: local_first(other, one, "remus", "rome"))
    for name, lock, waiter, holder in (("one", one, "remus", "romulus"), ("other", other, "romulus", "remus")):
        LINES[name] = LINES["local"]
        tell(name, lock, [waiter], holder, "local_first", "acquired-by-call", "derived")
    EDGES.extend((("romulus", "other", "remus"), ("remus", "one", "romulus")))

    pair = Pair()
    start("lefty", pair.from_left, alone=False)
    start("righty", pair.from_right)
    tell("left", pair.left, ["righty"], "lefty", "from_left", "acquired-by-call")
    tell("right", pair.right, ["lefty"], "righty", "from_right", "acquired-by-call")
    EDGES.extend((("lefty", "right", "righty"), ("righty", "left", "lefty")))

    start("amundsen", to_south, alone=False)
    start("peary", to_north)
    tell("north", north, ["peary"], "amundsen", "to_south", "acquired-by-call")
    tell("south", south, ["amundsen"], "peary", "to_north", "in-with-block", "derived")
    EDGES.extend((("amundsen", "south", "peary"), ("peary", "north", "amundsen")))
    closures()


# -- nothing is deadlocked ------------------------------------------------------------------------------------


def want(role: str, lock: Any) -> None:
    stand(role)
    lock.acquire()


def signalled(lock: Any) -> None:
    """Another thread would release it."""
    lock.acquire()
    try:
        stand("sleeper")
        lock.acquire()
    finally:
        lock.release()


def signalled_before(lock: Any) -> None:
    """Another thread has released it, and the next one may."""
    lock.acquire()
    threading.Thread(target=lock.release).start()
    lock.acquire()
    hold("woken")
    lock.release()


def given_away(lock: Any) -> None:
    lock.acquire()
    hold("giver")


def failed(lock: Any) -> None:
    lock.acquire(timeout=0.01)
    try:
        hold("late")
    finally:
        lock.release()


def failed_and_tested(lock: Any) -> None:
    if lock.acquire(timeout=0.01):
        try:
            pass
        finally:
            lock.release()
    hold("polite")


def released_on_one_branch(lock: Any, early: bool) -> None:
    lock.acquire()
    if early:
        lock.release()
    hold("branchy")
    if not early:
        lock.release()


def released_elsewhere(lock: Any) -> None:
    """By a helper that it has called and that has not returned."""
    lock.acquire()
    try:
        without(lock)
    finally:
        lock.release()


def without(lock: Any) -> None:
    lock.release()
    try:
        hold("helped")
    finally:
        lock.acquire()


def by_another_name(lock: Any) -> None:
    alias = lock
    lock.acquire()
    try:
        alias.release()
        hold("actor")
        alias.acquire()
    finally:
        lock.release()


class Renewed:
    """Its lock is another one than it was."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def work(self) -> None:
        self.lock.acquire()
        try:
            self.lock = threading.Lock()
            hold("renewer")
        finally:
            self.lock.release()


def by_argument(lock: Any) -> None:
    """Its release is an argument of a function."""
    lock.acquire()
    try:
        finish = [lock.release]
        hold("planner")
        finish.clear()
    finally:
        lock.release()


def may_be_released(lock: Any) -> None:
    lock.acquire()
    try:
        hold("owner")
    finally:
        lock.release()


def may_release(lock: Any) -> None:
    hold("opener")
    lock.release()


def through_condition(condition: Any) -> None:
    condition.acquire()
    try:
        stand("listener")
        condition.wait()
    finally:
        condition.release()


def twice(lock: Any, role: str) -> None:
    lock.acquire()
    try:
        hold(role)
    finally:
        lock.release()


def really_held(lock: Any) -> None:
    while True:
        lock.acquire()
        try:
            hold("keeper")
        finally:
            lock.release()


def pair_of(name: str, role: str, target: "Callable[[Any], None]", *, why: str, taken: bool,
            candidates: "tuple[str, ...]", syscall: str = "read") -> None:
    """A thread that uses a lock in some way, and one that waits for the lock.

    :param taken: whether the lock is taken once more, by the main thread, which nothing shows.
    """
    lock = threading.Lock()
    start(role, lambda: target(lock), syscall)
    if taken:
        until(lambda: role in STANDING)
        assert lock.acquire(timeout=100.0)
    start("wants-" + name, lambda: want("wants-" + name, lock))
    tell(name, lock, ["wants-" + name], why=why, candidates=candidates)


def offices() -> None:
    signal = threading.Lock()
    start("sleeper", lambda: signalled(signal))
    tell("signal", signal, ["sleeper"], why="records-no-owner")
    pair_of("bell", "woken", signalled_before, why="acquired-not-released", taken=False, candidates=("woken",))
    pair_of("gift", "giver", given_away, why="acquired-not-released", taken=False, candidates=("giver",))
    pair_of("branch", "branchy", lambda lock: released_on_one_branch(lock, True), why="records-no-owner", taken=True,
            candidates=("branchy",))
    pair_of("without", "helped", released_elsewhere, why="maybe-released-since", taken=True, candidates=("helped",))
    pair_of("alias", "actor", by_another_name, why="maybe-released-since", taken=True, candidates=("actor",))
    pair_of("argument", "planner", by_argument, why="maybe-released-since", taken=False, candidates=("planner",))

    tried = threading.Lock()
    tried.acquire()
    start("late", lambda: failed(tried), "read")
    start("polite", lambda: failed_and_tested(tried), "read")
    start("wants-tried", lambda: want("wants-tried", tried))
    tell("tried", tried, ["wants-tried"], why="records-no-owner", candidates=("late", "polite"))

    renewed = Renewed()
    start("renewer", renewed.work, "read")
    lock = renewed.lock
    lock.acquire()
    start("wants-renewed", lambda: want("wants-renewed", lock))
    tell("renewed", lock, ["wants-renewed"], why="records-no-owner")

    opened = threading.Lock()
    start("owner", lambda: may_be_released(opened), "read")
    start("opener", lambda: may_release(opened), "read")
    start("wants-opened", lambda: want("wants-opened", opened))
    tell("opened", opened, ["wants-opened"], why="maybe-released-since", candidates=("owner",), really="owner")

    news = threading.Lock()
    condition = threading.Condition(news)
    start("listener", lambda: through_condition(condition))
    news.acquire()
    start("wants-news", lambda: want("wants-news", news))
    tell("news", news, ["wants-news"], why="records-no-owner")
    pylocks.tell("condition", "py-condition", id(condition), "waiting for a notification", ["listener"])

    shared = threading.Lock()
    start("first", lambda: twice(shared, "first"), "read")
    shared.release()
    start("second", lambda: twice(shared, "second"), "read")
    start("wants-shared", lambda: want("wants-shared", shared))
    tell("shared", shared, ["wants-shared"], why="acquired-by-several", candidates=("first", "second"))

    kept = threading.Lock()
    start("keeper", lambda: really_held(kept), "read")
    start("wants-kept", lambda: want("wants-kept", kept))
    LINES["kept"] = really_held.__code__.co_firstlineno + 2
    tell("kept", kept, ["wants-kept"], "keeper", "really_held", "acquired-by-call", "derived")


def say(variant: str) -> None:
    until(lambda: set(PEOPLE) <= STANDING)
    with open("more.json", "w") as file:
        json.dump({"taken": TAKEN, "why": WHY}, file)
    print(json.dumps({"sample": "acquires", "variant": variant, "pid": os.getpid(), "threads": THREADS,
                      "locks": LOCKS, "deadlock": EDGES, "stuck_behind": BEHIND}), flush=True)


def main() -> None:
    if sys.argv[2:] == ["profiled"]:
        threading.setprofile(lambda *_: None)
    {"deadlocks": quarrels, "waits": offices}[sys.argv[1]]()
    pylocks.enrol("main", "read")
    STANDING.add("main")
    say(sys.argv[1])
    os.read(pylocks.READ_END, 1)


if __name__ == "__main__":
    main()
