"""Pairs of threads that transfer between two objects in opposite directions: deadlocks over locks of the same name.

Each pair has another class: it keeps its attributes elsewhere, or another kind of value tells its objects apart.
Prints one JSON line about itself, see tests/support/samples.py, and writes to the file more.json, by lock, the type,
attribute and value of the object that has it, or null:

    {LOCK: [TYPE, ATTRIBUTE, VALUE]}

Runs on CPython 3.6 and later.
"""

import ctypes
import json
import os
import threading
import time
from typing import Any

SYS_GETTID = 186
THREADS = {}  # type: dict[str, dict[str, object]]
LOCKS = {}  # type: dict[str, dict[str, object]]
OBJECTS = {}  # type: dict[str, list[str] | None]
EDGES = []  # type: list[tuple[str, str, str]]
TAKEN = []  # type: list[str]
STANDING = []  # type: list[str]


class Account:
    """Attributes in the instance; up to 3.10 in a dict with shared keys."""

    def __init__(self, name: object) -> None:
        self.lock = threading.Lock()
        self.name = name


class Slotted:
    __slots__ = ("lock", "id")

    def __init__(self, id: object) -> None:
        self.lock = threading.Lock()
        self.id = id


class SlottedToo(Slotted):
    """Slots of the base class, and a dict."""

    def __init__(self, id: object) -> None:
        super().__init__(id)
        self.note = "x"


class Opened:
    """Its dict was made for the program."""

    def __init__(self, path: object) -> None:
        self.lock = threading.RLock()
        self.__dict__["path"] = path
        self.__dict__[7] = "not a name"  # type: ignore[index]


class Large:
    """More attributes than fit into the instance, and values of other types under preferred names."""

    def __init__(self, key: object) -> None:
        for number in range(200):
            setattr(self, "x%d" % number, number)
        self.name, self.id, self.path = None, True, [key]
        self.lock = threading.Lock()
        self.key = key


class Mapped(dict):  # type: ignore[type-arg]
    """An object of a builtin type that has attributes too."""

    def __init__(self, title: object) -> None:
        super().__init__(name="not an attribute")
        self.lock = threading.Lock()
        self.title = title


class Worker(threading.Thread):
    """An attribute that is a property tells nothing; `Thread` has one called `name`."""

    def __init__(self, uuid: object) -> None:
        super().__init__(name="worker")
        self.lock = threading.Lock()
        self.uuid = uuid


class Plain:
    """Nothing tells these apart."""

    name = "plain"

    def __init__(self, name: object) -> None:
        self.lock = threading.Lock()
        self.owner = name


class Text(str):
    """Not a plain text: its `__repr__` may show anything."""


#: For each pair: the class, the values of its objects, the attribute that tells them apart, and the values as text.
PAIRS = (
    (Account, ("alice", "bob"), "name", ("'alice'", "'bob'")),
    (Slotted, (1, -(2 ** 70)), "id", ("1", "-1180591620717411303424")),
    (SlottedToo, ("größe", "it's\x1b[2J"), "id", ("'größe'", '"it\'s\\x1b[2J"')),
    (Opened, ("/srv/accounts/of/the/bank/europe/alice.sqlite", "/a"), "path",
     ("'/srv/accounts'...'/europe/alice.sqlite'", "'/a'")),
    (Large, (b"alice", b"\x8f\x12\x00"), "key", ("b'alice'", "0x8f1200")),
    (Mapped, ("数据", "x" * 40), "title", ("'数据'", repr("x" * 40))),
    (Worker, ("a", "b"), "uuid", ("'a'", "'b'")),
    (Plain, ("alice", "bob"), None, ("", "")),
    (Account, (Text("alice"), ""), None, ("", "")),
)  # type: tuple[tuple[Any, tuple[object, object], str | None, tuple[str, str]], ...]


class Ledger:
    """A lock that all objects share is none of one object."""

    lock = threading.Lock()

    def __init__(self, name: str) -> None:
        self.name = name

    def enter(self, role: str) -> None:
        STANDING.append(role)
        with self.lock:
            pass


def enrol(role: str) -> None:
    known = getattr(threading, "get_native_id", None)  # since 3.8
    THREADS[role] = {
        "tid": int(known() if known else ctypes.CDLL(None).syscall(SYS_GETTID)),
        "python_name": threading.current_thread().name,
        "blocked": True,
        "syscall": "futex",
        "stack": [],
    }


def until(done: Any) -> None:
    while not done():
        time.sleep(0.002)


def transfer(role: str, other: str, src: Any, dst: Any) -> None:
    enrol(role)
    with src.lock:
        TAKEN.append(role)
        until(lambda: other in TAKEN)
        STANDING.append(role)
        with dst.lock:
            pass


def start(role: str, target: Any, *arguments: object) -> None:
    threading.Thread(target=target, args=arguments, name=role, daemon=True).start()


def tell(lock: Any, name: str, holder: str, waiter: str, of_object: "list[str] | None") -> None:
    recursive = type(lock).__name__ == "RLock"
    LOCKS[name] = {
        "kind": "py-rlock" if recursive else "py-lock",
        "address": hex(id(lock)),
        "state": "locked",
        "mode": "exclusive",
        "holders": [holder],
        "really": [holder],
        "waiters": [waiter],
        "candidates": [],
        "evidence": "recorded" if recursive else "derived",
    }
    OBJECTS[name] = of_object
    EDGES.append((waiter, name, holder))


def main() -> None:
    for number, (kind, values, attribute, texts) in enumerate(PAIRS):
        roles = ["%s-%d-%d" % (kind.__name__, number, at) for at in (0, 1)]
        pair = [kind(value) for value in values]
        for at in (0, 1):
            tell(pair[at].lock, roles[at], roles[at], roles[1 - at],
                 [kind.__name__, attribute, texts[at]] if attribute else None)
            start(roles[at], transfer, roles[at], roles[1 - at], pair[at], pair[1 - at])
    enrol("main")
    until(lambda: len(STANDING) == 2 * len(PAIRS))
    tell(Ledger.lock, "ledger", "main", "main", None)
    with Ledger.lock:
        with open("more.json", "w") as file:
            json.dump(OBJECTS, file)
        print(json.dumps({
            "sample": "accounts", "variant": "", "pid": os.getpid(), "threads": THREADS, "locks": LOCKS,
            "deadlock": EDGES, "stuck_behind": [],
        }), flush=True)
        Ledger("accounts").enter("main")


if __name__ == "__main__":
    main()
