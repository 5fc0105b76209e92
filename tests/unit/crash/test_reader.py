from __future__ import annotations

import random
import struct
import time

import pytest

from gdbext.errors import GdbextError
from gdbext.inferior.address_space import Region
from gdbext.inferior.cache import CachedMemory
from gdbext.inferior.protocol import SignalInfo
from gdbext.inferior.signals import SI_KERNEL, SI_TKILL, SIGABRT, SIGFPE, SIGSEGV, SIGTRAP
from gdbext.model import DERIVED, INFERRED, Crash, Handler, Local, NativeFrame, PyFrame
from gdbext.narrate.crash import circumstances
from gdbext.narrate.reasons import explain
from gdbext.snapshot import take_snapshot
from tests.support import versions
from tests.support.crash_rules import API, API_INNER, Rules, alive, with_variables
from tests.support.crash_scene import ACCERR, FUNCTION, HEAP, MAPERR, Scene, crash_of
from tests.support.fake_eh_frame import describe_functions
from tests.support.fake_python import VERSIONS, Call
from tests.support.fake_signal_frame import fault_info, sent_info, signal_frame
from tests.support.fake_target import APP_DATA, APP_TEXT, DRIVER_TEXT, LIBC_TEXT, READ, STACK_SIZE, FakeThread

RESTORER = LIBC_TEXT + 0x4000
SIGALRM = 14
HANDLER = APP_TEXT + 0x600


def segv(scene: Scene, thread: FakeThread | None = None, address: int = 0, text: str = "mov (%rax),%rdx") -> FakeThread:
    """Let a thread die at a null pointer in a function of the driver that the program has called."""
    thread = thread or scene.thread
    pc = scene.code(text)
    thread.registers.update(scene.registers, rip=pc, rsp=thread.stack, fs_base=thread.pthread)
    thread.registers["orig_rax"] = (1 << 64) - 1
    thread.frames = [(pc, thread.stack), (APP_TEXT + 0x80, thread.stack + 0x100)]
    scene.target.signals[thread.ref.number] = SignalInfo(SIGSEGV, MAPERR, address)
    return thread


def missing(crash: Crash) -> tuple[str, ...]:
    return tuple(map(explain, crash.missing))


def functions(crash: Crash) -> list[str | None]:
    return [frame.function for frame in crash.stack.frames]


@pytest.fixture
def scene() -> Scene:
    made = Scene()
    made.target.name(FUNCTION, "update_table")
    made.target.name(APP_TEXT + 0x80, "main")
    return made


def test_code_that_a_signal_interrupted_has_not_called_the_handler(scene: Scene) -> None:
    thread = in_handler(scene, struct.pack("<iii4xQ", SIGALRM, 0, SI_KERNEL, 0).ljust(128, b"\0"))
    scene.target.name(HANDLER, "on_alarm")
    thread.frames[0] = (scene.code("mov (%rax),%rdx", at=FUNCTION + 0x100), thread.stack)
    scene.target.name(FUNCTION + 0x100, "sample")
    thread.registers.update(scene.registers, rip=FUNCTION + 0x100, rsp=thread.stack, rax=0)
    scene.target.signals[1] = SignalInfo(SIGSEGV, MAPERR, 0)
    crash = crash_of(scene.target)
    assert functions(crash) == ["sample", "on_alarm", None, "update_table", "main"]
    assert crash.handlers == (Handler(1, 3, "SIGALRM"),)
    assert [line for line in circumstances(crash) if line.startswith("in ")] == [
        "in sample() in libdrv.so", "in the handler of SIGALRM, on_alarm() in server, which interrupted "
        "update_table() in libdrv.so"]


def test_handler_sends_the_signal_again_and_returns(scene: Scene) -> None:
    """The kernel then records only who sent it; the instruction faults again."""
    segv(scene)
    scene.target.signals[1] = SignalInfo(SIGSEGV, SI_TKILL, None, scene.target.pid, 5)
    fault = crash_of(scene.target).fault
    assert (fault.kind, fault.address, fault.sender, fault.evidence) == ("null-pointer", 0, None, DERIVED)
    assert fault.why is not None
    assert "sent the signal again" in explain(fault.why)


def test_signal_of_another_thread_hits_code_that_does_not_fault(scene: Scene) -> None:
    thread = segv(scene)
    thread.registers["rax"] = HEAP
    scene.target.signals[1] = SignalInfo(SIGSEGV, SI_TKILL, None, scene.target.pid, 5)
    assert crash_of(scene.target).fault.kind == "sent"


# -- which thread --------------------------------------------------------------------------------------------------

def test_a_crash(scene: Scene) -> None:
    segv(scene)
    crash = crash_of(scene.target)
    assert (crash.thread, crash.fault.signal, crash.fault.kind) == (1, "SIGSEGV", "null-pointer")
    assert functions(crash) == ["update_table", "main"]
    assert (crash.guilty, crash.recursion, crash.findings, crash.suspects, crash.missing) == (0, None, (), (), ())


def test_the_selected_thread_comes_first(scene: Scene) -> None:
    other = scene.target.thread()
    segv(scene)
    segv(scene, other)
    for shown in (1, 2):
        scene.target.shown = shown
        assert crash_of(scene.target).thread == shown
    scene.target.shown = None
    assert crash_of(scene.target).thread == 1


def test_a_thread_that_is_not_selected(scene: Scene) -> None:
    segv(scene, scene.target.thread())
    scene.target.shown = 1
    assert crash_of(scene.target).thread == 2


def test_threads_without_registers_are_skipped(scene: Scene) -> None:
    scene.target.thread().available = False
    scene.target.signals[2] = SignalInfo(SIGSEGV, MAPERR, 0)
    with pytest.raises(GdbextError, match="no thread was stopped by a signal"):
        crash_of(scene.target)


@pytest.mark.parametrize("number", [2, 15, 19, 18, 10, 17, 34])
def test_signals_without_a_core_are_not_crashes(scene: Scene, number: int) -> None:
    scene.target.signals[1] = SignalInfo(number, 0, None, 5, 5)
    with pytest.raises(GdbextError, match="no thread was stopped by a signal") as caught:
        crash_of(scene.target)
    assert "py-deadlocks" in caught.value.hint


def test_no_signal_at_all(scene: Scene) -> None:
    with pytest.raises(GdbextError, match="no thread was stopped by a signal"):
        crash_of(scene.target)


def test_breakpoint_of_the_debugger_is_not_a_crash(scene: Scene) -> None:
    scene.target.signals[1] = SignalInfo(SIGTRAP, SI_KERNEL, 0)
    scene.target.kind = "live"
    with pytest.raises(GdbextError, match="no thread was stopped by a signal"):
        crash_of(scene.target)
    # a breakpoint instruction of the program is
    scene.target.ram.write(scene.thread.registers["rip"] - 1, b"\xcc")
    assert crash_of(scene.target).fault.kind == "trap"


def test_a_core_of_a_trap(scene: Scene) -> None:
    scene.target.signals[1] = SignalInfo(SIGTRAP, SI_KERNEL, 0)
    assert crash_of(scene.target).fault.kind == "trap"


# -- handlers ------------------------------------------------------------------------------------------------------

def in_handler(scene: Scene, info: bytes, trap: int = 14, error: int = 6) -> FakeThread:
    """A thread that runs a signal handler, on top of the frames that it interrupted."""
    thread = scene.thread
    pc = scene.code("mov %rdx,0x8(%rbx)")
    at = thread.stack + 0x200
    scene.target.ram.write(RESTORER, b"\x48\xc7\xc0\x0f\0\0\0\x0f\x05")
    scene.target.ram.map(at, signal_frame(info, trap, error, rip=pc, rsp=thread.stack + 0x800, rbx=0, rdx=7))
    thread.frames = [(LIBC_TEXT + 0x100, thread.stack), (HANDLER, thread.stack + 0x80), (RESTORER, at),
                     (pc, thread.stack + 0x800), (APP_TEXT + 0x80, thread.stack + 0x900)]
    thread.registers.update(rip=LIBC_TEXT + 0x100, rsp=thread.stack)
    return thread


@pytest.mark.parametrize("again", [SignalInfo(SIGSEGV, SI_TKILL, None, 100, 5), SignalInfo(SIGSEGV, 0, None, 100, 5)])
def test_fault_below_a_handler_that_sends_the_signal_again(scene: Scene, again: SignalInfo) -> None:
    in_handler(scene, fault_info(SIGSEGV, MAPERR, 8))
    scene.target.signals[1] = again
    crash = crash_of(scene.target)
    assert (crash.fault.kind, crash.fault.address, crash.fault.access) == ("null-member", 8, "write")
    assert (crash.fault.in_handler, crash.fault.code, crash.fault.sender) == (True, "SEGV_MAPERR", None)
    assert crash.fault.registers["rdx"] == 7
    assert functions(crash) == ["update_table", "main"]


def test_fault_below_a_handler_that_waits_for_a_debugger(scene: Scene) -> None:
    in_handler(scene, fault_info(SIGFPE, 1, FUNCTION))
    crash = crash_of(scene.target)
    assert (crash.fault.signal, crash.fault.in_handler) == ("SIGFPE", True)
    assert functions(crash) == ["update_table", "main"]


def test_fault_in_a_handler_of_another_signal(scene: Scene) -> None:
    """The fault interrupted the handler of a timer: it belongs to the handler."""
    in_handler(scene, sent_info(14, 0, 1, 1))
    with pytest.raises(GdbextError, match="no thread was stopped"):
        crash_of(scene.target)
    scene.target.signals[1] = SignalInfo(SIGABRT, SI_TKILL, None, 100, 5)
    crash = crash_of(scene.target)
    assert (crash.fault.signal, crash.fault.in_handler, len(crash.stack.frames)) == ("SIGABRT", False, 5)


def test_fault_in_a_handler_of_a_fault(scene: Scene) -> None:
    """An instruction of the handler failed."""
    thread = in_handler(scene, fault_info(SIGSEGV, MAPERR, 8))
    scene.code("mov (%rax),%rdx", at=HANDLER)
    thread.frames = thread.frames[1:]
    thread.registers.update(rip=HANDLER, rsp=thread.frames[0][1])
    scene.target.signals[1] = SignalInfo(SIGSEGV, MAPERR, 0x7000_0000)
    crash = crash_of(scene.target)
    assert (crash.fault.in_handler, crash.fault.address, len(crash.stack.frames)) == (False, 0x7000_0000, 4)


def test_abort_in_a_handler_of_a_fault(scene: Scene) -> None:
    """A handler of a fault that aborts: the fault is the cause, and the abort what followed."""
    in_handler(scene, fault_info(SIGSEGV, MAPERR, 8))
    scene.target.signals[1] = SignalInfo(SIGABRT, SI_TKILL, None, 100, 5)
    crash = crash_of(scene.target)
    assert (crash.fault.signal, crash.fault.in_handler) == ("SIGSEGV", True)
    assert crash.aftermath is not None
    assert "ended the program with SIGABRT" in explain(crash.aftermath)


def test_abort_in_a_handler_of_another_signal(scene: Scene) -> None:
    """A watchdog aborts in its handler of a timer: nothing has faulted."""
    in_handler(scene, struct.pack("<iii4xQ", SIGALRM, 0, SI_KERNEL, 0).ljust(128, b"\0"))
    scene.target.signals[1] = SignalInfo(SIGABRT, SI_TKILL, None, 100, 5)
    crash = crash_of(scene.target)
    assert (crash.fault.signal, crash.aftermath) == ("SIGABRT", None)
    assert [handler.signal for handler in crash.handlers] == ["SIGALRM"]


def test_variables_are_of_the_frames_below_a_handler(scene: Scene) -> None:
    in_handler(scene, fault_info(SIGSEGV, MAPERR, 8))
    for index in range(5):
        scene.target.locals[1, index] = [("index", "int", str(index))]
    crash = crash_of(scene.target)
    assert crash.stack.variables == {0: (Local("index", "int", "3"),), 1: (Local("index", "int", "4"),)}


# -- where no code is ----------------------------------------------------------------------------------------------

def test_stack_of_a_null_call_has_the_caller(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The debugger cannot unwind it; the return address is on top of the stack."""
    thread = scene.thread
    after = scene.code("call *%rax") + 4
    scene.target.ram.u64(thread.stack, after)
    thread.registers.update(scene.registers, rip=0, rsp=thread.stack)
    thread.frames = [(0, thread.stack)]
    describe_functions(scene.target, "/lib/x86_64-linux-gnu/libc.so.6")
    scene.target.name(after, "update_table")
    scene.target.signals[1] = SignalInfo(SIGSEGV, MAPERR, 0)
    monkeypatch.setattr(scene.target, "unwind", lambda ref, limit: [(after, thread.stack + 8)])
    crash = crash_of(scene.target)
    assert crash.fault.kind == "null-call"
    assert functions(crash) == [None, "update_table"]
    assert crash.guilty == 1


def test_guilty_of_a_call_into_data_is_the_caller(scene: Scene) -> None:
    """Data of the program's file is not a function."""
    thread = segv(scene)
    at = APP_DATA + 0x40
    thread.registers.update(rip=at)
    thread.frames = [(at, thread.stack), (FUNCTION, thread.stack + 8), (APP_TEXT + 0x80, thread.stack + 0x100)]
    scene.target.signals[1] = SignalInfo(SIGSEGV, ACCERR, at)
    crash = crash_of(scene.target)
    assert (crash.fault.kind, crash.fault.access, crash.guilty) == ("execute-data", "execute", 1)


# -- the stack -----------------------------------------------------------------------------------------------------

def test_guilty_frame_is_not_of_run_time_libraries_or_templates(scene: Scene) -> None:
    thread = segv(scene)
    scene.target.name(DRIVER_TEXT + 0x500, "void std::__introsort_loop<int*>(int*)")
    pc = LIBC_TEXT + 0x300
    thread.frames = [(pc, thread.stack), (DRIVER_TEXT + 0x500, thread.stack + 0x40), (FUNCTION, thread.stack + 0x80),
                     (APP_TEXT + 0x80, thread.stack + 0x100)]
    thread.registers.update(rip=pc)
    scene.target.instructions.append((pc, 4, "mov (%rax),%rdx"))
    crash = crash_of(scene.target)
    assert crash.guilty == 2
    assert functions(crash)[2] == "update_table"


def test_guilty_is_none_without_own_code(scene: Scene) -> None:
    thread = segv(scene)
    pc = LIBC_TEXT + 0x300
    thread.frames = [(pc, thread.stack), (LIBC_TEXT + 0x400, thread.stack + 0x40)]
    thread.registers.update(rip=pc)
    assert crash_of(scene.target).guilty is None


def python_scene(version: str, *inside: int) -> tuple[Rules, FakeThread, int]:
    """A Python thread that died in functions that its eval loop called, given as offsets into the interpreter."""
    rules = Rules(version)
    scene = Scene(rules.target)
    thread, tstate = rules.target.fakes[0], rules.python.thread(rules.target.interpreter, rules.target.fakes[0].pthread)
    pcs = (*(rules.text + at for at in inside), rules.target.eval, APP_TEXT + 0x80)
    thread.frames = [(pc, thread.stack + 0x100 * i) for i, pc in enumerate(pcs)]
    thread.registers.update(scene.registers, rip=pcs[0], rsp=thread.stack, fs_base=thread.pthread)
    # before 3.11 each function has an eval loop of its own
    called = (("update", 41), ("main", 90)) if rules.python.version_tuple >= (3, 11) else (("update", 41),)
    rules.python.stack(tstate, [Call(called, thread.stack + 0x100 * len(inside) + 0x40)])
    rules.target.signals[1] = SignalInfo(SIGSEGV, MAPERR, 0)
    return rules, thread, tstate


@pytest.mark.parametrize("version", VERSIONS)
def test_interpreter_frames_of_the_fault_are_shown(version: str) -> None:
    rules, _, _ = python_scene(version, API_INNER, API)
    rules.target.name(rules.text + API_INNER, "list_dealloc")
    rules.target.name(rules.text + API, "PyObject_Call")
    crash = crash_of(rules.target)
    assert functions(crash)[:3] == ["list_dealloc", "PyObject_Call", "update"]
    assert crash.guilty == 2
    assert isinstance(crash.stack.frames[2], PyFrame)
    assert crash.stack.unmerged is None
    # they are hidden unless the fault was in them
    thread = take_snapshot(rules.target).mixed(1)
    assert "list_dealloc" not in [frame.function for frame in thread.frames]


def test_interpreter_frames_of_others_are_not_shown() -> None:
    """The fault was in the driver: the interpreter's frames outside of it are hidden as usual."""
    rules, thread, _ = python_scene("3.12.1", API)
    thread.frames.insert(0, (DRIVER_TEXT + 0x500, thread.stack - 8))
    thread.registers.update(rip=DRIVER_TEXT + 0x500, rsp=thread.stack - 8)
    assert functions(crash_of(rules.target))[:2] == [None, "update"]


def test_interpreter_frames_are_bounded() -> None:
    rules, _, _ = python_scene("3.12.1", *[API + 8 * i for i in range(30)])
    crash = crash_of(rules.target)
    assert functions(crash).index("update") == 12


# -- recursion -----------------------------------------------------------------------------------------------------

def deep(scene: Scene, times: int, *functions: int) -> FakeThread:
    """A stack of repeating calls up to its end, 16 bytes a frame."""
    thread = segv(scene, address=scene.stack - 8, text="push %rbx")
    scene.target.signals[1] = SignalInfo(SIGSEGV, ACCERR, scene.stack - 8)
    thread.frames = [(FUNCTION, thread.stack)]
    for _ in range(times):
        thread.frames += [(pc, thread.frames[-1][1] + 16 * i + 16) for i, pc in enumerate(functions)]
    thread.frames.append((APP_TEXT + 0x80, thread.frames[-1][1] + 16))
    thread.registers["rsp"] = scene.stack
    size = max(STACK_SIZE, thread.frames[-1][1] - scene.stack + 0x1000)
    scene.target.mappings[-1] = Region(scene.stack, scene.stack + size, "rw", None)
    return thread


def test_recursion(scene: Scene) -> None:
    deep(scene, 400, DRIVER_TEXT + 0x404, DRIVER_TEXT + 0x500)
    crash = crash_of(scene.target)
    assert crash.fault.kind == "stack-overflow"
    recursion = crash.recursion
    assert recursion is not None
    assert (recursion.round, recursion.rounds, recursion.frames) == ((1, 2), 400, 802)
    assert (recursion.whole, recursion.used) == (True, None)
    parts = crash.stack.parts
    assert [part.text for part in parts] == [None, None, None, "the same 2 entries 399 times more", None]
    # no frame is lost
    assert tuple(frame for part in parts for frame in part.frames) == crash.stack.frames
    assert len(crash.stack.frames) == 802


def test_recursion_of_one_function(scene: Scene) -> None:
    deep(scene, 2000, DRIVER_TEXT + 0x404)
    crash = crash_of(scene.target)
    assert crash.recursion is not None
    assert crash.recursion.rounds == 2000
    assert crash.stack.parts[2].text == "the same entry 1,999 times more"


def test_recursion_deeper_than_the_limit_is_not_whole(scene: Scene) -> None:
    deep(scene, 21_000, DRIVER_TEXT + 0x404)
    recursion = crash_of(scene.target).recursion
    assert recursion is not None
    assert recursion.frames == 20_000
    assert not recursion.whole
    assert recursion.used == scene.target.mappings[-1].end - scene.stack


def test_a_short_stack_has_no_recursion(scene: Scene) -> None:
    thread = segv(scene)
    thread.frames += [(DRIVER_TEXT + 0x404, thread.stack + 16 * i) for i in range(100, 300)]
    crash = crash_of(scene.target)
    assert crash.recursion is None
    assert all(part.text is None for part in crash.stack.parts)


def test_stack_overflow_of_a_large_frame_has_no_recursion(scene: Scene) -> None:
    deep(scene, 1, DRIVER_TEXT + 0x404)
    crash = crash_of(scene.target)
    assert (crash.fault.kind, crash.recursion) == ("stack-overflow", None)


# -- rules ---------------------------------------------------------------------------------------------------------

def rule_names(crash: Crash) -> list[str]:
    return [finding.rule for finding in crash.findings]


def test_findings_of_the_thread_that_died() -> None:
    rules = Rules()
    thread = rules.target.thread()
    rules.calls(thread, "PyList_Append", rules.text + API_INNER)
    rules.target.signals[1] = SignalInfo(SIGSEGV, MAPERR, 0)
    assert rule_names(crash_of(rules.target)) == ["no-thread-state"]


def test_findings_of_the_other_threads() -> None:
    rules = Rules()
    died, other, sleeper = (rules.target.thread() for _ in range(3))
    died.frames = [(APP_TEXT + 0x10, died.stack)]
    rules.target.signals[1] = SignalInfo(SIGSEGV, MAPERR, 0)
    rules.calls(other, "PyList_Append", rules.text + API_INNER)
    rules.target.blocked(sleeper, READ, 3)
    rules.calls(sleeper, "PyList_Append", LIBC_TEXT + 0x100, rules.text + API_INNER)
    crash = crash_of(rules.target)
    assert [(finding.rule, finding.thread) for finding in crash.findings] == [("no-thread-state", 2)]


def test_blocked_thread_that_was_killed_has_no_findings() -> None:
    """A thread blocked in a system call of ``os.read`` may be without the GIL."""
    rules = Rules()
    thread, _ = rules.target.python_thread()
    rules.target.blocked(thread, READ, 3)
    rules.calls(thread, "PyObject_CallMethod", LIBC_TEXT + 0x100, rules.text + API_INNER)
    rules.target.signals[1] = SignalInfo(SIGABRT, 0, None, 4242, 5)
    assert crash_of(rules.target).findings == ()


def dead_type(code_in: str, base_offset: int | None = None, function: str = "PyObject_Call") -> Crash:
    """Code that read a pointer at the offset of an object's type, in memory that is not an object, and used it."""
    rules, thread, _ = python_scene("3.12.1", API, API)
    describe_functions(rules.target, rules.python.module.path, rules.text + API)
    rules.target.name(rules.text + API + 4, function)
    start = rules.text + API if code_in == "interpreter" else FUNCTION
    rules.target.ram.ensure(rules.text, 0x1000)
    offset = rules.python.layouts["PyObject"].offset("ob_type") if base_offset is None else base_offset
    rules.target.instructions += [(start, 4, f"mov {offset:#x}(%rdi),%rax"), (start + 4, 4, "mov 0xa8(%rax),%rdx")]
    rules.target.ram.u64(HEAP, 1, 0x30, 0x30)
    thread.frames[0] = (start + 4, thread.stack)
    thread.registers.update(rip=start + 4, rdi=HEAP, rax=0x30)
    rules.target.signals[1] = SignalInfo(SIGSEGV, MAPERR, 0x30 + 0xA8)
    return crash_of(rules.target)


def test_type_read_from_a_dead_object_is_a_finding() -> None:
    crash = dead_type("interpreter")
    finding, = (finding for finding in crash.findings if finding.rule == "impossible-object")
    # other structures may have a pointer there
    assert (finding.thread, finding.evidence) == (1, INFERRED)
    assert explain(finding.text) == (
        f"used {HEAP:#x}, which is not (or no longer) a Python object: its type pointer 0x30 does not lead to a "
        "readable type")
    assert finding.why is not None
    assert explain(finding.why) == ("the interpreter read a bad pointer from where an object has its type, and no live "
                                    "object has such a header")


def test_type_read_outside_of_the_interpreter_is_not_a_finding() -> None:
    """Other structures have pointers at the offset of an object's type."""
    assert "impossible-object" not in rule_names(dead_type("driver"))
    assert "impossible-object" not in rule_names(dead_type("interpreter", 16))


@pytest.mark.parametrize("function", ["PyObject_Malloc", "_PyObject_Malloc", "PyMem_Free", "pymalloc_alloc",
                                      "_mi_page_malloc", "address_in_range"])
def test_link_read_by_the_allocator_is_not_a_type(function: str) -> None:
    """A block that two threads got, or that was used after it was freed, damages the allocator's own lists."""
    assert "impossible-object" not in rule_names(dead_type("interpreter", function=function))


@pytest.mark.parametrize("function", ["PyObject_Call", "PyObject_GetAttr", "PyObject_FreeList", "list_dealloc"])
def test_type_read_by_a_function_that_is_not_of_the_allocator(function: str) -> None:
    assert "impossible-object" in rule_names(dead_type("interpreter", function=function))


def test_dead_objects_in_variables_are_findings() -> None:
    rules = Rules()
    dead, live = rules.python.integer(5), rules.python.integer(6)
    alive(rules, live)
    thread = with_variables(rules, [("gone", dead), ("live", live)])
    thread.frames = [(APP_TEXT + 0x10, thread.stack)]
    rules.target.signals[1] = SignalInfo(SIGSEGV, MAPERR, 0)
    finding, = crash_of(rules.target).findings
    assert explain(finding.text) == (
        f"has {dead:#x}, gone of work(), a Python object of type int that was freed: its reference count is 0")
    assert finding.why is not None
    assert explain(finding.why) == "a variable refers to it, and no live object has such a header"


# -- what is missing -----------------------------------------------------------------------------------------------

def test_truncated_core(scene: Scene) -> None:
    segv(scene)
    scene.target.kept = (1_000, 124_456)
    assert missing(crash_of(scene.target)) == (
        "the core is truncated: 1,000 of 124,456 bytes are there; the rest cannot be read",)


def test_libraries_that_a_truncated_core_does_not_list_are_not_missing(scene: Scene) -> None:
    thread = segv(scene)
    unlisted = 0x7A00_0000_0000
    scene.target.mappings.append(Region(unlisted, unlisted + 0x1000, "rx", "/app/libwork.so.1"))
    scene.target.mapped = [(unlisted, "/app/libwork.so.1")]
    scene.target.kept = (1_000, 124_456)
    thread.frames.insert(1, (unlisted + 0x10, thread.stack + 0x40))
    crash = crash_of(scene.target)
    assert missing(crash) == (
        "the core is truncated: 1,000 of 124,456 bytes are there, without the dynamic linker's list of libraries; so "
        "libwork.so.1 may have no names, their data is not decoded, and stacks may end there",)
    frame = crash.stack.frames[1]
    assert isinstance(frame, NativeFrame)
    assert (frame.function, frame.module) == (None, "libwork.so.1"), "the core's own list of mappings has its name"


def test_missing_files_are_named(scene: Scene) -> None:
    thread = segv(scene)
    lost, other = 0x7A00_0000_0000, 0x7A80_0000_0000
    scene.target.mappings += [Region(at, at + 0x1000, "rx", path) for at, path in (
        (lost, "/app/liblost.so.1"), (other, "/app/libother.so"))]
    scene.target.mapped = [(lost, "/app/liblost.so.1"), (other, "/app/libother.so"), (HEAP, "/data/table.bin"),
                           (DRIVER_TEXT, "/app/libdrv.so")]
    thread.frames.insert(1, (lost + 0x10, thread.stack + 0x40))
    crash = crash_of(scene.target)
    assert missing(crash) == ("/app/liblost.so.1: frames in it have no names, and the stack may end there",
                              "files that were mapped and are not on this machine: libother.so")
    frame = crash.stack.frames[1]
    assert isinstance(frame, NativeFrame)
    assert (frame.function, frame.pc) == (None, lost + 0x10)


def test_nothing_is_missing(scene: Scene) -> None:
    segv(scene)
    scene.target.mapped = [(DRIVER_TEXT - 0x1000, "/app/libdrv.so.1.2"), (HEAP, "/data/table.bin")]
    assert crash_of(scene.target).missing == ()


# -- hostile targets -----------------------------------------------------------------------------------------------

@pytest.mark.parametrize("version", versions.from_minor(11))
@pytest.mark.parametrize("seed", range(12))
def test_damaged_memory_is_explained_or_a_user_error(version: str, seed: int) -> None:
    """Any memory is explained, or raises an error for the user."""
    chooser = random.Random(seed)
    rules, thread, _ = python_scene(version, API_INNER, API)
    others = [rules.target.python_thread()[0] for _ in range(4)]
    items = rules.python.list_object(*[rules.python.integer(i) for i in range(20)])
    with_variables(rules, [("items", items)])
    rules.target.instructions += [(thread.frames[0][0], 4, "mov 0x8(%rdi,%rcx,8),%rax")]
    for fake in (thread, *others):
        fake.registers.update({name: chooser.choice((0, items, HEAP, fake.stack, chooser.getrandbits(64)))
                               for name in ("rax", "rbx", "rcx", "rdi", "rbp", "r12")})
    number = chooser.choice((SIGSEGV, SIGABRT, SIGFPE))
    rules.target.signals[1] = SignalInfo(number, SI_TKILL if number == SIGABRT else 1,
                                         None if number == SIGABRT else chooser.getrandbits(48))
    start = time.process_time()
    snapshot = take_snapshot(rules.target)
    report = snapshot.report(lambda thread: False)
    for memory in list(rules.target.ram._ranges.values()):
        for _ in range(max(len(memory) // 200, 1)):
            at = chooser.randrange(len(memory))
            memory[at:at + 1] = bytes([chooser.choice((0, 1, 0x7F, 0x80, 0xFF, chooser.randrange(256)))])
    try:
        crash = snapshot.crash(report)
    except GdbextError:
        return
    assert explain(crash.fault.text)
    assert tuple(frame for part in crash.stack.parts for frame in part.frames) == crash.stack.frames
    assert time.process_time() - start < 20


def test_many_threads() -> None:
    """A pool of 200 Python threads in the same library, with objects on their stacks."""
    rules = Rules("3.12.1")
    scene = Scene(rules.target)
    rules.target.ram.map(HEAP, bytes(1 << 20))
    segv(scene)
    shared = rules.python.list_object(*[rules.python.integer(i) for i in range(50)])
    frame = rules.python.in_with([], variables=[(f"v{i}", shared) for i in range(20)])
    for i in range(200):
        fake, tstate = rules.target.python_thread()
        rules.python.innermost(tstate, frame)
        fake.frames = [(DRIVER_TEXT + 0x340, fake.stack), (APP_TEXT + 0x80, fake.stack + 0x1F00)]
        rules.target.ram.u64(fake.stack, *[HEAP + 16 * ((i * 977 + j) % 4096) for j in range(0x1F00 // 8)])
    rules.target.memory = CachedMemory(rules.target.ram)
    snapshot = take_snapshot(rules.target)
    report = snapshot.report(lambda thread: False)
    start = time.process_time()
    assert snapshot.crash(report).fault.kind == "null-pointer"
    assert time.process_time() - start < 10
