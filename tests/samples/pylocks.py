"""Threads that wait for Python's own locks, of each kind, and deadlocks over them.

`pylocks.py waits` hangs in many ways that are not deadlocks, `pylocks.py deadlocks` in many that are. Prints one JSON
line about itself, see tests/support/samples.py, and writes further facts to the file more.json:

    {"names": {LOCK: NAME}, "taken": {LOCK: [FUNCTION, LINE]}, "timed": [ROLE],
     "queues": {LOCK: [METHOD, UNFINISHED, MAXSIZE, QUEUED]}}

`names` are the program's names of the locks, `taken` says which `with` statement took a lock, `timed` which
threads wait with a timeout, `queues` in which method of a queue a thread waits for a lock, and the queue's numbers.
Lines are looked up in this file: `#: NAME` marks the one that takes the lock of that name.
Runs on CPython 3.6 and later.
"""

import concurrent.futures
import contextlib
import ctypes
import functools
import inspect
import io
import json
import logging
import multiprocessing
import os
import queue
import re
import signal
import sys
import threading
import time
from typing import Any, Callable

FOREVER = 100000.0
# gdbext knows the bytecode of later versions. Otherwise `acquire` leaves no trace: all threads that know a lock are
# candidates, also the main thread, whose outermost frame has made it
BYTECODE = sys.version_info >= (3, 8)
FURTHER = () if BYTECODE else ("main",)
SYS_GETTID = 186
with open(__file__, encoding="utf-8") as own_source:
    LINES = {
        match.group(1): number
        for number, line in enumerate(own_source, 1)
        for match in [re.search(r"#: ([\w-]+)$", line)]
        if match
    }
READ_END, WRITE_END = os.pipe()
STANDING = set()  # type: set[str]
MET = {}  # type: dict[str, list[int]]
THREADS = {}  # type: dict[str, dict[str, object]]
PEOPLE = {}  # type: dict[str, threading.Thread]
LOCKS = {}  # type: dict[str, dict[str, object]]
NAMES = {}  # type: dict[str, str]
TAKEN = {}  # type: dict[str, tuple[str, int]]
TIMED = []  # type: list[str]
QUEUES = {}  # type: dict[str, tuple[str, int, int, int]]
EDGES = []  # type: list[tuple[str, str, str]]
BEHIND = []  # type: list[str]


# -- helpers of the scenes ------------------------------------------------------------------------------------


def native_id() -> int:
    known = getattr(threading, "get_native_id", None)  # since 3.8
    return int(known() if known else ctypes.CDLL(None).syscall(SYS_GETTID))


def enrol(role: str, syscall: str) -> None:
    THREADS[role] = {
        "tid": native_id(),
        "python_name": threading.current_thread().name,
        "blocked": True,
        "syscall": syscall,
        "stack": [],
    }


def stand(role: str) -> None:
    """Called by a thread right before it waits forever."""
    STANDING.add(role)


def until(condition: "Callable[[], object]") -> None:
    # without any lock, which would be seen
    while not condition():
        time.sleep(0.002)


def start(role: str, target: "Callable[[], object]", syscall: str = "futex", alone: bool = True) -> None:
    """Start a thread; returns when it is about to wait forever, unless other threads must act first."""

    def run() -> None:
        enrol(role, syscall)
        target()

    PEOPLE[role] = threading.Thread(target=run, name=role, daemon=True)
    PEOPLE[role].start()
    if alone:
        until(lambda: role in STANDING)


def hold(role: str) -> None:
    """Wait forever, but not for a lock."""
    stand(role)
    os.read(READ_END, 1)


def meet(point: str, count: int = 2) -> None:
    """Wait until this many threads are here."""
    MET.setdefault(point, []).append(1)
    until(lambda: len(MET[point]) >= count)


def tell(
    name: str,
    kind: str,
    address: int,
    state: str,
    waiters: "list[str]",
    holder: "str | None" = None,
    evidence: "str | None" = None,
    candidates: "tuple[str, ...]" = (),
    known_as: "str | None" = None,
    taken_in: "str | None" = None,
    line: "str | None" = None,
) -> None:
    LOCKS[name] = {
        "kind": kind,
        "address": hex(address),
        "state": state,
        "mode": "exclusive",
        "holders": [holder] if holder else [],
        "really": [holder] if holder else [],
        "waiters": waiters,
        "candidates": list(candidates),
        "evidence": evidence,
    }
    if known_as:
        NAMES[name] = known_as
    if taken_in:
        TAKEN[name] = (taken_in, LINES[line or name])


# -- nothing is deadlocked ------------------------------------------------------------------------------------


class Office:
    """Objects that threads wait for and that have no holder."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.news = threading.Condition()
        self.chairs = threading.BoundedSemaphore(1)
        self.meeting = threading.Barrier(3)
        self.inbox = queue.Queue()  # type: queue.Queue[int]
        self.outbox = queue.LifoQueue(1)  # type: queue.Queue[int]
        self.tray: Any = getattr(queue, "SimpleQueue", queue.Queue)()  # since 3.7
        self.answer = concurrent.futures.Future()  # type: concurrent.futures.Future[int]
        # other processes may wake these threads; there are none
        context: Any = multiprocessing.get_context("fork")
        self.whistle = context.Event()
        self.bulletin = context.Condition()
        self.lockers = context.Semaphore(0)
        self.key = context.BoundedSemaphore(1)
        self.parcel = context.Queue(1)
        self.assembly = context.Barrier(3)
        self.post = context.JoinableQueue()

    def enter(self) -> None:
        stand("visitor")
        self.opened.wait()

    def enter_soon(self) -> None:
        stand("hurried")
        self.opened.wait(FOREVER)

    def read_news(self) -> None:
        with self.news:
            stand("reader")
            self.news.wait()

    def read_good_news(self) -> None:
        with self.news:
            stand("choosy")
            self.news.wait_for(lambda: False)

    def sit_down(self) -> None:
        self.chairs.acquire()
        stand("guest")
        self.chairs.acquire()

    def meet_others(self, role: str) -> None:
        stand(role)
        self.meeting.wait()

    def await_whistle(self) -> None:
        stand("runner")
        self.whistle.wait()

    def read_bulletin(self) -> None:
        with self.bulletin:
            stand("citizen")
            self.bulletin.wait()

    def want_locker(self) -> None:
        stand("swimmer")
        with self.lockers:
            pass

    def want_key(self) -> None:
        self.key.acquire()
        stand("tenant")
        self.key.acquire()

    def want_key_too(self) -> None:
        stand("caretaker")
        with self.key:
            pass

    def send_parcel(self) -> None:
        self.parcel._sem.acquire()  # as `put`, without its thread
        stand("packer")
        self.parcel.put(1)

    def assemble(self) -> None:
        stand("delegate")
        self.assembly.wait()

    def see_post_read(self) -> None:
        self.post._unfinished_tasks.release()  # as `put`, without its thread
        stand("poster")
        self.post.join()

    def take_mail(self) -> None:
        stand("clerk")
        self.inbox.get()

    def send_mail(self) -> None:
        self.outbox.put(1)
        self.outbox.get()  # never done
        self.outbox.put(2)
        stand("sender")
        self.outbox.put(3)

    def see_mail_read(self) -> None:
        stand("boss")
        self.outbox.join()

    def empty_tray(self) -> None:
        stand("typist")
        self.tray.get()

    def wait_for_answer(self) -> None:
        stand("asker")
        self.answer.result()

    def open_up(self) -> None:
        start("visitor", self.enter)
        start("hurried", self.enter_soon)
        start("reader", self.read_news)
        start("choosy", self.read_good_news)
        start("guest", self.sit_down)
        for role in ("first", "second"):
            start(role, functools.partial(self.meet_others, role))
        start("clerk", self.take_mail)
        start("sender", self.send_mail)
        start("boss", self.see_mail_read)
        start("typist", self.empty_tray)
        start("asker", self.wait_for_answer)
        start("runner", self.await_whistle)
        start("citizen", self.read_bulletin)
        start("swimmer", self.want_locker)
        start("tenant", self.want_key)
        start("caretaker", self.want_key_too)
        start("packer", self.send_parcel)
        start("delegate", self.assemble)
        start("poster", self.see_post_read)
        TIMED.append("hurried")

        def known(attribute: str) -> str:
            return "self.{} of Office".format(attribute)

        tell("opened", "py-event", id(self.opened), "not set", ["visitor", "hurried"], known_as=known("opened"))
        tell("news", "py-condition", id(self.news), "waiting for a notification", ["reader", "choosy"],
             known_as=known("news"))
        tell("chairs", "py-semaphore", id(self.chairs), "zero", ["guest"], known_as=known("chairs"))
        tell("meeting", "barrier", id(self.meeting), "2 of 3 arrived", ["first", "second"], known_as=known("meeting"))
        tell("inbox", "py-condition", id(self.inbox.not_empty), "queue is empty", ["clerk"], known_as=known("inbox"))
        tell("outbox", "py-condition", id(self.outbox.not_full), "queue is full", ["sender"],
             known_as=known("outbox"))
        tell("outbox-done", "py-condition", id(self.outbox.all_tasks_done), "not all tasks are done", ["boss"],
             known_as=known("outbox"))
        tell("tray", "py-condition", id(getattr(self.tray, "not_empty", self.tray)), "queue is empty", ["typist"],
             known_as=known("tray"))
        QUEUES.update({"inbox": ("get", 0, 0, 0), "outbox": ("put", 2, 1, 1), "outbox-done": ("join", 2, 1, 1)})
        if isinstance(self.tray, queue.Queue):
            QUEUES["tray"] = ("get", 0, 0, 0)
        tell("whistle", "py-event", id(self.whistle), "not set", ["runner"], known_as=known("whistle"))
        tell("bulletin", "py-condition", id(self.bulletin), "waiting for a notification", ["citizen"],
             known_as=known("bulletin"))
        tell("lockers", "py-semaphore", id(self.lockers._semlock), "zero", ["swimmer"], known_as=known("lockers"))
        # each has the same SemLock as a Lock, which would have an owner
        tell("key", "py-semaphore", id(self.key._semlock), "zero", ["tenant", "caretaker"], known_as=known("key"))
        tell("parcel", "py-semaphore", id(self.parcel._sem._semlock), "zero", ["packer"],
             known_as="self._sem of Queue")
        tell("assembly", "barrier", id(self.assembly), "1 of 3 arrived", ["delegate"],
             known_as=known("assembly"))
        tell("post", "py-condition", id(self.post._cond), "not all tasks are done", ["poster"],
             known_as=known("post"))
        tell("answer", "py-condition", id(self.answer), "result is pending", ["asker"], known_as=known("answer"))


ledger = threading.Lock()
journal = threading.RLock()
slate = threading._RLock()
till = threading.Lock()
board = threading.Condition(threading.Lock())
pump = threading.Condition()
store = threading.Lock()
spool = threading.Lock()
stamp: Any = multiprocessing.get_context("fork").Lock()
vault: Any = multiprocessing.get_context("fork").RLock()


def keep_ledger() -> None:
    for _ in range(2):
        try:
            with ledger:  #: ledger
                hold("bookkeeper")
        finally:
            pass


def want_ledger() -> None:
    try:
        stand("auditor")
        with ledger:
            pass
    finally:
        pass


def want_ledger_soon() -> None:
    stand("hasty")
    ledger.acquire(timeout=FOREVER)


def write_journal() -> None:
    with journal:
        hold("chronicler")


def keep_journal() -> None:
    with open(os.devnull) as _, journal:  #: journal
        write_journal()


def want_journal() -> None:
    stand("historian")
    with journal:
        pass


def keep_slate() -> None:
    with slate:  #: slate
        hold("waiter")


def want_slate() -> None:
    stand("cook")
    slate.acquire()


def keep_till() -> None:
    till.acquire()
    hold("cashier")


def want_till() -> None:
    stand("customer")
    till.acquire()


def watch_board() -> None:
    with board:
        stand("watcher")
        board.wait()


def keep_board() -> None:
    with board:  #: board
        hold("teacher")


def want_board() -> None:
    stand("pupil")
    with board:
        pass


def wait_at_pump() -> None:
    with pump:
        stand("thirsty")
        pump.wait()


def keep_pump() -> None:
    with pump:  #: pump
        pump.notify()
        hold("drinker")


@contextlib.contextmanager
def storage():  # type: ignore[no-untyped-def]
    with store:  #: store
        yield store


def keep_store() -> None:
    with storage():
        hold("keeper")


def want_store() -> None:
    stand("shopper")
    with storage():
        pass


def stamp_letters() -> None:
    with stamp:  #: stamp
        hold("postman")


def want_stamp() -> None:
    stand("writer")
    stamp.acquire()


def count_money() -> None:
    with vault:
        hold("banker")


def keep_vault() -> None:
    with vault:  #: vault
        count_money()


def want_vault() -> None:
    stand("burglar")
    with vault:
        pass


class SlowHandler(logging.Handler):
    """Keeps its lock while it writes."""

    def emit(self, record: logging.LogRecord) -> None:
        hold("logger")


def offices() -> None:
    """A lock that a thread holds, and others that wait for it."""
    start("bookkeeper", keep_ledger, "read")
    start("auditor", want_ledger)
    start("hasty", want_ledger_soon)
    TIMED.append("hasty")
    tell("ledger", "py-lock", id(ledger), "locked", ["auditor", "hasty"], "bookkeeper", "derived",
         known_as="ledger of pylocks", taken_in="keep_ledger")
    start("chronicler", keep_journal, "read")
    start("historian", want_journal)
    tell("journal", "py-rlock", id(journal), "locked", ["historian"], "chronicler", "recorded",
         known_as="journal of pylocks", taken_in="keep_journal")
    start("waiter", keep_slate, "read")
    start("cook", want_slate)
    tell("slate", "py-rlock", id(slate), "locked", ["cook"], "waiter", "recorded", known_as="slate of pylocks",
         taken_in="keep_slate")
    start("cashier", keep_till, "read")
    start("customer", want_till)
    tell("till", "py-lock", id(till), "locked", ["customer"], candidates=("cashier", *FURTHER),
         known_as="till of pylocks")

    start("watcher", watch_board)
    start("teacher", keep_board, "read")
    start("pupil", want_board)
    tell("board", "py-lock", id(board._lock), "locked", ["pupil"], "teacher", "derived",  # type: ignore[attr-defined]
         known_as="board of pylocks", taken_in="keep_board")
    tell("board-news", "py-condition", id(board), "waiting for a notification", ["watcher"],
         known_as="board of pylocks")
    start("thirsty", wait_at_pump)
    # it has been notified, and waits for the lock that it had released
    start("drinker", keep_pump, "read")
    tell("pump", "py-rlock", id(pump._lock), "locked", ["thirsty"], "drinker", "recorded",  # type: ignore[attr-defined]
         known_as="pump of pylocks", taken_in="keep_pump")

    start("keeper", keep_store, "read")
    start("shopper", want_store)
    tell("store", "py-lock", id(store), "locked", ["shopper"], "keeper", "derived", known_as="store of pylocks",
         taken_in="storage")
    if sys.version_info >= (3, 7):
        spools()
    start("postman", stamp_letters, "read")
    start("writer", want_stamp)
    tell("stamp", "py-lock", id(stamp._semlock), "locked", ["writer"], "postman", "recorded",
         known_as="stamp of pylocks", taken_in="stamp_letters")
    start("banker", keep_vault, "read")
    start("burglar", want_vault)
    tell("vault", "py-rlock", id(vault._semlock), "locked", ["burglar"], "banker", "recorded",
         known_as="vault of pylocks", taken_in="keep_vault")


def spools() -> None:
    """A lock that a coroutine holds, in an asynchronous context manager."""
    import asyncio

    @contextlib.asynccontextmanager
    async def spooling():  # type: ignore[no-untyped-def]
        with spool:  #: spool
            yield

    async def print_pages() -> None:
        async with spooling():
            hold("printer")

    def run() -> None:
        loop = asyncio.new_event_loop()
        loop.run_until_complete(print_pages())

    def want_spool() -> None:
        stand("author")
        with spool:
            pass

    start("printer", run, "read")
    start("author", want_spool)
    tell("spool", "py-lock", id(spool), "locked", ["author"], "printer", "derived", known_as="spool of pylocks",
         taken_in="spooling")


def files() -> None:
    """The lock of a file, that of a log, the end of a thread, a pool that has nothing to do."""
    receiving, _ = os.pipe()
    stream = os.fdopen(receiving, "rb")

    def read_stream() -> None:
        stand("downloader")
        stream.read(10)

    def want_stream() -> None:
        stand("player")
        stream.read(10)

    start("downloader", read_stream, "read")
    until(lambda: "downloader" in STANDING)
    time.sleep(0.1)  # it may not be in `read` yet, and the other must come second
    start("player", want_stream)
    tell("stream", "py-buffered-io", id(stream), "locked", ["player"], "downloader", "recorded", known_as="stream")

    log = logging.getLogger("slow")
    handler = SlowHandler()
    log.addHandler(handler)

    def write_log() -> None:
        stand("chatterbox")
        log.error("two")

    start("logger", functools.partial(log.error, "one"), "read")
    start("chatterbox", write_log)
    tell("log", "py-rlock", id(handler.lock), "locked", ["chatterbox"], "logger", "recorded",
         known_as="self.lock of SlowHandler")
    body, first = inspect.getsourcelines(logging.Handler.handle)
    statement = [first + i for i, line in enumerate(body) if line.strip() == "with self.lock:"]  # since 3.13
    if statement:
        TAKEN["log"] = ("handle", statement[0])

    def parent() -> None:
        stand("parent")
        PEOPLE["logger"].join()

    def strict_parent() -> None:
        stand("strict")
        PEOPLE["logger"].join(FOREVER)

    start("parent", parent)
    start("strict", strict_parent)
    TIMED.append("strict")
    tell("logger-ends", "thread-exit", PEOPLE["logger"].ident or 0, "running", ["parent", "strict"], "logger",
         "recorded")

    pool = concurrent.futures.ThreadPoolExecutor(1)
    pool.submit(enrol, "idle", "futex").result()
    work = pool._work_queue
    if isinstance(work, queue.Queue):
        QUEUES["work"] = ("get", 1, 0, 0)  # the pool never calls task_done
    tell("work", "py-condition", id(getattr(work, "not_empty", work)), "queue is empty", ["idle"],
         known_as="work_queue")
    files.kept = pool  # type: ignore[attr-defined]


# -- deadlocks ------------------------------------------------------------------------------------------------


class Fork:
    """What two philosophers want of each other, one each."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


class Table:
    def __init__(self) -> None:
        self.forks = [Fork().lock, Fork().lock]

    def eat_left(self) -> None:
        with self.forks[0]:  #: left
            meet("table")
            stand("plato")
            with self.forks[1]:
                pass

    def eat_right(self) -> None:
        with self.forks[1]:  #: right
            meet("table")
            stand("sokrates")
            with self.forks[0]:
                pass


table = Table()
salt, pepper = threading.RLock(), threading.RLock()
oil, vinegar = threading.Lock(), threading.Lock()
cup, jug = threading.Condition(threading.Lock()), threading.Condition()
east: Any = multiprocessing.get_context("fork").Lock()
west: Any = multiprocessing.get_context("fork").Lock()
door = threading.Lock()
mirror = threading.Lock()
cache = threading.Lock()
report = threading.Lock()
registry = threading.Lock()
feed = threading.Lock()


def salt_first() -> None:
    salt.acquire()  #: salt
    meet("spices")
    stand("chef")
    with pepper:
        pass


def pepper_first() -> None:
    with pepper:  #: pepper
        meet("spices")
        stand("sous-chef")
        salt.acquire()


def oil_first() -> None:
    oil.acquire()
    meet("dressing")
    stand("saucier")
    vinegar.acquire()


def vinegar_first() -> None:
    vinegar.acquire()
    meet("dressing")
    stand("butler")
    oil.acquire()


def cup_first() -> None:
    with cup:  #: cup
        meet("drinks")
        stand("barista")
        with jug:
            pass


def jug_first() -> None:
    with jug:  #: jug
        meet("drinks")
        stand("barman")
        with cup:
            pass


def go_west() -> None:
    with east:  #: east
        meet("winds")
        stand("sailor")
        with west:
            pass


def go_east() -> None:
    with west:  #: west
        meet("winds")
        stand("pilot")
        east.acquire()


def open_door() -> None:
    stand("child")
    with door:
        pass


def close_door() -> None:
    with door:  #: door
        start("child", open_door)
        stand("mother")
        PEOPLE["child"].join()


def look_twice() -> None:
    with mirror:  #: mirror
        stand("narcissus")
        with mirror:
            pass


class Entry:
    """Tidies up after itself, as if nobody could be in the way."""

    def __del__(self) -> None:
        stand("cleaner")
        with cache:
            pass


def drop_entry() -> None:
    entry = Entry()
    with cache:  #: cache
        del entry


MODULE = """
from __main__ import meet, registry, stand
meet("import")
stand("importer")
with registry:
    pass
"""


def import_module() -> None:
    import pylocks_plugin  # type: ignore[import-not-found] # noqa: F401 #: plugin


def register_module() -> None:
    with registry:  #: registry
        meet("import")
        stand("registrar")
        import pylocks_plugin  # noqa: F401


class Feed(io.RawIOBase):
    """A file whose contents come under a lock."""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        meet("feed")
        stand("consumer")
        with feed:
            return 0


channel = io.BufferedReader(Feed())


def consume() -> None:
    channel.read(1)


def produce() -> None:
    with feed:  #: feed
        meet("feed")
        stand("producer")
        channel.read(1)


def on_signal(number: int, frame: object) -> None:
    with report:
        pass


def cycle(*edges: "tuple[str, str, str]") -> None:
    EDGES.extend(edges)


def quarrels() -> None:
    start("plato", table.eat_left, alone=False)
    start("sokrates", table.eat_right)
    until(lambda: "plato" in STANDING)

    def beg() -> None:
        stand("beggar")
        table.forks[0].acquire()

    def wait_for_friend() -> None:
        stand("friend")
        PEOPLE["plato"].join()

    start("beggar", beg)
    start("friend", wait_for_friend)
    BEHIND.extend(["beggar", "friend"])
    tell("left", "py-lock", id(table.forks[0]), "locked", ["sokrates", "beggar"], "plato", "derived",
         known_as="self.forks[0] of Table", taken_in="eat_left")
    tell("right", "py-lock", id(table.forks[1]), "locked", ["plato"], "sokrates", "derived",
         known_as="self.forks[1] of Table", taken_in="eat_right")
    tell("plato-ends", "thread-exit", PEOPLE["plato"].ident or 0, "running", ["friend"], "plato", "recorded")
    cycle(("plato", "right", "sokrates"), ("sokrates", "left", "plato"))

    start("chef", salt_first, alone=False)
    start("sous-chef", pepper_first)
    tell("salt", "py-rlock", id(salt), "locked", ["sous-chef"], "chef", "recorded", known_as="salt of pylocks",
         taken_in="salt_first" if BYTECODE else None)
    tell("pepper", "py-rlock", id(pepper), "locked", ["chef"], "sous-chef", "recorded", known_as="pepper of pylocks",
         taken_in="pepper_first")
    cycle(("chef", "pepper", "sous-chef"), ("sous-chef", "salt", "chef"))

    # taken with `acquire` and never released: by a function that may leave that to another thread
    start("saucier", oil_first, alone=False)
    start("butler", vinegar_first)
    tell("oil", "py-lock", id(oil), "locked", ["butler"], candidates=("saucier", *FURTHER), known_as="oil of pylocks")
    tell("vinegar", "py-lock", id(vinegar), "locked", ["saucier"], candidates=("butler", *FURTHER),
         known_as="vinegar of pylocks")

    start("barista", cup_first, alone=False)
    start("barman", jug_first)
    tell("cup", "py-lock", id(cup._lock), "locked", ["barman"], "barista", "derived",  # type: ignore[attr-defined]
         known_as="cup of pylocks", taken_in="cup_first")
    tell("jug", "py-rlock", id(jug._lock), "locked", ["barista"], "barman", "recorded",  # type: ignore[attr-defined]
         known_as="jug of pylocks", taken_in="jug_first")
    cycle(("barista", "jug", "barman"), ("barman", "cup", "barista"))

    start("sailor", go_west, alone=False)
    start("pilot", go_east)
    tell("east", "py-lock", id(east._semlock), "locked", ["pilot"], "sailor", "recorded", known_as="east of pylocks",
         taken_in="go_west")
    tell("west", "py-lock", id(west._semlock), "locked", ["sailor"], "pilot", "recorded", known_as="west of pylocks",
         taken_in="go_east")
    cycle(("sailor", "west", "pilot"), ("pilot", "east", "sailor"))

    start("mother", close_door)
    tell("door", "py-lock", id(door), "locked", ["child"], "mother", "derived", known_as="door of pylocks",
         taken_in="close_door")
    tell("child-ends", "thread-exit", PEOPLE["child"].ident or 0, "running", ["mother"], "child", "recorded")
    cycle(("mother", "child-ends", "child"), ("child", "door", "mother"))

    start("narcissus", look_twice)
    tell("mirror", "py-lock", id(mirror), "locked", ["narcissus"], "narcissus", "derived",
         known_as="mirror of pylocks", taken_in="look_twice")
    start("cleaner", drop_entry)
    tell("cache", "py-lock", id(cache), "locked", ["cleaner"], "cleaner", "derived", known_as="cache of pylocks",
         taken_in="drop_entry")
    cycle(("narcissus", "mirror", "narcissus"), ("cleaner", "cache", "cleaner"))

    start("consumer", consume, alone=False)
    start("producer", produce)
    tell("feed", "py-lock", id(feed), "locked", ["consumer"], "producer", "derived", known_as="feed of pylocks",
         taken_in="produce")
    tell("channel", "py-buffered-io", id(channel), "locked", ["producer"], "consumer", "recorded",
         known_as="channel of pylocks")
    cycle(("consumer", "feed", "producer"), ("producer", "channel", "consumer"))

    with open("pylocks_plugin.py", "w") as file:
        file.write(MODULE)
    sys.path.insert(0, os.getcwd())
    start("importer", import_module, alone=False)
    start("registrar", register_module)
    bootstrap = sys.modules["_frozen_importlib"]
    plugin = bootstrap._module_locks["pylocks_plugin"]()
    tell("registry", "py-lock", id(registry), "locked", ["importer"], "registrar", "derived",
         known_as="registry of pylocks_plugin", taken_in="register_module")
    tell("plugin", "py-import", id(plugin), "locked", ["registrar"], "importer", "recorded",
         known_as="module pylocks_plugin", taken_in="import_module")
    cycle(("importer", "registry", "registrar"), ("registrar", "plugin", "importer"))


def say(variant: str) -> None:
    until(lambda: set(PEOPLE) <= STANDING)
    with open("more.json", "w") as file:
        json.dump({"names": NAMES, "taken": TAKEN, "timed": TIMED, "queues": QUEUES}, file)
    truth = {
        "sample": "pylocks",
        "variant": variant,
        "pid": os.getpid(),
        "threads": THREADS,
        "locks": LOCKS,
        "deadlock": EDGES,
        "stuck_behind": BEHIND,
    }
    print(json.dumps(truth), flush=True)


def waits() -> None:
    Office().open_up()
    offices()
    files()
    done = threading.Event()
    enrol("main", "futex")
    tell("done", "py-event", id(done), "not set", ["main"], known_as="done")
    say("waits")
    done.wait()


def deadlocks() -> None:
    quarrels()
    enrol("main", "futex")
    tell("report", "py-lock", id(report), "locked", ["main"], "main", "derived", known_as="report of pylocks",
         taken_in="deadlocks")
    cycle(("main", "report", "main"))
    signal.signal(signal.SIGUSR1, on_signal)
    with report:  #: report
        say("deadlocks")
        os.kill(os.getpid(), signal.SIGUSR1)


if __name__ == "__main__":
    {"waits": waits, "deadlocks": deadlocks}[sys.argv[1]]()
