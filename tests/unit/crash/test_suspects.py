from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from gdbext.crash.pointers import Pointers
from gdbext.crash.suspects import SuspectFinder, class_of_function, is_library_function
from gdbext.inferior.address_space import Region
from gdbext.inferior.cache import CachedMemory
from gdbext.layout.select import glibc_layouts
from gdbext.model import CriticalSection, Hold, Report, Suspect, TargetInfo, Thread
from gdbext.narrate.crash import covered
from gdbext.narrate.reasons import explain
from gdbext.snapshot import take_snapshot
from gdbext.threads.code import read_code
from gdbext.threads.findings import Findings
from gdbext.threads.gone import GoneOwners
from gdbext.threads.python_side import read_python_side
from gdbext.threads.site import Sites
from gdbext.threads.threads import read_threads
from tests.support import versions
from tests.support.crash_rules import Rules, with_variables
from tests.support.crash_scene import HEAP
from tests.support.fake_eh_frame import describe_functions
from tests.support.fake_target import APP_DATA, APP_TEXT, DRIVER_TEXT, LIBC_TEXT, FakeTarget, FakeThread

#: Functions of the driver and of the program, each 0x100 bytes long.
INTERN, CLEAR, TASK, WORKER, OTHER = (DRIVER_TEXT + 0x100 * i for i in range(1, 6))
MAIN, HELPER = APP_TEXT + 0x100, APP_TEXT + 0x200
NAMES = {INTERN: "mesh::Cache::intern(int)", CLEAR: "mesh::Cache::clear()", TASK: "run_task", WORKER: "worker",
         OTHER: "table_size", MAIN: "main", HELPER: "helper"}
SLEEP = LIBC_TEXT + 0x40
AT = 0x20  # offset in a function


class Pool:
    """Threads in functions of a driver and a program; the first is the one that died."""

    def __init__(self, target: FakeTarget | None = None) -> None:
        self.target = target = target or FakeTarget("core")
        target.ram.map(HEAP, bytes(0x4000))
        describe_functions(target, "/app/libdrv.so", INTERN, CLEAR, TASK, WORKER, OTHER)
        describe_functions(target, "/app/server", MAIN, HELPER)
        for start, name in NAMES.items():
            target.name(start + AT, name)

    def thread(self, *functions: int, **registers: int) -> FakeThread:
        """Add a thread in these functions, innermost first, with registers."""
        fake = self.target.thread()
        fake.frames = [(start if start == SLEEP else start + AT, fake.stack + 0x100 * i)
                       for i, start in enumerate(functions)]
        fake.registers.update(rip=fake.frames[0][0], rsp=fake.stack, rbp=0, **registers)
        return fake

    def map(self) -> None:
        target = self.target
        target.mappings = [
            Region(APP_TEXT, APP_TEXT + 0x1000, "rx", "/app/server"),
            Region(APP_DATA, APP_DATA + 0x1000, "rw", "/app/server"), Region(HEAP, HEAP + 0x4000, "rw", "[heap]"),
            Region(DRIVER_TEXT, DRIVER_TEXT + 0x1000, "rx", "/app/libdrv.so"),
            *(Region(fake.stack, fake.stack + 0x2000, "rw", None) for fake in target.fakes)]

    def find(self, objects: Sequence[int] = (), report: Report | None = None) -> dict[int, Suspect]:
        """The suspects by number, in order."""
        self.map()
        target, findings = self.target, Findings()
        code = read_code(target, findings)
        threads = read_threads(target, glibc_layouts("2.36", "x86_64"), findings)
        side = read_python_side(target, code, threads, GoneOwners(target, None, threads), findings)
        finder = SuspectFinder(target.memory, code, Sites(target.memory, code, target.loaded[2:3]),
                               Pointers(target, code, threads, side.pythons), side.interpreter_code,
                               lambda number: side.thread(number).tstates, lambda seen: seen.registers)
        died = threads[1]
        report = report or take_snapshot(target).report(lambda thread: False)
        found = finder.find(died, died.native(code), died.registers, objects, threads, report)
        return {suspect.thread: suspect for suspect in found}

    def reasons(self, number: int = 2, objects: Sequence[int] = ()) -> tuple[str, ...]:
        found = self.find(objects)
        return explained(found[number]) if number in found else ()


def explained(suspect: Suspect) -> tuple[str, ...]:
    return tuple(map(explain, suspect.reasons))


@pytest.fixture
def pool() -> Pool:
    return Pool()


# -- functions -----------------------------------------------------------------------------------------------------

def test_the_same_function(pool: Pool) -> None:
    pool.thread(INTERN, TASK, WORKER)
    pool.thread(SLEEP, INTERN, TASK, WORKER)
    assert pool.reasons() == ("is in mesh::Cache::intern() too",)


def test_the_same_function_without_symbols(pool: Pool) -> None:
    pool.target.symbols.clear()
    pool.thread(INTERN, TASK, WORKER)
    pool.thread(INTERN, OTHER, WORKER)
    assert pool.reasons() == ("is in a function of libdrv.so too",)


def test_another_function_of_the_class(pool: Pool) -> None:
    pool.thread(INTERN, TASK, WORKER)
    pool.thread(CLEAR, OTHER, WORKER)
    assert pool.reasons() == ("is in mesh::Cache::clear(), of the same class mesh::Cache",)


def test_another_function_of_the_library(pool: Pool) -> None:
    pool.thread(INTERN, TASK, WORKER)
    pool.thread(OTHER, MAIN)
    assert pool.reasons() == ("is in table_size(), of the same library libdrv.so",)


def test_threads_that_share_only_the_outermost_function_are_not_suspects(pool: Pool) -> None:
    """The threads of a pool have the same outermost function, in which idle threads wait."""
    pool.thread(INTERN, TASK, WORKER)
    for _ in range(5):
        pool.thread(SLEEP, WORKER)
    assert pool.find() == {}


def test_threads_in_other_code_are_not_suspects(pool: Pool) -> None:
    pool.thread(INTERN, TASK, WORKER)
    pool.thread(SLEEP, HELPER, MAIN)
    pool.thread(HELPER)
    assert pool.find() == {}


def test_run_time_libraries_make_no_suspects(pool: Pool) -> None:
    pool.thread(SLEEP, INTERN)
    pool.thread(SLEEP, MAIN)
    assert pool.find() == {}


def test_templates_of_libraries_make_no_suspects(pool: Pool) -> None:
    """Each module has its own copy of them."""
    pool.target.name(TASK + AT, "void std::__introsort_loop<int*>(int*)")
    pool.target.name(OTHER + AT, "pybind11::cpp_function::dispatcher(_object*)")
    pool.thread(TASK, OTHER, INTERN)
    pool.thread(TASK, OTHER, HELPER, MAIN)
    assert pool.find() == {}


def test_thread_that_died_is_not_a_suspect(pool: Pool) -> None:
    pool.thread(INTERN)
    assert pool.find([HEAP]) == {}


def test_threads_without_registers_are_left_out(pool: Pool) -> None:
    pool.thread(INTERN)
    pool.thread(INTERN).available = False
    assert pool.find() == {}


# -- objects -------------------------------------------------------------------------------------------------------

def test_the_object_in_a_register(pool: Pool) -> None:
    pool.thread(INTERN)
    pool.thread(HELPER, MAIN, rbx=HEAP + 0x100)
    assert pool.reasons(objects=[HEAP + 0x100]) == (
        "has 0x5000000100 in %rbx: heap, which the fault was about",)


def test_the_object_on_a_stack(pool: Pool) -> None:
    pool.thread(INTERN)
    other = pool.thread(HELPER, MAIN)
    pool.target.ram.u64(other.stack + 0x118, HEAP + 0x100)
    assert pool.reasons(objects=[HEAP + 0x100]) == (
        "has 0x5000000100 on its stack, in main(): heap, which the fault was about",)


@pytest.mark.parametrize("address", [0, 0x10, 0xDDDDDDDDDDDDDDDD, DRIVER_TEXT + 0x10, 0x7000_0000])
def test_addresses_without_an_object_make_no_suspects(pool: Pool, address: int) -> None:
    """Many threads have a null pointer or an address of the same code."""
    pool.thread(INTERN, rbx=address)
    pool.thread(HELPER, MAIN, rbx=address)
    assert pool.find([address]) == {}


def test_object_in_the_registers_of_the_faulting_function(pool: Pool) -> None:
    pool.thread(INTERN, r12=HEAP + 0x200)
    pool.thread(HELPER, MAIN, rbx=HEAP + 0x200)
    pool.thread(HELPER, MAIN, rbx=HEAP + 0x300)
    found = pool.find()
    assert list(found) == [2]
    assert explained(found[2]) == ("has 0x5000000200 in %rbx, as the thread that died (heap)",)


def test_object_that_most_threads_use_makes_no_suspects(pool: Pool) -> None:
    pool.thread(INTERN, r12=HEAP + 0x200, r13=HEAP + 0x400)
    for i in range(8):
        pool.thread(HELPER, MAIN, rbx=HEAP + 0x200, r13=HEAP + 0x400 if i == 3 else 0)
    found = pool.find()
    assert list(found) == [5]
    assert explained(found[5]) == ("has 0x5000000400 in %r13, as the thread that died (heap)",)


def test_object_that_points_to_the_object(pool: Pool) -> None:
    pool.thread(INTERN)
    pool.thread(OTHER, MAIN, rbx=HEAP + 0x1000)
    pool.target.ram.u64(HEAP + 0x1010, HEAP + 0x2000)
    assert pool.reasons(objects=[HEAP + 0x2000]) == (
        "has 0x5000001000 in %rbx, which points to 0x5000002000 (heap), which the thread that died also used",
        "is in table_size(), of the same library libdrv.so")
    pool.target.ram.u64(HEAP + 0x1010, HEAP + 0x3000)
    pool.target.ram.u64(HEAP + 0x3020, HEAP + 0x2000)
    assert pool.reasons(objects=[HEAP + 0x2000])[0] == (
        "has 0x5000001000 in %rbx, which points to 0x5000003000, and that to 0x5000002000 (heap), which the thread "
        "that died also used")


def test_object_that_points_to_the_object_in_another_library_is_ignored(pool: Pool) -> None:
    pool.thread(INTERN)
    pool.thread(HELPER, MAIN, rbx=HEAP + 0x1000)
    pool.target.ram.u64(HEAP + 0x1010, HEAP + 0x2000)
    assert pool.find([HEAP + 0x2000]) == {}


@pytest.mark.parametrize("version", versions.from_minor(9))
def test_the_same_python_object(version: str) -> None:
    rules = Rules(version)
    shared, number = rules.python.list_object(), rules.python.integer(7)
    with_variables(rules, [("items", shared), ("count", number)])
    with_variables(rules, [("count", number)])
    with_variables(rules, [("mine", shared), ("count", number)])
    pool = Pool(rules.target)
    for fake in rules.target.fakes:
        fake.frames = [((INTERN if fake.ref.number == 1 else HELPER) + AT, fake.stack)]
    found = pool.find()
    assert list(found) == [3]  # small integers are shared by all
    assert explained(found[3]) == (
        f"has the Python object {shared:#x} too: it is mine of work(), a list, and the other thread's items of work()",)


# -- order, and what both had in common ----------------------------------------------------------------------------

def test_suspects_are_ordered_by_weight(pool: Pool) -> None:
    pool.thread(INTERN, TASK, WORKER)
    pool.thread(OTHER, MAIN)  # library
    pool.thread(CLEAR, MAIN)  # class
    pool.thread(INTERN, MAIN)  # function
    pool.thread(INTERN, MAIN, rbx=HEAP + 0x100)  # function and object
    pool.thread(HELPER, MAIN, rbx=HEAP + 0x100)  # object
    found = pool.find([HEAP + 0x100])
    assert list(found) == [5, 6, 4, 3, 2]
    assert explained(found[5]) == ("has 0x5000000100 in %rbx: heap, which the fault was about",
                                "is in mesh::Cache::intern() too")


def test_running_suspect_comes_before_a_blocked_one(pool: Pool) -> None:
    pool.thread(INTERN, MAIN)
    pool.target.blocked(pool.thread(CLEAR, MAIN), 0, 3)
    pool.target.fakes[1].frames = [(CLEAR + AT, pool.target.fakes[1].stack)]
    pool.thread(CLEAR, MAIN)
    assert list(pool.find()) == [3, 2]


def test_suspects_are_bounded(pool: Pool) -> None:
    for _ in range(20):
        pool.thread(INTERN, MAIN)
    assert list(pool.find()) == [2, 3, 4, 5, 6, 7, 8, 9]


def thread(number: int, *locks: str, **more: object) -> Thread:
    return Thread(number, number, number, None, holds=tuple(Hold(lock, "exclusive", "recorded") for lock in locks),
                  **more)  # type: ignore[arg-type]


SECTION = CriticalSection(HEAP + 0x10A, HEAP + 0x100, "list", True)


@pytest.mark.parametrize(("died", "other", "said", "common"), [
    (thread(1), thread(2), "no lock in common: thread 2 is not a Python thread", ()),
    (thread(1, "mutex:0x10", "gil:0"), thread(2, "mutex:0x10"), "both hold pthread mutex 0x10", ("mutex:0x10",)),
    (thread(1, "mutex:0x10"), thread(2, "mutex:0x20"),
     "no lock in common: thread 1 holds pthread mutex 0x10, thread 2 holds pthread mutex 0x20, "
     "thread 2 is not a Python thread", ()),
    (thread(1, "gil:0"), thread(2, tstate=5, python_state="detached"),
     "no lock in common: thread 1 holds the GIL, thread 2 has released it", ()),
    (thread(1), thread(2, tstate=5, python_state="detached"),
     "no lock in common: thread 2 runs without the GIL", ()),
    (thread(1, tstate=4, python_state="attached", critical_sections=()),
     thread(2, tstate=5, python_state="attached", critical_sections=()),
     "no lock in common and no critical section: both are attached and run at the same time", ()),
    (thread(1, tstate=4, python_state="attached", critical_sections=(SECTION,)),
     thread(2, tstate=5, python_state="attached", critical_sections=()),
     "one of them is in a critical section of the object, the other is not", ()),
    (thread(1, tstate=4, python_state="attached"), thread(2, tstate=5, python_state="attached"), "no lock in common",
     ()),
])
def test_synchronisation(pool: Pool, died: Thread, other: Thread, said: str, common: tuple[str, ...]) -> None:
    pool.thread(INTERN)
    pool.thread(INTERN)
    report = Report(TargetInfo("core", 1, None, "x86_64", None), threads=(died, other))
    suspect = pool.find([HEAP + 0x100], report)[2]
    assert (covered(suspect), suspect.common_locks) == (said, common)


# -- names ---------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize(("function", "expected"), [
    ("mesh::Cache::intern", "mesh::Cache"), ("mesh::Cache<int>::intern(std::string const&)", "mesh::Cache<int>"),
    ("mesh::Cache<a::B>::~Cache()", "mesh::Cache<a::B>"),
    ("(anonymous namespace)::Pool::run()", "(anonymous namespace)::Pool"),
    ("void mesh::Cache::put<int>(int)", "mesh::Cache"),
    ("std::vector<int> mesh::Cache::all<int>() const", "mesh::Cache"),
    ("unsigned long a::b::f<int>(x::y)", "a::b"), ("A::operator->(std::string)", "A"), ("A::operator<(B::C)", "A"),
    ("A::operator()(B::C) const", "A"), ("A::operator new(unsigned long)", "A"), ("A::f(int) const", "A"),
    ("_RNvMs_NtCs123_4mesh5cacheNtB4_5Cache6intern", "<mesh::cache::Cache>"),
    ("main", None), ("int f(A::B)", None), ("operator<<(std::ostream&, A::B)", None),
    ("std::vector<A::B>::push_back", None),
    ("void std::__invoke_impl<void, A>(A&&)", None), ("core::option::unwrap_failed", None), ("", None), (":", None),
    ("a::", "a"), ("::", ""), ("<<<<(((", None), (">>>>))))::", None),
])
def test_class_of_a_function(function: str, expected: str | None) -> None:
    assert class_of_function(function) == expected


@pytest.mark.parametrize(("function", "expected"), [
    ("std::sort(int*)", True), ("void std::__invoke_impl<void, A>(A&&)", True), ("pybind11::handle::dec_ref()", True),
    ("core::panicking::panic", True), ("mesh::f(std::string)", False), ("std::vector<int> mesh::all<int>()", False),
    ("stdx::f()", False), ("operator new(unsigned long)", False), ("", False), ("standard", False),
    ("A::f() const", False),
])
def test_library_functions(function: str, expected: bool) -> None:
    assert is_library_function(function) is expected


# -- many threads --------------------------------------------------------------------------------------------------

def test_many_threads(pool: Pool) -> None:
    """All are in the library, with heap addresses on their stacks."""
    pool.target.ram.map(HEAP, bytes(1 << 20))
    pool.thread(INTERN, TASK, WORKER)
    for i in range(200):
        fake = pool.thread(OTHER, TASK, MAIN)
        fake.frames[-1] = (fake.frames[-1][0], fake.stack + 0x1F00)
        pool.target.ram.u64(fake.stack, *[HEAP + 16 * ((i * 977 + j) % 65536) for j in range(0x1F00 // 8)])
    pool.target.memory = CachedMemory(pool.target.ram)
    start = time.process_time()
    assert len(pool.find([HEAP + 0x8])) == 8
    assert time.process_time() - start < 10


@pytest.mark.parametrize(("build", "at_hand", "other", "is_found"), [
    ("free-threaded", True, "produce", True), ("default", True, "produce", False),
    ("free-threaded", False, "produce", False), ("free-threaded", True, "<module>", False)])
def test_the_same_global_container(build: str, at_hand: bool, other: str, is_found: bool) -> None:
    """Without the GIL, if native code used it: the code of a module names all globals."""
    rules = Rules("3.13.5", build)
    items = rules.python.list_object()
    namespace = rules.python.namespace(items=items, count=rules.python.integer(3))
    for function in ("consume", other):
        thread, tstate = rules.target.python_thread()
        rules.python.innermost(tstate, rules.python.in_with([], names=["items", "count"], function=function,
                                                            namespace=namespace))
        thread.frames = [((HELPER if tstate and function == other else INTERN) + AT, thread.stack)]
    rules.target.fakes[0].registers["rbx"] = items if at_hand else 0
    found = Pool(rules.target).find()
    assert [explained(suspect) for suspect in found.values()] == ([
        (f"has the Python object {items:#x} too: it is global variable items in produce(), a list, and the other "
         "thread's global variable items in consume()",)] if is_found else [])
