"""Tasks of asyncio that await each other and everything else, in event loops of two threads; a third loop is busy.

Variants: ``tree`` has all of it; ``python`` the same with tasks of asyncio's Python implementation; ``many N`` N tasks
that wait for one event; ``eager`` a task that starts another, both of which run (3.12 and later). Prints the JSON line
that tests/support/samples.py describes and stays as it is. The file tasks.json in its directory then describes the
loops and tasks. The facts come from Python's own attributes of coroutines (``cr_await``, ``cr_frame`` and
similar), not from memory:

    {"loops": {NAME: {"address": "0x..", "type": "_UnixSelectorEventLoop", "role": ROLE | null}},
     "tasks": {NAME: {"address": "0x..", "named": true, "loop": NAME, "state": "pending" | "running",
                      "stack": [[FUNCTION, FILE, LINE], ...], "tasks": [NAME, ...], "kind": "asyncio.Lock" | null,
                      "object": "0x.." | null, "name": "lock" | null, "holders": [NAME, ...], "timed": false,
                      "others": 0}},
     "cycles": [[NAME, ...], ...]}

`tasks` are those whose end a task waits for, `others` how many other futures; `kind`, `object` and `name` say what
else it waits for. Runs on CPython
3.7 and later.
"""

import sys

if sys.version_info >= (3, 14) and "python" in sys.argv:
    # there its Python tasks work without the C implementation only
    sys.modules["_asyncio"] = None  # type: ignore[assignment]

import asyncio
import concurrent.futures
import ctypes
import json
import os
import threading
import time
import types
from typing import Any, Awaitable, Callable, Dict, Iterator, List, Optional, Set

LONG = 100000
NATIVE_ID = getattr(threading, "get_native_id", None) or ctypes.CDLL(None).gettid  # the first since 3.8
GLOBAL_EVENT = None  # type: Optional[asyncio.Event]


class Witness:
    """How the threads describe themselves, and the tasks with what each of them waits for."""

    def __init__(self) -> None:
        self.tids = {}  # type: Dict[str, int]
        self.loops = {}  # type: Dict[str, Any]
        # the loops that have got their tasks
        self.filled: Set[str] = set()
        self.tasks = {}  # type: Dict[str, Any]
        self.truth = {}  # type: Dict[str, Dict[str, Any]]
        self.cycles = []  # type: List[List[str]]
        # what is awaited through an object that does not expose it, by the type of that object
        self.hidden = {}  # type: Dict[str, Any]

    def enter(self, role: str) -> None:
        self.tids[role] = int(NATIVE_ID())

    def start(self, loop_name: str, name: str, coroutine: Any, kind: Optional[str] = None, on: object = None,
              called: Optional[str] = None, tasks: "Any" = (), holders: "Any" = (), timed: bool = False,
              others: Optional[int] = None) -> Any:
        """Make a task and note what it will wait for."""
        loop = self.loops[loop_name]
        named = sys.version_info >= (3, 8)
        task = loop.create_task(coroutine, name=name) if named else loop.create_task(coroutine)
        self.tasks[name] = task
        self.truth[name] = {
            "address": hex(id(task)), "named": named, "loop": loop_name, "state": "pending", "tasks": sorted(tasks),
            "kind": kind, "object": None if on is None else hex(id(on)), "name": called, "holders": sorted(holders),
            "timed": timed, "others": int(kind == "Future") if others is None else others,
        }
        return task


def steps(witness: Witness, task: Any) -> "Iterator[Any]":
    """The frames of a suspended task, outermost first."""
    item = task.get_coro() if hasattr(task, "get_coro") else task._coro
    while item is not None:
        kind = type(item).__name__
        if kind == "coroutine":
            frame, item = item.cr_frame, item.cr_await
        elif kind == "generator":
            frame, item = item.gi_frame, item.gi_yieldfrom
        elif kind == "async_generator":
            frame, item = item.ag_frame, item.ag_await
        elif kind in witness.hidden:
            item = witness.hidden[kind]
            continue
        else:
            return
        yield frame


def told(frame: Any) -> "List[object]":
    return [frame.f_code.co_name, frame.f_code.co_filename, frame.f_lineno]


# -- what the tasks do ----------------------------------------------------------------------------------------------

async def hold(lock: Any) -> None:
    async with lock:
        await asyncio.sleep(LONG)


async def take(lock: Any) -> None:
    async with lock:
        await asyncio.sleep(LONG)


async def take_twice(lock: Any) -> None:
    async with lock, lock:
        pass


async def take_both(mine: Any, other: Any, entered: "List[Any]") -> None:
    async with mine:
        entered.append(None)
        while len(entered) < 2:
            await asyncio.sleep(0)
        async with other:
            await asyncio.sleep(LONG)


class Consumer:
    def __init__(self, queue: "asyncio.Queue[int]") -> None:
        self.queue = queue

    async def run(self) -> None:
        while True:
            await self.queue.get()


async def join_queue(queue: "asyncio.Queue[int]") -> None:
    await queue.join()


async def acquire(semaphore: asyncio.Semaphore) -> None:
    await semaphore.acquire()


async def wait_condition(condition: asyncio.Condition) -> None:
    async with condition:
        await condition.wait()


async def read(reader: asyncio.StreamReader) -> None:
    await reader.readline()


async def await_thread(future: "concurrent.futures.Future[None]") -> None:
    await asyncio.wrap_future(future)


async def await_in_time(what: "Awaitable[Any]") -> None:
    async with asyncio.timeout(LONG):  # type: ignore[attr-defined,unused-ignore]
        await what


async def wait_global() -> None:
    assert GLOBAL_EVENT is not None
    await GLOBAL_EVENT.wait()


async def doze() -> None:
    await asyncio.sleep(LONG)


async def await_object(what: "Awaitable[Any]") -> None:
    await what


async def await_later(tasks: "Dict[str, Any]", name: str) -> None:
    while name not in tasks:
        await asyncio.sleep(0)
    await tasks[name]


async def await_with_timeout(what: "Awaitable[Any]", timeout: Optional[float]) -> None:
    await asyncio.wait_for(what, timeout)


async def await_later_with_timeout(tasks: "Dict[str, Any]", name: str) -> None:
    while name not in tasks:
        await asyncio.sleep(0)
    await asyncio.wait_for(tasks[name], LONG)


async def await_shielded(what: "Awaitable[Any]") -> None:
    await asyncio.shield(what)


async def await_all(*these: "Awaitable[Any]") -> None:
    await asyncio.gather(*these)


async def await_some(these: "Any") -> None:
    await asyncio.wait(these, return_when=asyncio.FIRST_COMPLETED)


async def await_group(witness: Witness, names: "List[str]") -> None:
    async with asyncio.TaskGroup() as group:  # type: ignore[attr-defined,unused-ignore]
        for name in names:
            witness.tasks[name] = group.create_task(doze(), name=name)


async def meet(barrier: "Any") -> None:
    await barrier.wait()


async def numbers(event: asyncio.Event) -> "Any":
    for number in range(2):
        if number:
            await event.wait()
        yield number


@types.coroutine
def old_style(what: "Any") -> "Any":
    return (yield from what)


class Wrapped:
    """Awaitable by a method of its own."""

    def __init__(self, what: "Any") -> None:
        self.what = what

    def __await__(self) -> "Any":
        return (yield from self.what.__await__())


async def iterate(witness: Witness, event: asyncio.Event) -> None:
    generator = witness.hidden["async_generator_asend"] = numbers(event)
    async for _ in generator:
        pass


async def deep(witness: Witness, event: asyncio.Event, depth: int) -> None:
    if depth:
        await deep(witness, event, depth - 1)
    else:
        await old_style(iterate(witness, event))


async def await_wrapped(witness: Witness, event: asyncio.Event) -> None:
    coroutine = witness.hidden["coroutine_wrapper"] = event.wait()
    await Wrapped(coroutine)


def block() -> None:
    os.read(0, 1)


async def run() -> None:
    block()


async def never_started() -> None:
    pass


# -- the whole ------------------------------------------------------------------------------------------------------

def fill_main(witness: Witness) -> None:
    """Tasks of the first loop."""
    global GLOBAL_EVENT
    loop = witness.loops["main"]
    asyncio.set_event_loop(loop)

    def start(*arguments: Any, **more: Any) -> Any:
        return witness.start("main", *arguments, **more)

    async def make() -> None:
        global GLOBAL_EVENT
        lock = asyncio.Lock()
        queue = asyncio.Queue()  # type: asyncio.Queue[int]
        full = asyncio.Queue()  # type: asyncio.Queue[int]
        full.put_nowait(1)
        semaphore = asyncio.Semaphore(0)
        bounded = asyncio.BoundedSemaphore(1)
        await bounded.acquire()
        condition = asyncio.Condition()
        event = asyncio.Event()
        GLOBAL_EVENT = asyncio.Event()
        future = loop.create_future()
        reader = asyncio.StreamReader(**({"loop": loop} if sys.version_info < (3, 10) else {}))
        thread = concurrent.futures.Future()  # type: concurrent.futures.Future[None]
        sleep = "asyncio.sleep"
        start("holder", hold(lock), sleep)
        start("taker", take(lock), "asyncio.Lock", lock, "lock", holders=["holder"])
        consumer = Consumer(queue)
        start("consumer", consumer.run(), "asyncio.Queue", queue, "self.queue")
        start("joiner", join_queue(full), "asyncio.Queue", full, "queue")
        start("counted", acquire(semaphore), "asyncio.Semaphore", semaphore, "semaphore")
        start("bounded", acquire(bounded), "asyncio.BoundedSemaphore", bounded, "semaphore")
        start("told", wait_condition(condition), "asyncio.Condition", condition, "condition")
        held = asyncio.Condition()
        start("condition's holder", hold(held), sleep)
        start("condition's taker", take(held), "asyncio.Lock", held._lock,  # type: ignore[attr-defined]
              holders=["condition's holder"])
        start("reader", read(reader), "asyncio.StreamReader", reader, "reader")
        start("threaded", await_thread(thread), "concurrent.futures.Future", thread, "future", others=1)
        selfish = asyncio.Lock()
        start("selfish", take_twice(selfish), "asyncio.Lock", selfish, "lock", holders=["selfish"])
        witness.cycles.append(["selfish"])
        start("global", wait_global(), "asyncio.Event", GLOBAL_EVENT, "GLOBAL_EVENT")
        start("deep", deep(witness, event, 2), "asyncio.Event", event, "event")
        start("wrapped", await_wrapped(witness, event), "asyncio.Event", event, "event")
        start("future", await_object(future), "Future", future, "what")
        inner = start("inner", doze(), sleep)
        shared = start("shared", doze(), sleep)
        start("direct", await_object(shared), tasks=["shared"])
        start("shielding", await_shielded(shared), "asyncio.shield", tasks=["shared"])
        start("guarded", await_with_timeout(inner, LONG), "asyncio.wait_for", tasks=["inner"], timed=True)
        start("unguarded", await_with_timeout(inner, None), "asyncio.wait_for", tasks=["inner"])
        start("some", await_some({inner, shared}), "asyncio.wait", tasks=["inner", "shared"])
        start("abba-1", take_both(lock_1, lock_2, entered), "asyncio.Lock", lock_2, "other", holders=["abba-2"])
        start("abba-2", take_both(lock_2, lock_1, entered), "asyncio.Lock", lock_1, "other", holders=["abba-1"])
        witness.cycles.append(["abba-1", "abba-2"])
        for name, other in (("ring-a", "ring-b"), ("ring-b", "ring-c"), ("ring-c", "ring-a")):
            start(name, await_later(witness.tasks, other), tasks=[other])
        witness.cycles.append(["ring-a", "ring-b", "ring-c"])
        start("behind", await_object(witness.tasks["ring-b"]), tasks=["ring-b"])
        for name, other in (("timed-a", "timed-b"), ("timed-b", "timed-a")):
            start(name, await_later_with_timeout(witness.tasks, other), "asyncio.wait_for", tasks=[other], timed=True)
        gathered = ["holder", "consumer", "direct"]
        start("all", await_all(*(witness.tasks[name] for name in gathered)), "asyncio.gather", tasks=gathered)
        mixed = [witness.tasks["guarded"], future]
        start("mixed", await_all(*mixed), "asyncio.gather", tasks=["guarded"], others=1)
        if sys.version_info >= (3, 11):
            names = ["grouped-1", "grouped-2"]
            for name in names:
                witness.truth[name] = {
                    "address": None, "named": True, "loop": "main", "state": "pending", "tasks": [], "kind": sleep,
                    "object": None, "name": None, "holders": [], "timed": False, "others": 0}
            start("group", await_group(witness, names), "asyncio.TaskGroup", tasks=names)
            start("in time", await_in_time(shared), tasks=["shared"], timed=True)
            barrier = asyncio.Barrier(2)
            start("party", meet(barrier), "asyncio.Barrier", barrier, "barrier")
            keep.append(barrier)
        keep.extend([lock, queue, full, semaphore, bounded, condition, event, future, consumer,
                     held, reader, thread, selfish])

    keep = []  # type: List[Any]
    entered = []  # type: List[Any]
    lock_1, lock_2 = asyncio.Lock(), asyncio.Lock()
    loop.run_until_complete(make())
    loop.gathered = keep


def serve(witness: Witness, role: str, fill: "Callable[[], None]") -> None:
    """Run a loop in this thread."""
    witness.enter(role)
    loop = witness.loops[role] = asyncio.new_event_loop()
    if "python" in sys.argv:
        loop.set_task_factory(python_task)
    asyncio.set_event_loop(loop)
    fill()
    witness.filled.add(role)
    loop.run_forever()


def python_task(loop: Any, coroutine: Any, **more: Any) -> Any:
    return asyncio.tasks._PyTask(coroutine, loop=loop, **more)  # type: ignore[attr-defined]


def wait_until(predicate: "Callable[[], bool]") -> None:
    deadline = time.monotonic() + 60
    while not predicate():
        if time.monotonic() > deadline:
            raise RuntimeError("the tasks did not come to where they should")
        time.sleep(0.005)


def settle(witness: Witness, loop_name: str) -> None:
    """Wait until each task of an idle loop waits, and the loop too."""
    names = [name for name, truth in witness.truth.items() if truth["loop"] == loop_name]
    wait_until(lambda: all(name in witness.tasks for name in names))

    def zeros() -> bool:
        # a task in asyncio.sleep(0) waits for no future
        return all(witness.tasks[name]._fut_waiter is not None for name in names)

    wait_until(zeros)
    idle = threading.Event()
    witness.loops[loop_name].call_soon_threadsafe(idle.set)
    idle.wait()


def describe(witness: Witness, loops: "Dict[str, Optional[str]]") -> "Dict[str, Any]":
    """The contents of the file."""
    for name, truth in witness.truth.items():
        truth["address"] = hex(id(witness.tasks[name]))
        if truth["state"] == "pending":
            truth["stack"] = [told(frame) for frame in steps(witness, witness.tasks[name])][::-1]
    return {
        "loops": {name: {"address": hex(id(loop)), "type": type(loop).__name__, "role": loops[name]}
                  for name, loop in witness.loops.items()},
        "tasks": witness.truth,
        "cycles": witness.cycles,
    }


def threads(witness: Witness, syscalls: "Dict[str, Optional[str]]") -> "Dict[str, Any]":
    names = {"main": "MainThread"}
    return {role: {"tid": tid, "python_name": names.get(role, role), "blocked": False, "syscall": syscalls[role],
                   "stack": []} for role, tid in witness.tids.items()}


def tell(witness: Witness, variant: str, more: "Dict[str, Any]", syscalls: "Dict[str, Optional[str]]") -> None:
    truth = {"sample": "tasks", "variant": variant, "pid": os.getpid(), "threads": threads(witness, syscalls),
             "locks": {}, "deadlock": [], "stuck_behind": []}
    with open("tasks.json", "w") as file:
        json.dump(more, file)
    print(json.dumps(truth), flush=True)


def fill_busy(witness: Witness) -> None:
    """A loop whose task blocks the thread, with one behind it that never starts."""
    witness.start("busy", "runner", run())
    witness.truth["runner"]["state"] = "running"
    witness.start("busy", "waiting to start", never_started())


def fill_second(witness: Witness) -> None:
    future = witness.loops["second"].create_future()
    witness.start("second", "lonely", await_object(future), "Future", future, "what")


def tree(witness: Witness, variant: str) -> None:
    """The teller's part; the main thread runs the first loop."""
    witness.enter("teller")
    for role, fill in (("second", fill_second), ("busy", fill_busy)):
        threading.Thread(target=serve, name=role, args=(witness, role, lambda fill=fill: fill(witness)),
                         daemon=True).start()
    wait_until(lambda: {"main", "second", "busy"} <= witness.filled)
    # a loop that does not run, with a task that never started
    stopped = witness.loops["stopped"] = asyncio.new_event_loop()
    if variant == "python":
        stopped.set_task_factory(python_task)
    witness.start("stopped", "not begun", never_started())
    settle(witness, "main")
    settle(witness, "second")
    ident = next(thread.ident for thread in threading.enumerate() if thread.name == "busy")

    def running() -> "Any":
        frame = sys._current_frames()[ident or 0]
        return frame if frame.f_code is block.__code__ else None

    wait_until(lambda: running() is not None)
    frame, stack = running(), []
    while True:
        stack.append(told(frame))
        if frame.f_code is run.__code__:
            break
        frame = frame.f_back
    witness.truth["runner"]["stack"] = stack
    more = describe(witness, {"main": "main", "second": "second", "busy": "busy", "stopped": None})
    del frame
    tell(witness, variant, more, {"main": None, "second": None, "busy": "read", "teller": "futex"})
    threading.Event().wait()


def many(witness: Witness, count: int) -> None:
    """A loop with so many tasks that wait for one event."""
    async def make() -> None:
        event = asyncio.Event()
        tasks = [asyncio.ensure_future(wait_for_start(event)) for _ in range(count)]
        await asyncio.sleep(0)
        more = {"event": hex(id(event)), "count": count + 1}
        tell(witness, "many", more, {"main": None})
        await asyncio.gather(*tasks)

    async def wait_for_start(event: asyncio.Event) -> None:
        await event.wait()

    asyncio.new_event_loop().run_until_complete(make())


def eager(witness: Witness) -> None:
    """A loop in which each task starts the next, which runs at once."""
    async def outer() -> None:
        asyncio.ensure_future(inner())

    async def inner() -> None:
        tell(witness, "eager", {}, {"main": "read"})
        block()

    loop = asyncio.new_event_loop()
    loop.set_task_factory(asyncio.eager_task_factory)  # type: ignore[attr-defined,unused-ignore]
    loop.run_until_complete(outer())


def main() -> None:
    witness = Witness()
    variant = sys.argv[1]
    witness.enter("main")
    if variant == "eager":
        eager(witness)
        return
    if variant == "many":
        many(witness, int(sys.argv[2]))
        return
    threading.Thread(target=tree, name="teller", args=(witness, variant), daemon=True).start()
    serve(witness, "main", lambda: fill_main(witness))


if __name__ == "__main__":
    main()
