"""Threads that hang in free-threaded CPython without a GIL, one scene for each process.

`freethreaded.py EXTENSION SCENE` prints one JSON line about itself, see tests/support/samples.py, and writes further
facts to the file more.json:

    {"states": {ROLE: STATE}, "sections": {ROLE: [{"mutex": "0x..", "object": "0x..", "type": "list", "active": true}]}}

`states` are those of thread states that are not detached, `sections` the critical sections that threads are in, the
innermost first. EXTENSION is the compiled freethreaded.cc. Runs on free-threaded CPython 3.13 and later.
"""

import _imp
import functools
import gc
import inspect
import json
import os
import sys
import threading
from typing import Any, TypeVar

# from the folder of this file, which is not a package
from pylocks import (  # type: ignore[import-not-found]
    EDGES,
    LOCKS,
    PEOPLE,
    READ_END,
    STANDING,
    THREADS,
    cycle,
    enrol,
    meet,
    stand,
    start,
    tell,
    until,
)
from rapids import stack  # type: ignore[import-not-found]

sys.path.insert(0, os.path.dirname(sys.argv[1]))
import _freethreaded as extension  # type: ignore[import-not-found]

SYS_FUTEX = {"x86_64": 202, "aarch64": 98}[os.uname().machine]
STATES = {}  # type: dict[str, str]
SECTIONS = {}  # type: dict[str, list[dict[str, object]]]

T = TypeVar("T")

left = threading.Lock()
right = threading.Lock()
# in a critical section of two objects, the mutex at the lower address comes first
lower, shelf = sorted([[3, 1, 2], [6, 4, 5]], key=extension.object_mutex_address)


def at(role: str, thing: T) -> T:
    """Called for an argument of the call that hangs, so the caller stands at the line of that."""
    THREADS[role]["stack"] = list(stack(sys._getframe(1)))
    stand(role)
    return thing


def word_of(role: str) -> int:
    """The futex word that a thread sleeps on, or 0."""
    with open("/proc/self/task/{}/syscall".format(THREADS[role]["tid"])) as file:
        number, *arguments = file.read().split()
    return int(arguments[0], 16) if number == str(SYS_FUTEX) else 0


def section(role: str, *objects: Any, active: bool = True) -> None:
    """Record the objects of a thread's critical section; none while it waits for the first."""
    known = [{"mutex": hex(extension.object_mutex_address(each)), "object": hex(id(each)), "type": type(each).__name__,
              "active": active} for each in objects]
    SECTIONS[role] = known or [{"mutex": None, "object": None, "type": None, "active": active}]


def tell_section(each: Any, name: str, holder: str, waiters: "list[str]") -> None:
    tell(name, "py-critical-section", extension.object_mutex_address(each), "locked", waiters, holder, "derived")


def say(scene: str, *within: "tuple[str, str, int]") -> "float | None":
    """Print the truth of the scene; called for an argument, like `at`, and returns None.

    :param within: the further frames that the main thread will have, innermost first.
    """
    until(lambda: set(PEOPLE) <= STANDING)
    THREADS["main"]["stack"] = [*within, *stack(sys._getframe(1))]
    with open("more.json", "w") as file:
        json.dump({"states": STATES, "sections": SECTIONS}, file)
    truth = {
        "sample": "freethreaded",
        "variant": scene,
        "pid": os.getpid(),
        "threads": THREADS,
        "locks": LOCKS,
        "deadlock": EDGES,
        "stuck_behind": [],
    }
    print(json.dumps(truth), flush=True)
    return None


# -- locks that Python and extensions take --------------------------------------------------------------------


def take_left_first() -> None:
    with left:
        meet("scene")
        with at("first", right):
            pass


def take_right_first() -> None:
    with right:
        meet("scene")
        with at("second", left):
            pass


def lock_abba() -> None:
    start("first", take_left_first, alone=False)
    start("second", take_right_first)
    tell("left", "py-lock", id(left), "locked", ["second"], "first", "derived")
    tell("right", "py-lock", id(right), "locked", ["first"], "second", "derived")
    cycle(("first", "right", "second"), ("second", "left", "first"))


def lock_mutexes(role: str, first: int, second: int) -> None:
    extension.lock_mutex(first)
    meet("scene")
    extension.lock_mutex(at(role, second))


def mutex_abba() -> None:
    """Nothing records the holders of the mutexes. All that can be seen is that no thread is left to release them."""
    start("first", functools.partial(lock_mutexes, "first", 0, 1), alone=False)
    start("second", functools.partial(lock_mutexes, "second", 1, 0))
    ours, theirs = extension.mutex_addresses()
    tell("ours", "py-mutex", ours, "locked", ["second"])
    tell("theirs", "py-mutex", theirs, "locked", ["first"])
    LOCKS["ours"]["really"] = ["first"]
    LOCKS["theirs"]["really"] = ["second"]
    tell("end", "thread-exit", PEOPLE["first"].ident or 0, "running", ["main"], "first", "recorded")
    EDGES.extend([("first", "theirs", None), ("second", "ours", None), ("main", "end", "first")])
    enrol("main", "futex")
    join_first()


def lock_both(role: str, first: int, second: int) -> None:
    extension.lock_both(first, at(role, second))


def mutexes_in_code() -> None:
    """The code of the extension proves which thread holds each of the mutexes."""
    start("first", functools.partial(lock_both, "first", 0, 1), alone=False)
    start("second", functools.partial(lock_both, "second", 1, 0))
    ours, theirs = extension.mutex_addresses()
    tell("ours", "py-mutex", ours, "locked", ["second"], "first", "derived")
    tell("theirs", "py-mutex", theirs, "locked", ["first"], "second", "derived")
    cycle(("first", "theirs", "second"), ("second", "ours", "first"))


def join_first() -> None:
    body, line = inspect.getsourcelines(threading.Thread.join)
    # the handle has this name since 3.14
    calls = ("self._handle.join(", "self._os_thread_handle.join(")
    (waiting,) = [line + i for i, text in enumerate(body) if text.strip().startswith(calls)]
    PEOPLE["first"].join(say("mutex-abba", ("join", threading.__file__, waiting)))


def import_lock() -> None:
    """The interpreter's lock around its table of imports, which import hooks take too."""

    def change_imports() -> None:
        _imp.acquire_lock()
        meet("scene")
        with at("hook", left):
            pass

    def import_within_lock() -> None:
        with left:
            meet("scene")
            at("user", _imp.acquire_lock)()

    start("hook", change_imports, alone=False)
    start("user", import_within_lock)
    tell("imports", "py-mutex", extension.import_lock_address(), "locked", ["user"], "hook", "recorded")
    tell("left", "py-lock", id(left), "locked", ["hook"], "user", "derived")
    cycle(("hook", "left", "user"), ("user", "imports", "hook"))


# -- locks of objects -----------------------------------------------------------------------------------------


def section_mutex() -> None:
    """The thread in the critical section blocks without detaching, so the section is not suspended."""
    start("inside", lambda: extension.mutex_within_section(at("inside", shelf)))
    start("outside", lambda: extension.section_within_mutex(at("outside", shelf)))
    tell_section_and_mutex()
    section("inside", shelf)


def section2() -> None:
    start("inside", lambda: extension.mutex_within_sections(*at("inside", (shelf, lower))))
    start("outside", lambda: extension.section_within_mutex(at("outside", shelf)))
    tell_section_and_mutex()
    tell_section(lower, "lower", "inside", [])
    section("inside", lower, shelf)


def tell_section_and_mutex() -> None:
    tell_section(shelf, "shelf", "inside", ["outside"])
    tell("table", "mutex", extension.table_mutex_address(), "locked", ["inside"], "outside", "recorded")
    cycle(("inside", "table", "outside"), ("outside", "shelf", "inside"))
    STATES["inside"] = "attached"
    section("outside", active=False)


def guard_section() -> None:
    start("initialiser", lambda: extension.open_catalogue(at("initialiser", shelf)))
    start("user", lambda: extension.catalogue_within_section(at("user", shelf)))
    tell_section(shelf, "shelf", "user", ["initialiser"])
    tell_guard()
    cycle(("initialiser", "shelf", "user"), ("user", "guard", "initialiser"))
    STATES["user"] = "attached"
    section("user", shelf)
    section("initialiser", active=False)


def tell_guard() -> None:
    until(lambda: word_of("user"))
    tell("guard", "static-guard", word_of("user"), "in progress", ["user"], "initialiser", "derived")


def suspended() -> None:
    """A thread that waits in the key function of a sort has released the list."""

    def sleep_in_key(item: int) -> int:
        with left:
            return len(os.read(READ_END, at("sleeper", item)))

    def wait_in_key(item: int) -> int:
        with at("waiter", left):
            return item

    start("sleeper", lambda: lower.sort(key=sleep_in_key), "read")
    start("waiter", lambda: shelf.sort(key=wait_in_key))
    tell("left", "py-lock", id(left), "locked", ["waiter"], "sleeper", "derived")
    section("sleeper", lower, active=False)
    section("waiter", shelf, active=False)


# -- stopping the world ---------------------------------------------------------------------------------------


def guard_world() -> None:
    """The initialiser of a static lets others run; one of them needs the static, and another one stops the world."""
    start("initialiser", lambda: extension.open_ledger(at("initialiser", None)))
    start("user", lambda: extension.use_ledger(at("user", None)))
    tell_guard()
    stop_the_world(attached="user", late="initialiser")
    cycle(("initialiser", "world", "collector"), ("collector", "stop", "user"), ("user", "guard", "initialiser"))


def world_busy() -> None:
    """The same without a deadlock: the world stops as soon as a byte comes."""
    start("reader", lambda: extension.read_attached(at("reader", READ_END)), "read")
    start("late", lambda: extension.come_back_late(at("late", None)))
    stop_the_world(attached="reader", late="late")


def stop_the_world(attached: str, late: str) -> None:
    start("collector", lambda: gc.collect(extension.once_main_rests(at("collector", 2))))
    world, stop = extension.stop_addresses()
    tell("world", "stop-the-world", world, "stopping", [late], "collector", "recorded")
    tell("stop", "stop-the-world", stop, "1 not stopped", ["collector"], attached, "derived")
    STATES.update({attached: "attached", "collector": "attached", late: "suspended", "main": "suspended"})


# -- no lock at all -------------------------------------------------------------------------------------------


def race() -> None:
    """Threads write to a structure that is not thread-safe, from when a byte arrives until one of them dies."""
    for role in ("alice", "bob", "carol", "dave"):
        start(role, functools.partial(write_journal, role))
        THREADS[role].update(blocked=False, syscall=None)
        STATES[role] = "attached"


def write_journal(role: str) -> None:
    extension.write_journal(at(role, None))


SCENES = {
    "lock-abba": lock_abba,
    "mutex-abba": mutex_abba,
    "mutexes-in-code": mutexes_in_code,
    "import-lock": import_lock,
    "section-mutex": section_mutex,
    "section2": section2,
    "guard-section": guard_section,
    "suspended": suspended,
    "guard-world": guard_world,
    "world-busy": world_busy,
    "race": race,
}


def main() -> None:
    # a collection would stop the world before its time
    gc.disable()
    scene = sys.argv[2]
    SCENES[scene]()
    enrol("main", "read")
    extension.rest(say(scene))


if __name__ == "__main__":
    main()
