from __future__ import annotations

from collections.abc import Sequence

import pytest

from gdbext.model import DERIVED, RECORDED, Finding
from gdbext.model.reasons import because
from gdbext.narrate.reasons import explain
from gdbext.snapshot import take_snapshot
from tests.support import versions
from tests.support.crash_rules import API, API_INNER, Rules, alive, with_variables
from tests.support.fake_python import VERSIONS, Call
from tests.support.fake_target import APP_TEXT, DRIVER_TEXT, LIBC_TEXT, READ, FakeThread


def rules_found(findings: Sequence[Finding]) -> list[str]:
    return [finding.rule for finding in findings]


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


# -- calls of the API ----------------------------------------------------------------------------------------------

def test_api_call(version: str) -> None:
    rules = Rules(version)
    thread = rules.target.thread()
    rules.calls(thread, "PyList_Append", rules.text + API_INNER)
    call = rules.call(thread)
    assert call is not None
    assert (call.function, call.module) == ("PyList_Append", "libdrv.so")


def test_api_call_ignores_run_time_libraries_on_top() -> None:
    rules = Rules()
    thread = rules.target.thread()
    rules.calls(thread, "PyErr_Format", LIBC_TEXT + 0x10, rules.text + API_INNER)
    call = rules.call(thread)
    assert call is not None
    assert (call.function, call.module) == ("PyErr_Format", "libdrv.so")


def test_api_call_of_a_thread_in_other_code_is_none() -> None:
    rules = Rules()
    thread = rules.target.thread()
    rules.calls(thread, "PyList_Append", DRIVER_TEXT + 0x100)  # a callback of the driver
    assert rules.call(thread) is None
    thread.frames = [(DRIVER_TEXT + 0x40, thread.stack), (APP_TEXT + 0x80, thread.stack + 0x100)]
    assert rules.call(thread) is None
    thread.frames = []
    assert rules.call(thread) is None


def test_api_call_of_a_thread_that_runs_python_is_none() -> None:
    """The eval loop may run any code."""
    rules = Rules()
    thread = rules.target.thread()
    rules.calls(thread, "PyObject_Call", rules.text + API_INNER, rules.target.eval)
    assert rules.call(thread) is None


def test_api_call_without_a_caller_outside_is_none() -> None:
    """No other module called it: a thread of the interpreter, or the main program."""
    rules = Rules()
    thread = rules.target.thread()
    rules.calls(thread, "PyList_Append")
    del thread.frames[1:]
    assert rules.call(thread) is None
    thread.frames += [(LIBC_TEXT + 0x20, thread.stack + 0x100)]
    assert rules.call(thread) is None


def test_api_call_with_too_many_frames_is_none() -> None:
    rules = Rules()
    thread = rules.target.thread()
    rules.calls(thread, "PyList_Append", *[rules.text + API_INNER] * 70)
    assert rules.call(thread) is None


def test_api_call_without_symbols_is_found_by_its_caller() -> None:
    rules = Rules()
    thread = rules.target.thread()
    rules.calls(thread, "", rules.text + API_INNER)
    rules.target.symbols.clear()
    rules.target.name(rules.text + API - 0x40, "PyDict_SetItem")  # exported: the target of the call
    rules.target.ram.ensure(DRIVER_TEXT, 0x100)
    rules.target.ram.ensure(rules.text, 0x1000)
    distance = rules.text + API - 0x40 - (DRIVER_TEXT + 0x40)
    rules.target.ram.write(DRIVER_TEXT + 0x40 - 6, b"\xff\x15" + (0x100 - 0x40).to_bytes(4, "little"))
    assert distance  # too far for a direct call: through a slot
    rules.target.ram.u64(DRIVER_TEXT + 0x100, rules.text + API - 0x40)
    call = rules.call(thread)
    assert call is not None
    assert call.function == "PyDict_SetItem"


# -- without a thread state, without the GIL -----------------------------------------------------------------------

def test_no_thread_state(version: str) -> None:
    rules = Rules(version)
    thread = rules.target.thread()
    rules.calls(thread, "PyList_Append", rules.text + API_INNER)
    finding, = rules.findings(thread)
    assert (finding.rule, finding.thread, finding.evidence) == ("no-thread-state", 1, DERIVED)
    assert explain(finding.text) == (
        "is in PyList_Append(), called from libdrv.so, but has no thread state: it has not called "
        "PyGILState_Ensure(), or has released what that gave it")
    assert finding.why == because("no-thread-state")
    assert rules_found(rules.findings(thread, False)) == ["no-thread-state"]


def test_without_the_gil_that_another_thread_holds(version: str) -> None:
    rules = Rules(version)
    (thread, tstate), (other, other_state) = rules.target.python_thread(), rules.target.python_thread()
    if rules.python.version_tuple >= (3, 13):
        rules.python.build.put("PyThreadState", other_state, state=1)
    rules.python.take_gil(rules.target.interpreter, other_state)
    rules.calls(thread, "PyDict_SetItem")
    finding, = rules.findings(thread)
    assert (finding.rule, finding.thread, finding.evidence) == ("without-gil", 1, RECORDED)
    assert explain(finding.text) == (
        "is in PyDict_SetItem(), called from libdrv.so, but thread 2 holds the GIL: this thread has released it "
        "(PyEval_SaveThread, or a call of ctypes.CDLL)")
    assert other.ref.number == 2
    assert tstate != other_state


def test_without_the_gil_that_is_free(version: str) -> None:
    rules = Rules(version)
    thread, _ = rules.target.python_thread()
    rules.calls(thread, "_PyObject_New")
    finding, = rules.findings(thread)
    assert finding.rule == "without-gil"
    assert "but the GIL is free: this thread has released it" in explain(finding.text)


def test_with_the_gil_no_rule_is_broken(version: str) -> None:
    rules = Rules(version)
    thread, tstate = rules.target.python_thread()
    if rules.python.version_tuple >= (3, 13):
        rules.python.build.put("PyThreadState", tstate, state=1)
    rules.python.take_gil(rules.target.interpreter, tstate)
    rules.calls(thread, "PyDict_SetItem")
    assert rules.findings(thread) == []


@pytest.mark.parametrize("function", [
    "PyGILState_Ensure", "PyGILState_Check", "PyEval_RestoreThread", "PyEval_SaveThread",
    "PyEval_AcquireThread", "PyEval_ReleaseThread", "PyEval_InitThreads", "PyThreadState_New", "PyThreadState_Get",
    "PyThread_acquire_lock", "PyThread_get_thread_ident", "PyMem_RawMalloc", "Py_Initialize", "Py_InitializeEx",
    "Py_IsInitialized", "Py_FinalizeEx", "Py_AddPendingCall", "PyErr_SetInterrupt", "PyErr_SetInterruptEx",
    "PyImport_AppendInittab", "PyConfig_InitPythonConfig", "PyInterpreterState_New", "PyMutex_Lock",
    "Py_NewInterpreter", "Py_BytesMain", "Py_RunMain", "PyPreConfig_InitPythonConfig", "PyCapsule_IsValid",
    "take_gil", "PyStatus_Exception",
    "PyOS_string_to_double"])
def test_functions_that_need_no_gil(function: str) -> None:
    rules = Rules()
    native, (python, _) = rules.target.thread(), rules.target.python_thread()
    rules.calls(native, function, rules.text + API_INNER)
    assert rules.call(native) is not None
    rules.calls(python, function, rules.text + API_INNER)
    for died in (True, False):
        assert rules.findings(native, died) == []
        assert rules.findings(python, died) == []


def test_release_without_a_thread_state_breaks_a_rule_only_if_the_thread_died_of_it() -> None:
    """Before PyGILState_Release returns, it has released the GIL and may have deleted the thread state itself."""
    rules = Rules()
    thread = rules.target.thread()
    rules.calls(thread, "PyGILState_Release", rules.text + API_INNER)
    assert rules_found(rules.findings(thread)) == ["no-thread-state"]
    assert rules.findings(thread, False) == []


@pytest.mark.parametrize("function", [
    "PyObject_Call", "_PyObject_GC_New", "PyList_New", "PyUnicode_FromString", "PyErr_SetString", "Py_DecRef",
    "_Py_Dealloc", "Py_BuildValue", "PyImport_ImportModule", "PyRun_SimpleStringFlags", "PyTuple_New",
    "PyLong_FromLong", "PyModule_AddObject", "PyEval_CallObjectWithKeywords", "PyCapsule_GetPointer", "PyGC_Collect",
    "PyType_Ready"])
def test_functions_that_need_the_gil(function: str) -> None:
    rules = Rules()
    thread = rules.target.thread()
    rules.calls(thread, function)
    assert rules_found(rules.findings(thread)) == ["no-thread-state"]


def test_blocked_thread_that_did_not_die_is_not_reported() -> None:
    """A thread blocked in a system call of ``os.read`` has released the GIL correctly."""
    rules = Rules()
    thread, _ = rules.target.python_thread()
    rules.target.blocked(thread, READ, 3)
    rules.calls(thread, "PyObject_CallMethod", LIBC_TEXT + 0x100, rules.text + API_INNER)
    thread.registers["rip"] = LIBC_TEXT + 0x100
    assert rules.findings(thread, False) == []
    # nor is the thread that died there: the code that it calls may release the GIL
    assert rules.findings(thread, True) == []


def test_thread_that_died_in_a_call_without_the_gil_is_reported() -> None:
    rules = Rules()
    thread, _ = rules.target.python_thread()
    rules.calls(thread, "PyList_Append", LIBC_TEXT + 0x100, rules.text + API_INNER)
    thread.registers["rip"] = LIBC_TEXT + 0x100
    assert rules_found(rules.findings(thread, True)) == ["without-gil"]


def test_os_read_in_python_code() -> None:
    rules = Rules()
    thread, tstate = rules.target.python_thread()
    rules.target.blocked(thread, READ, 3)
    pcs = (LIBC_TEXT + 0x100, rules.text + API_INNER, rules.target.eval, DRIVER_TEXT + 0x40, APP_TEXT + 0x80)
    thread.frames = [(pc, thread.stack + 0x100 * i) for i, pc in enumerate(pcs)]
    rules.python.stack(tstate, [Call((("work", 3),), thread.stack + 0x240)])
    assert rules.findings(thread, True) == rules.findings(thread, False) == []


@pytest.mark.parametrize(("version", "state", "found"), [
    ("3.13.15", 1, []), ("3.13.15", 0, ["without-gil"]), ("3.13.15", 2, ["without-gil"]), ("3.14.10", 1, [])])
def test_free_threaded(version: str, state: int, found: list[str]) -> None:
    rules = Rules(version, "free-threaded")
    thread, tstate = rules.target.python_thread()
    rules.python.build.put("PyThreadState", tstate, state=state)
    rules.calls(thread, "PyDict_SetItem")
    findings = rules.findings(thread)
    assert rules_found(findings) == found
    for finding in findings:
        assert "it must be attached to use objects" in explain(finding.text)
        assert ("detached" if state == 0 else "suspended") in explain(finding.text)


# -- after the end -------------------------------------------------------------------------------------------------

def test_after_finalisation() -> None:
    rules = Rules()
    thread = rules.target.thread()
    rules.python.build.put("_PyRuntimeState", rules.python.runtime_address, interpreters_head=0)
    rules.calls(thread, "PyList_Append")
    finding, = rules.findings(thread)
    assert (finding.rule, finding.evidence) == ("after-finalisation", DERIVED)
    assert "though Python is finalised, or not initialised" in explain(finding.text)


@pytest.mark.parametrize("version", versions.from_minor(11))
def test_while_another_thread_finalises(version: str) -> None:
    rules = Rules(version)
    (main, main_state), (thread, tstate) = rules.target.python_thread(), rules.target.python_thread()
    rules.python.build.put("_PyRuntimeState", rules.python.runtime_address, finalizing=main_state)
    rules.calls(thread, "PyList_Append")
    rules.python.take_gil(rules.target.interpreter, tstate)
    if rules.python.version_tuple >= (3, 13):
        rules.python.build.put("PyThreadState", tstate, state=1)
    finding, = rules.findings(thread)
    assert (finding.rule, finding.thread, finding.evidence) == ("after-finalisation", 2, RECORDED)
    assert explain(finding.text).endswith("while thread 1 finalises Python")
    # the thread that finalises the interpreter may call it
    rules.calls(main, "PyList_Append")
    assert "after-finalisation" not in rules_found(rules.findings(main))


# -- blocked with the GIL ------------------------------------------------------------------------------------------

def blocking(rules: Rules) -> list[Finding]:
    report = take_snapshot(rules.target).report(lambda thread: False)
    return list(rules.look()[0].blocking(report))


def test_blocked_with_the_gil() -> None:
    rules = Rules()
    (holder, holder_state), (waiter, _) = rules.target.python_thread(), rules.target.python_thread()
    rules.python.take_gil(rules.target.interpreter, holder_state)
    rules.target.waits_for_gil(waiter)
    mutex = rules.target.mutex(4242)
    rules.target.waits_for_mutex(holder, mutex)
    finding, = blocking(rules)
    assert (finding.rule, finding.thread, finding.evidence) == ("blocks-with-gil", 1, RECORDED)
    assert explain(finding.text) == (
        f"holds the GIL and is blocked for futex word {mutex:#x}; threads waiting for the GIL: 2")


def test_blocked_with_the_gil_without_waiting_threads_is_not_reported() -> None:
    rules = Rules()
    holder, holder_state = rules.target.python_thread()
    rules.python.take_gil(rules.target.interpreter, holder_state)
    rules.target.blocked(holder, READ, 3)
    assert blocking(rules) == []
    # a running thread with the GIL, while others wait for it
    waiter, _ = rules.target.python_thread()
    rules.target.waits_for_gil(waiter)
    assert rules_found(blocking(rules)) == ["blocks-with-gil"]
    holder.registers["orig_rax"] = (1 << 64) - 1
    assert blocking(rules) == []


# -- addresses that are not objects --------------------------------------------------------------------------------


def dead_variables(rules: Rules, thread: FakeThread) -> dict[int, list[str]]:
    found, threads = rules.look()
    return found.dead_variables(threads[thread.ref.number])


def test_object_state(version: str) -> None:
    rules = Rules(version)
    rules.target.python_thread()
    at = rules.python.integer(5)
    alive(rules, at)
    assert rules.look()[0].object_state(at) is None
    assert rules.look()[0].object_state(0x1000) is None  # unreadable: nothing is known
    rules.python.build.put("PyObject", at, ob_type=0xDDDDDDDDDDDDDDDD)
    state = rules.look()[0].object_state(at)
    assert state is not None
    assert state.freed
    assert rules.look()[0].type_offset() == rules.python.layouts["PyObject"].offset("ob_type")


def test_dead_variables(version: str) -> None:
    rules = Rules(version)
    live, dead, inner = rules.python.integer(5), rules.python.string("gone"), rules.python.integer(6)
    items, pair = rules.python.list_object(live, inner), rules.python.tuple_object(0, inner)
    alive(rules, live, items, pair)
    rules.python.build.put("PyObject", dead, ob_type=0xDDDDDDDDDDDDDDDD)
    alive(rules, inner)
    rules.python.build.put("PyObject", inner, ob_type=0x20)
    thread = with_variables(rules, [("live", live), ("gone", dead), ("items", items), ("pair", pair), ("unset", 0)])
    assert dead_variables(rules, thread) == {dead: ["gone of work()"],
                                             inner: ["items[1] of work()", "pair[1] of work()"]}


def test_live_variables(version: str) -> None:
    rules = Rules(version)
    live, items = rules.python.integer(5), rules.python.list_object()
    alive(rules, live, items)
    assert dead_variables(rules, with_variables(rules, [("a", live), ("b", items), ("c", 0)])) == {}


def test_dead_variables_are_bounded() -> None:
    rules = Rules()
    dead = [rules.python.integer(i) for i in range(300)]  # without references
    same = rules.python.tuple_object(*dead[:1] * 200)
    alive(rules, same)
    thread = with_variables(rules, [("same", same), *((f"v{i}", at) for i, at in enumerate(dead[:45]))])
    found = dead_variables(rules, thread)
    assert len(found) == 5
    assert max(map(len, found.values())) <= 5


def test_threads_without_python_have_no_variables() -> None:
    rules = Rules()
    thread = rules.target.thread()
    assert dead_variables(rules, thread) == {}
