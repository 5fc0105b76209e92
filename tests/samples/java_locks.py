"""Threads that wait for monitors and locks of a Java machine inside of this process, with JPype.

Usage: java_locks.py LIBRARY [OPTION]...: the `libjvm.so` of the machine, and options for it.

Two threads are inside synchronized methods of Java, which call back into Python, and wait for each other. Others wait
for a monitor whose owner is in a system call, in `Object.wait`, and to enter the monitor again after that. The same is
there with locks of `java.util.concurrent`, and threads are parked for other reasons. Prints one JSON line about itself,
see tests/support/samples.py, without the addresses of the monitors and locks, which Java does not show.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import jpype  # type: ignore[import-not-found,import-untyped,unused-ignore]

READ_END, WRITE_END = os.pipe()
STANDING: set[str] = set()
THREADS: dict[str, dict[str, object]] = {}
LOCKS: dict[str, dict[str, object]] = {}


def until(condition: Callable[[], object]) -> None:
    while not condition():
        time.sleep(0.002)


def start(role: str, target: Callable[[str], object], syscall: str = "futex") -> None:
    def run() -> None:
        enrol(role, threading.get_native_id(), syscall, role)
        target(role)

    threading.Thread(target=run, name=role, daemon=True).start()


def enrol(role: str, tid: int, syscall: str | None, name: str | None) -> None:
    THREADS[role] = {"tid": tid, "python_name": name, "blocked": True, "syscall": syscall, "stack": []}


def rest() -> None:
    os.read(READ_END, 1)


class Scenes:
    """The scenes, and what they need of the Java machine."""

    def __init__(self, owner: str) -> None:
        # how the owner of a monitor is known that was not waited for when it was entered
        self.owner = owner
        self.vector = jpype.JClass("java.util.Vector")
        self.object = jpype.JClass("java.lang.Object")
        self.lock = jpype.JClass("java.util.concurrent.locks.ReentrantLock")
        self.rwlock = jpype.JClass("java.util.concurrent.locks.ReentrantReadWriteLock")
        self.seconds = jpype.JClass("java.util.concurrent.TimeUnit").SECONDS

    @staticmethod
    def tell(name: str, waiters: list[str], holder: str | None, evidence: str | None = None,
             kind: str = "java-monitor", timed: tuple[str, ...] = (), state: str = "locked",
             mode: str = "exclusive", shared: tuple[str, ...] = ()) -> None:
        LOCKS[name] = {"kind": kind, "address": None, "mode": mode, "state": state, "shared": list(shared),
                       "holders": [holder] if holder else [], "really": [], "waiters": waiters, "candidates": [],
                       "evidence": evidence, "timed": list(timed)}

    def inside(self, role: str, vector: Any, then: Callable[[], object]) -> None:
        """Run a function inside a synchronized method."""
        def accept(_item: object) -> None:
            STANDING.add(role)
            then()

        vector.forEach(jpype.JProxy("java.util.function.Consumer", {"accept": accept}))

    def deadlock(self) -> None:
        red, blue = self.vector([1]), self.vector([1])

        def take(role: str, first: Any, other: str, second: Any) -> None:
            def then() -> None:
                until(lambda: other in STANDING)
                second.size()

            self.inside(role, first, then)

        start("red", lambda role: take(role, red, "blue", blue))
        start("blue", lambda role: take(role, blue, "red", red))
        self.tell("red.lock", ["blue"], "red", self.owner)
        self.tell("blue.lock", ["red"], "blue", self.owner)

    def held(self) -> None:
        vector = self.vector([1])
        start("holder", lambda role: self.inside(role, vector, rest), "read")
        until(lambda: "holder" in STANDING)
        for role in ("first", "second"):
            start(role, lambda role: vector.size())
        self.tell("held", ["first", "second"], "holder", self.owner)

    @staticmethod
    def wait(role: str, subject: Any, *timeout: int) -> None:
        with jpype.synchronized(subject):
            STANDING.add(role)
            while True:
                subject.wait(*timeout)

    def conditions(self) -> None:
        awaited, timed, taken = self.object(), self.object(), self.object()
        start("awaits", lambda role: self.wait(role, awaited))
        start("awaits-timed", lambda role: self.wait(role, timed, 10 ** 8))
        # its wait ends soon, and then it has to enter the monitor again
        start("enters-again", lambda role: self.wait(role, taken, 10))
        until(lambda: {"awaits", "awaits-timed", "enters-again"} <= STANDING)

        def take(role: str) -> None:
            with jpype.synchronized(taken):
                STANDING.add(role)
                rest()

        start("taker", take, "read")
        until(lambda: "taker" in STANDING)
        state = "waiting for a notification"
        self.tell("awaited", ["awaits"], None, kind="java-condition", state=state)
        self.tell("awaited.timed", ["awaits-timed"], None, kind="java-condition", timed=("awaits-timed",), state=state)
        self.tell("taken", ["enters-again"], "taker", "recorded")

    def hold(self, role: str, *locks: Any) -> None:
        """Start a thread that has locks and is in a system call."""
        def take(role: str) -> None:
            for lock in locks:
                lock.lock()
            STANDING.add(role)
            rest()

        start(role, take, "read")
        until(lambda: role in STANDING)

    def locks(self) -> None:
        green, gold, held = self.lock(), self.lock(True), self.lock()

        def take(role: str, first: Any, other: str, second: Any) -> None:
            first.lock()
            STANDING.add(role)
            until(lambda: other in STANDING)
            second.lock()

        start("green", lambda role: take(role, green, "gold", gold))
        start("gold", lambda role: take(role, gold, "green", green))
        self.tell("green.lock", ["gold"], "green", "recorded", "java-lock")
        self.tell("gold.lock", ["green"], "gold", "recorded", "java-lock")
        self.hold("owner", held)
        start("waits", lambda role: held.lock())
        start("waits-timed", lambda role: held.tryLock(10 ** 8, self.seconds))
        self.tell("lock.held", ["waits", "waits-timed"], "owner", "recorded", "java-lock", ("waits-timed",))

    def rwlocks(self) -> None:
        written, read = self.rwlock(), self.rwlock(True)
        # it is a reader, too
        self.hold("writer", written.writeLock(), written.readLock())
        start("to-read", lambda role: written.readLock().lock())
        start("to-write", lambda role: written.writeLock().lock())
        self.tell("written", ["to-read", "to-write"], "writer", "recorded", "java-rwlock", state="write-locked",
                  shared=("to-read",))
        # the second reader is only counted
        for role in ("reader", "reader-2"):
            self.hold(role, read.readLock())
        start("to-write-2", lambda role: read.writeLock().lock())
        self.tell("read", ["to-write-2"], "reader", "recorded", "java-rwlock", state="read-locked", mode="shared")

    def notified(self) -> None:
        """A thread that was notified, but does not wake up before the other one has released the lock."""
        lock = self.lock()
        condition = lock.newCondition()

        def wait(role: str) -> None:
            lock.lock()
            STANDING.add(role)
            condition.await_()

        def notify(role: str) -> None:
            lock.lock()
            condition.signal()
            STANDING.add(role)
            rest()

        start("notified", wait)
        until(lambda: "notified" in STANDING and lock.tryLock())
        until(lambda: lock.hasWaiters(condition))
        lock.unlock()
        start("notifier", notify, "read")
        until(lambda: "notifier" in STANDING)
        self.tell("lock.notified", ["notified"], "notifier", "recorded", "java-lock")

    def parked(self) -> None:
        def wait(role: str) -> None:
            lock = self.lock()
            condition = lock.newCondition()
            lock.lock()
            condition.await_()

        package = "java.util.concurrent."
        scenes: dict[str, Callable[[str], object]] = {
            "condition": wait,
            "latch": lambda role: jpype.JClass(f"{package}CountDownLatch")(1).await_(),
            "semaphore": lambda role: jpype.JClass(f"{package}Semaphore")(0).acquire(),
            "queue": lambda role: jpype.JClass(f"{package}LinkedBlockingQueue")().take(),
            "future": lambda role: jpype.JClass(f"{package}CompletableFuture")().get(),
            "nothing": lambda role: jpype.JClass(f"{package}locks.LockSupport").park(),
            "timed": lambda role: jpype.JClass(f"{package}Semaphore")(0).tryAcquire(10 ** 8, self.seconds)}
        for name, scene in scenes.items():
            start(f"on-{name}", scene)
            self.tell(f"on.{name}", [f"on-{name}"], None, kind="java-park", state="parked",
                      timed=("on-timed",) if name == "timed" else ())


def main() -> None:
    jpype.startJVM(*sys.argv[2:], jvmpath=sys.argv[1], convertStrings=False)
    # from this version on, an object that is locked without contention is in a list of its owner
    version = int(str(jpype.JClass("java.lang.System").getProperty("java.specification.version")))
    listed = "-XX:LockingMode=2" in sys.argv or version >= 23 and "-XX:LockingMode=1" not in sys.argv
    scenes = Scenes("derived" if listed else "recorded")
    scenes.deadlock()
    scenes.held()
    scenes.conditions()
    scenes.locks()
    scenes.rwlocks()
    scenes.notified()
    scenes.parked()
    enrol("main", threading.get_native_id(), "read", "MainThread")
    known = {row["tid"] for row in THREADS.values()}
    for tid in map(int, os.listdir("/proc/self/task")):
        if tid not in known:
            enrol(f"java.{tid}", tid, None, None)
    print(json.dumps({"sample": "java_locks", "variant": "", "pid": os.getpid(), "threads": THREADS, "locks": LOCKS,
                      "deadlock": [("red", "blue.lock", "blue"), ("blue", "red.lock", "red"),
                                   ("green", "gold.lock", "gold"), ("gold", "green.lock", "green")],
                      "stuck_behind": []}), flush=True)
    rest()


if __name__ == "__main__":
    main()
