"""Threads that wait for monitors of a Java machine inside of this process, with JPype.

Usage: java_monitors.py LIBRARY [OPTION]...: the `libjvm.so` of the machine, and options for it.

Two threads are inside synchronized methods of Java, which call back into Python, and wait for each other. Others wait
for a monitor whose owner is in a system call, in `Object.wait`, and to enter the monitor again after that. Prints one
JSON line about itself, see tests/support/samples.py, without the addresses of the monitors, which Java does not show.
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

    @staticmethod
    def tell(name: str, waiters: list[str], holder: str | None, evidence: str | None = None,
             kind: str = "java-monitor", timed: tuple[str, ...] = ()) -> None:
        LOCKS[name] = {"kind": kind, "address": None, "mode": "exclusive",
                       "state": "locked" if kind == "java-monitor" else "waiting for a notification",
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
        self.tell("awaited", ["awaits"], None, kind="java-condition")
        self.tell("awaited.timed", ["awaits-timed"], None, kind="java-condition", timed=("awaits-timed",))
        self.tell("taken", ["enters-again"], "taker", "recorded")


def main() -> None:
    jpype.startJVM(*sys.argv[2:], jvmpath=sys.argv[1], convertStrings=False)
    # from this version on, an object that is locked without contention is in a list of its owner
    version = int(str(jpype.JClass("java.lang.System").getProperty("java.specification.version")))
    listed = "-XX:LockingMode=2" in sys.argv or version >= 23 and "-XX:LockingMode=1" not in sys.argv
    scenes = Scenes("derived" if listed else "recorded")
    scenes.deadlock()
    scenes.held()
    scenes.conditions()
    enrol("main", threading.get_native_id(), "read", "MainThread")
    known = {row["tid"] for row in THREADS.values()}
    for tid in map(int, os.listdir("/proc/self/task")):
        if tid not in known:
            enrol(f"java.{tid}", tid, None, None)
    print(json.dumps({"sample": "java_monitors", "variant": "", "pid": os.getpid(), "threads": THREADS, "locks": LOCKS,
                      "deadlock": [("red", "blue.lock", "blue"), ("blue", "red.lock", "red")],
                      "stuck_behind": []}), flush=True)
    rest()


if __name__ == "__main__":
    main()
