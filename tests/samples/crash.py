"""Programs that die in native code, each in a way that it knows: one story in a process.

`crash.py STORY [--library PATH] [--extension PATH] [--handles PATH] [--rust PATH]` prints one JSON line about itself
before it dies, see tests/support/crashes.py. The paths are those of the compiled crash.c, crash.cc, crash_handles.cpp
and crash.rs, of which a story needs one. Runs on CPython 3.9 and later; `race` is for free-threaded ones.
"""

import argparse
import ctypes
import faulthandler
import functools
import gc
import importlib
import json
import os
import resource
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable, NoReturn, Optional, TypeVar

# from the folder of this file, which is not a package
from rapids import stack  # type: ignore[import-not-found]

READ_END, WRITE_END = os.pipe()
# what the extension fills memory with that it takes
PATTERN = 0x5A5A5A5A5A5A5A5A
# what PYTHONMALLOC=debug leaves of objects that are freed
DEAD = 0xDDDDDDDDDDDDDDDD
NON_CANONICAL = 0x4141414141414141
# the offset in its structure of the member that is read through a null pointer
MEMBER = 0x18
PAGE = resource.getpagesize()
SMALL_STACK = 256 * 1024
SMALL_MAIN_STACK = 1024 * 1024
# more calls than any stack has room for
DEPTH = 10**6

THREADS = {}  # type: dict[str, dict[str, object]]
STANDING = set()  # type: set[str]

T = TypeVar("T")

extension = None  # type: Any
handles = None  # type: Any
library = None  # type: Any
rust = None  # type: Any


# -- what the stories are made of -----------------------------------------------------------------------------


def enrol(role: str, doing: str, state: str = "attached", *functions: str) -> None:
    """Called by each thread itself.

    :param state: of its thread state, when the program dies.
    :param functions: of the samples' native code, that the thread is in then, innermost first.
    """
    enrol_native(role, threading.get_native_id(), doing, *functions)
    THREADS[role].update(python_name=threading.current_thread().name, python_state=state)


def enrol_native(role: str, tid: int, doing: str, *functions: str) -> None:
    """A thread that Python knows nothing of."""
    THREADS[role] = {
        "tid": tid,
        "python_name": None,
        "python_state": None,
        "functions": functions,
        "doing": doing,
        "stack": [],
    }


def at(role: str, thing: T) -> T:
    """Called for an argument of the call that the thread stays in, so the caller stands at the line of that."""
    THREADS[role]["stack"] = list(stack(sys._getframe(1)))
    STANDING.add(role)
    return thing


def dies(role: str, how: str, rule: Optional[str], *functions: str, **more: object) -> "Callable[[T], T]":
    """Prints the truth. Called like `at`, for an argument of the call in which the program dies.

    :param how: the signal and its code, such as ``SIGSEGV SEGV_MAPERR``; ``SIGSEGV|SIGBUS`` where it depends on how the
        interpreter was compiled: a non-canonical address gives SIGBUS if it is relative to rsp or rbp.
    :param rule: the one that is broken.
    :param functions: as for `enrol`, of the thread that dies.
    """
    signals, code = how.split()
    truth = {"sample": "crash", "story": sys.argv[1], "pid": os.getpid(), "dies": role, "rule": rule,
             "signals": signals.split("|"), "code": code}  # type: dict[str, object]
    for name, value in more.items():
        if isinstance(value, int):
            truth[name] = hex(value)
        elif name == "objects":
            truth[name] = {each: hex(address) for each, address in value.items()}  # type: ignore[attr-defined]
        else:
            truth[name] = value
    truth["threads"] = THREADS
    THREADS[role]["functions"] = functions

    def tell(thing: T) -> T:
        THREADS[role]["stack"] = list(stack(sys._getframe(1)))
        return say(thing)

    def say(thing: T) -> T:
        print(json.dumps(truth), flush=True)
        return thing

    return say if THREADS[role]["python_state"] is None else tell


def sleeps_in_read(role: str) -> bool:
    with open("/proc/self/task/{}/syscall".format(THREADS[role]["tid"])) as file:
        return file.read().split()[:2] == ["0", hex(READ_END)]


def until(condition: "Callable[[], object]") -> None:
    # without a lock, which would be seen
    while not condition():
        time.sleep(0.002)


def start(role: str, target: "Callable[[], object]") -> None:
    threading.Thread(target=target, name=role, daemon=True).start()


def rest(tell: "Callable[[int], int]" = int) -> None:
    """The main thread detaches from Python, and does not come back."""
    THREADS["main"].update(python_state="detached", doing="waits in read()")
    os.read(tell(at("main", READ_END)), 1)


def main_rests() -> bool:
    return "main" in STANDING and sleeps_in_read("main")


def in_worker(story: "Callable[[], object]") -> None:
    """A thread dies while the main thread rests."""

    def work() -> None:
        enrol("worker", "dies")
        until(main_rests)
        story()

    start("worker", work)
    rest()


def line_of(source: str, mark: str) -> "tuple[str, int]":
    """The line with that text, of a source beside this one."""
    lines = Path(__file__).with_name(source).read_text().splitlines()
    (number,) = [number for number, line in enumerate(lines, 1) if mark in line]
    return source, number


# -- faults in native code ------------------------------------------------------------------------------------


def null_read() -> None:
    tell = dies("main", "SIGSEGV SEGV_MAPERR", "a null pointer to a structure is followed",
                "crash_read_field", address=MEMBER, access="read")
    library.crash_read_field(tell(None))


def null_call() -> None:
    operations = library.incomplete_operations()
    tell = dies("main", "SIGSEGV SEGV_MAPERR", "a null pointer to a function is called",
                "crash_call_null", address=0, access="execute", objects={"operations": operations})
    library.crash_call_null(tell(operations))


def data_call() -> None:
    table = library.data_address()
    tell = dies("main", "SIGSEGV SEGV_ACCERR", "data are called as if they were a function",
                "crash_call_data", address=table, access="execute", objects={"table": table})
    library.crash_call_data(tell(table))


def wild() -> None:
    node = library.node_before(NON_CANONICAL)
    tell = dies("main", "SIGSEGV SI_KERNEL", "a pointer is followed that text was written over",
                "crash_follow", value=NON_CANONICAL, access="read", objects={"node": node})
    library.crash_follow(tell(node))


def misaligned() -> None:
    floats = library.misaligned_floats()
    tell = dies("main", "SIGSEGV SI_KERNEL", "floats are read as if they were aligned to 16 bytes",
                "crash_copy_four", value=floats, access="read", objects={"floats": floats})
    library.crash_copy_four(floats, tell(floats))


def truncated() -> None:
    with open("shrinking", "wb+") as file:
        file.write(bytes(2 * PAGE))
        file.flush()
        mapping = library.map_file(file.fileno(), 2 * PAGE)
        file.truncate(PAGE)
    assert mapping
    tell = dies("main", "SIGBUS BUS_ADRERR", "a file is read that was truncated after it was mapped",
                "crash_sum", address=mapping + PAGE, access="read", objects={"mapping": mapping},
                file=os.path.abspath("shrinking"))
    library.crash_sum(tell(mapping), 2 * PAGE)


def divide() -> None:
    tell = dies("main", "SIGFPE FPE_INTDIV", "an integer is divided by zero", "crash_share")
    library.crash_share(7, tell(0))


def trap() -> None:
    tell = dies("main", "SIGILL ILL_ILLOPN", "the compiler's trap is reached", "crash_trap")
    library.crash_trap(tell(library.unfilled_handle()))


def with_faulthandler() -> None:
    """Its handler raises the signal again, so that the fault is behind the frame of a signal."""
    faulthandler.enable()
    first = {"signals": ["SIGSEGV"], "code": "SEGV_MAPERR", "address": hex(MEMBER)}
    tell = dies("main", "SIGSEGV SI_TKILL", "a null pointer to a structure is followed",
                "crash_read_field", first=first, access="read")
    library.crash_read_field(tell(None))


# -- messages -------------------------------------------------------------------------------------------------


def plain_abort() -> None:
    tell = dies("main", "SIGABRT SI_TKILL", None, "crash_abort")
    library.crash_abort(tell(None))


def failed_assertion() -> None:
    handle = library.unfilled_handle()
    tell = dies("main", "SIGABRT SI_TKILL", "an assertion",
                "crash_assert", objects={"handle": handle}, source=line_of("crash.c", "    assert("),
                message='crash_assert: Assertion `handle->filled && "the handle is empty"\' failed.')
    library.crash_assert(tell(handle))


def heap() -> None:
    block = library.block_of(40)
    tell = dies("main", "SIGABRT SI_TKILL", "a block is freed twice",
                "release", "crash_free_twice", objects={"block": block},
                message="free(): double free detected in tcache 2")
    library.crash_free_twice(tell(block))


def fatal() -> None:
    tell = dies("main", "SIGABRT SI_TKILL", None, "crash_give_up",
                message="Fatal Python error: crash_give_up: the mesh cache is gone")
    extension.give_up(tell(None))


def rust_panic() -> None:
    tell = dies("main", "SIGABRT SI_TKILL", "an index is out of bounds",
                "crash_size_of", source=line_of("crash.rs", "//: panics"),
                message="index out of bounds: the len is 3 but the index is 7")
    rust.crash_size_of(tell(7))


# -- exceptions of C++ ----------------------------------------------------------------------------------------


def terminate() -> None:
    """In a thread that Python knows nothing of."""
    throw_natively(extension.start_throwing, "std::runtime_error", "crash_throw")


def terminate_own() -> None:
    """The same, of a class of the extension."""
    throw_natively(extension.start_throwing_own, "NotReady", "crash_throw_own")


def throw_natively(start_thread: "Callable[[int], int]", exception: str, function: str) -> None:
    enrol_native("native", start_thread(READ_END), "throws")
    tell = dies("native", "SIGABRT SI_TKILL", "nobody catches the exception",
                function, exception=exception, message="handle 7 is not ready")
    rest(tell)


def terminate_boundary() -> None:
    """The exception comes to Python, which is written in C."""
    tell = dies("main", "SIGABRT SI_TKILL", "nobody catches the exception", "crash_throw", "crash_fetch",
                exception="std::runtime_error", message="handle 7 is not ready")
    extension.fetch(tell(None))


# -- rules of the C API -----------------------------------------------------------------------------------------


def use_after_free() -> None:
    """An extension uses what it has borrowed from a list, whose memory is by then something else's."""
    listeners = [extension.Listener()]
    announce(listeners, sys.getsizeof(listeners[0]), PATTERN)


def use_after_free_debug() -> None:
    """The same, with the memory as the allocator leaves it."""
    announce([extension.Listener()], 0, DEAD)


def announce(listeners: "list[Any]", size: int, left: int) -> None:
    tell = dies("main", "SIGSEGV|SIGBUS SI_KERNEL", "a borrowed reference is used after its owner has gone",
                "crash_announce", value=left, access="read",
                objects={"object": id(listeners[0]), "list": id(listeners)})
    extension.announce(tell(listeners), size)


def underflow() -> None:
    """An object is freed that a list still has, since an extension has given up one reference too many."""
    parcels = [extension.Parcel() for _ in range(5)]
    address, size = id(parcels[3]), sys.getsizeof(parcels[3])
    extension.hand_out(parcels[3])
    extension.take_again(address, size)
    ship(parcels, address)


def ship(parcels: "list[Any]", address: int) -> int:
    tell = dies("main", "SIGSEGV|SIGBUS SI_KERNEL", "a reference is given up that is not owned",
                value=PATTERN, access="read", objects={"object": address, "list": id(parcels)})
    return int(parcels[tell(3)].weight)


def overflow() -> None:
    """Python calls C, which calls Python, and so on, in a thread."""
    threading.stack_size(SMALL_STACK)
    in_worker(functools.partial(recurse, "worker", "SEGV_ACCERR"))


def overflow_main() -> None:
    """The same in the main thread, whose stack the kernel does not let grow."""
    resource.setrlimit(resource.RLIMIT_STACK, (SMALL_MAIN_STACK, resource.getrlimit(resource.RLIMIT_STACK)[1]))
    recurse("main", "SEGV_MAPERR")


def recurse(role: str, code: str) -> None:
    sys.setrecursionlimit(DEPTH)
    lowest, end = extension.stack_bounds()
    own = descend.__code__
    tell = dies(role, "SIGSEGV " + code, "the recursion has no end",
                "crash_apply", access="write", objects={"stack": lowest, "stack_end": end},
                recursion=(own.co_name, own.co_filename, own.co_firstlineno + 1))
    extension.apply(tell(descend))


def descend() -> None:
    extension.apply(descend)


def overflow_c() -> None:
    """Two functions of C++ call each other, in a thread."""
    threading.stack_size(SMALL_STACK)
    in_worker(recurse_natively)


def recurse_natively() -> None:
    lowest, end = extension.stack_bounds()
    tell = dies("worker", "SIGSEGV SEGV_ACCERR", "the recursion has no end", "crash_descend", "crash_ascend",
                access="write", objects={"stack": lowest, "stack_end": end})
    extension.descend(tell(0))


def no_gil() -> None:
    """A thread that has no thread state makes a list."""
    call_natively(extension.start_collecting, "makes a list", "crash_collect")


def no_gil_error() -> None:
    """A thread that has no thread state sets an exception."""
    call_natively(extension.start_complaining, "sets an exception", "crash_complain")


def call_natively(start_thread: "Callable[[int], int]", doing: str, function: str) -> None:
    enrol_native("native", start_thread(READ_END), doing)
    tell = dies("native", "SIGSEGV SEGV_MAPERR", "Python's API is called by a thread that has no thread state",
                function, access="read")
    rest(tell)


def released() -> None:
    """A thread makes a list after it has released its thread state."""

    def collect() -> None:
        THREADS["worker"].update(python_state="detached", doing="makes a list")
        tell = dies("worker", "SIGSEGV SEGV_MAPERR",
                    "the C API is called by a thread that has released its thread state",
                    "crash_collect_detached", access="read")
        extension.collect_detached(tell(None))

    in_worker(collect)


# -- threads that do not wait for each other ------------------------------------------------------------------


def use_unfilled() -> None:
    """A thread fills handles, and one of them is used before that."""
    store = handles.Store(8)

    def fill() -> None:
        enrol("worker", "fills handles, waits in read()", "detached", "crash::Store::Fill")
        store.Fill(at("worker", READ_END))

    start("worker", fill)
    until(lambda: "worker" in STANDING)
    train(store)


def use_unfilled_natively() -> None:
    """The same with a thread that Python knows nothing of."""
    store = handles.Store(8)
    enrol_native("worker", store.FillAsync(READ_END), "fills handles, waits in read()", "crash::Store::Fill")
    train(store)


def train(store: Any) -> int:
    os.write(WRITE_END, bytes(range(7)))
    until(lambda: store.at(6).data_address() and sleeps_in_read("worker"))
    total = 0
    for epoch in range(3):
        total += run_epoch(store, epoch)
    return total


def run_epoch(store: Any, epoch: int) -> int:
    total = 0
    for step in range(epoch, 9):
        total += run_step(store, step)
    return total


def run_step(store: Any, step: int) -> int:
    return gather(store, [step])


def gather(store: Any, indices: "list[int]") -> int:
    total = 0
    for index in indices:
        total += native_handle(store, index)
    return total


def native_handle(store: Any, index: int) -> int:
    handle = store.at(index)
    if index < 7:
        return int(handle.GetHandle())
    tell = dies("main", "SIGSEGV SEGV_MAPERR", "GetHandle() is called before Fill() has come to the handle",
                "crash::Data::GetHandle", "crash::Handle::GetHandle", address=MEMBER, access="read",
                objects={"this": 0, "handle": handle.address(), "store": store.address()})
    return int(tell(handle).GetHandle())


def race() -> None:
    """Meshes are looked up in a cache without a lock, while another thread clears it."""
    # to collect garbage, all threads would have to stop, and those in the cache do not
    gc.disable()
    extension.cache_fill()
    cache, table, element = extension.cache_addresses(2)

    def look_up_slowly() -> None:
        enrol("carol", "looks up a mesh", "attached", "mesh::Cache::Get", "crash_cache_get_slowly")
        until(lambda: len(THREADS) == 5)
        extension.cache_get_slowly(at("carol", 2))

    def clear() -> None:
        enrol("bob", "clears the cache", "attached", "mesh::Cache::Clear", "crash_cache_clear")
        until(lambda: len(THREADS) == 5)
        extension.cache_clear(at("bob", None))

    def look_on() -> None:
        enrol("dave", "waits in read()", "detached")
        os.read(at("dave", READ_END), 1)

    def look_up() -> None:
        enrol("alice", "looks up a mesh")
        until(lambda: "bob" in STANDING and "carol" in STANDING and extension.cache_busy())
        until(lambda: "dave" in STANDING and sleeps_in_read("dave") and main_rests())
        # the element that is looked up comes after the one known here, whose first member is the pointer to it
        tell = dies("alice", "SIGSEGV SEGV_ACCERR", "a container of C++ is changed while other threads read it",
                    "mesh::Cache::Get", "crash_cache_get", address=element, access="read",
                    objects={"cache": cache, "table": table, "element": element})
        create_mesh(1, tell)

    for role, target in (("alice", look_up), ("bob", clear), ("carol", look_up_slowly), ("dave", look_on)):
        start(role, target)
    rest()


def create_mesh(devices: int, tell: "Callable[[int], int]") -> int:
    return int(extension.cache_get(tell(devices)))


# -- signals from elsewhere -----------------------------------------------------------------------------------


def killed(number: "signal.Signals") -> None:
    """Another process sends a signal, when this one sleeps."""
    read_end, write_end = os.pipe()
    sender = os.fork()
    if not sender:
        kill_asleep(os.getppid(), number, read_end)
    THREADS["main"]["doing"] = "waits in read()"
    tell = dies("main", number.name + " SI_USER", None,
                "crash_wait", sender={"pid": sender, "uid": os.getuid()})

    def begin(descriptor: int) -> int:
        os.write(write_end, b"!")
        return descriptor

    library.crash_wait(begin(tell(READ_END)))


def kill_asleep(pid: int, number: "signal.Signals", read_end: int) -> NoReturn:
    os.read(read_end, 1)

    def asleep() -> bool:
        with open("/proc/{}/stat".format(pid)) as file:
            return file.read().rpartition(")")[2].split()[0] == "S"

    until(asleep)
    os.kill(pid, number)
    os._exit(0)


STORIES = {
    "null-read": null_read,
    "null-call": null_call,
    "data-call": data_call,
    "wild": wild,
    "misaligned": misaligned,
    "truncated": truncated,
    "divide": divide,
    "trap": trap,
    "faulthandler": with_faulthandler,
    "abort": plain_abort,
    "assert": failed_assertion,
    "heap": heap,
    "fatal": fatal,
    "rust-panic": rust_panic,
    "terminate": terminate,
    "terminate-own": terminate_own,
    "terminate-boundary": terminate_boundary,
    "use-after-free": use_after_free,
    "use-after-free-debug": use_after_free_debug,
    "underflow": underflow,
    "overflow": overflow,
    "overflow-main": overflow_main,
    "overflow-c": overflow_c,
    "no-gil": no_gil,
    "no-gil-error": no_gil_error,
    "released": released,
    "handle": use_unfilled,
    "handle-native": use_unfilled_natively,
    "race": race,
    "killed": functools.partial(killed, signal.SIGABRT),
    "killed-segv": functools.partial(killed, signal.SIGSEGV),
}  # type: dict[str, Callable[[], None]]


def load_library(path: str) -> Any:
    """The library of crash.c, whose functions are called with the GIL held."""
    loaded = ctypes.PyDLL(path)
    for name in ("incomplete_operations", "unfilled_handle", "data_address", "node_before", "misaligned_floats",
                 "block_of", "map_file"):
        getattr(loaded, name).restype = ctypes.c_void_p
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    for name, arguments in {
        "crash_read_field": [pointer],
        "crash_call_null": [pointer],
        "crash_call_data": [pointer],
        "crash_follow": [pointer],
        "crash_copy_four": [pointer, pointer],
        "crash_sum": [pointer, size],
        "crash_share": [ctypes.c_long, ctypes.c_long],
        "crash_trap": [pointer],
        "crash_assert": [pointer],
        "crash_free_twice": [pointer],
        "crash_abort": [pointer],
        "crash_wait": [ctypes.c_int],
        "node_before": [pointer],
        "block_of": [size],
        "map_file": [ctypes.c_int, size],
    }.items():
        getattr(loaded, name).argtypes = arguments
    return loaded


def load_extension(path: str) -> Any:
    sys.path.insert(0, os.path.dirname(path))
    return importlib.import_module(os.path.basename(path).partition(".")[0])


def main() -> None:
    global extension, handles, library, rust
    parser = argparse.ArgumentParser()
    parser.add_argument("story", choices=sorted(STORIES))
    parser.add_argument("--library", type=load_library, help="path of the compiled crash.c")
    parser.add_argument("--extension", type=load_extension, help="path of the compiled crash.cc")
    parser.add_argument("--handles", type=load_extension, help="path of the compiled crash_handles.cpp")
    parser.add_argument("--rust", type=ctypes.PyDLL, help="path of the compiled crash.rs")
    options = parser.parse_args()
    extension, handles, library, rust = options.extension, options.handles, options.library, options.rust
    enrol("main", "dies")
    STORIES[options.story]()


if __name__ == "__main__":
    main()
