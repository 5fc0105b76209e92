"""The analysis of functions that this interpreter has compiled; tests/gdb/test_acquires.py has those of others."""

from __future__ import annotations

import dis
import sys
import textwrap
from types import CodeType

import pytest

from gdbext.cpython.code.acquired import LockFlow
from gdbext.cpython.code.bytecode import with_blocks, with_table
from gdbext.cpython.code.lock_calls import Names, find_lock_calls
from gdbext.layout.opcodes import opcodes_of
from tests.support.bytecode import assemble

pytestmark = pytest.mark.skipif(opcodes_of(*sys.version_info[:2]) is None, reason="no table for this interpreter")


def analyse(code: CodeType) -> LockFlow:
    opcodes = opcodes_of(*sys.version_info[:2])
    assert opcodes is not None
    cells = (*(name for name in code.co_cellvars if name not in code.co_varnames), *code.co_freevars)
    if sys.version_info >= (3, 11):
        bytecode = with_table(code.co_code, code.co_exceptiontable, opcodes)
        names = Names(code.co_names, (*code.co_varnames, *cells), 0)
    else:
        bytecode = with_blocks(code.co_code, opcodes)
        names = Names(code.co_names, (*code.co_varnames, *code.co_cellvars, *code.co_freevars), len(code.co_varnames))
    return LockFlow(bytecode, find_lock_calls(bytecode, names, opcodes.version))


def at_here(body: str) -> tuple[LockFlow, int]:
    """A function, and the offset of the first call, or `yield`, in its line with the comment `here`."""
    source = "def work(self, lock, other, early, items):\n" + textwrap.indent(textwrap.dedent(body), "    ")
    line = 1 + next(i for i, text in enumerate(source.splitlines()) if text.endswith("# here"))
    module = compile(source, "job.py", "exec")
    code = next(each for each in module.co_consts if isinstance(each, CodeType))
    lines = dict(dis.findlinestarts(code))
    at: int | None = 0
    for each in dis.get_instructions(code):
        at = lines.get(each.offset, at)
        is_call = each.opname.startswith(("CALL", "YIELD")) and "INTRINSIC" not in each.opname
        if at == line and is_call:
            return analyse(code), each.offset
    raise AssertionError("no call in the line")


def acquired(body: str) -> dict[str, str]:
    flow, offset = at_here(body)
    return {str(each.place): each.ways for each in flow.acquired(offset)}


TRY = """
    {acquire}
    try:
        use()  # here
    finally:
        {release}
"""


@pytest.mark.parametrize("expression", ["lock", "self.lock", "self.pool.lock", "module_lock", "module.lock"])
def test_try_finally_releases_on_every_way(expression: str) -> None:
    body = TRY.format(acquire=f"{expression}.acquire()", release=f"{expression}.release()")
    assert acquired(body) == {expression: "all"}


@pytest.mark.parametrize("acquire", [
    "if not lock.acquire(timeout=early): raise KeyError", "if not lock.acquire(False): return 1",
    "while not lock.acquire(True, 0.1): pass", "lock.acquire(); print(other)", "early = lock.acquire()",
])
def test_result_of_acquire(acquire: str) -> None:
    assert acquired(TRY.format(acquire=acquire, release="lock.release()")) == {"lock": "all"}


@pytest.mark.parametrize("acquire", [
    "lock.acquire(False)", "lock.acquire(timeout=1)", "early = lock.acquire(timeout=1)", "lock.acquire(early)",
    "if lock.acquire(False): return", "if lock.acquire(False): pass",
    "if early: lock.acquire()", "items[0].acquire()", "self.find().acquire()",
    "lock.acquire(); lock.release()", "lock.acquire(); lock = other", "lock.acquire(); del lock",
    "self.lock.acquire(); other.lock = 1; self.lock", "lock.acquire(); self, lock = items",
    "lock.acquire()\n    for lock in items: pass", "lock.acquire()\n    with other as lock: pass",
])
def test_acquire_that_may_fail_or_be_undone(acquire: str) -> None:
    found = acquired(TRY.format(acquire=acquire, release="lock.release()"))
    assert set(found.values()) <= {"none"}
    assert "lock" not in found


def test_acquire_inside_the_try_statement() -> None:
    assert acquired("""
        try:
            lock.acquire()
            use()  # here
        finally:
            lock.release()
    """) == {"lock": "all"}


def test_release_without_try_is_skipped_by_an_exception() -> None:
    assert acquired("lock.acquire()\nuse()  # here\nlock.release()") == {"lock": "normal"}


def test_exception_handler_that_returns_without_release() -> None:
    assert acquired("""
        lock.acquire()
        try:
            use()  # here
        except KeyError:
            return
        lock.release()
    """) == {"lock": "normal"}


@pytest.mark.parametrize("after", [
    "", "return lock", "if early: lock.release()", "lock.acquire()\nlock.release()", "lock = other\nlock.release()",
    "while True: print()", "other.release()", "raise KeyError",
])
def test_function_that_keeps_the_lock(after: str) -> None:
    assert acquired("lock.acquire()\nuse()  # here\n" + after) == {"lock": "none"}


def test_lock_that_another_thread_releases_as_a_signal() -> None:
    assert acquired("lock.acquire()\nstart(other)\nlock.acquire()\nuse()  # here\nlock.release()") == {"lock": "none"}


@pytest.mark.parametrize("release", [
    "with suppress(RuntimeError): lock.release()", "try: lock.release()\n        except RuntimeError: pass",
    "try: lock.release()\n        except: pass", "if lock.locked(): lock.release()",
])
def test_release_that_may_fail_because_another_thread_has_released_the_lock(release: str) -> None:
    assert acquired(TRY.format(acquire="lock.acquire()", release=release)) == {"lock": "none"}


def test_exception_handler_around_acquire_and_release() -> None:
    assert acquired("""
        while True:
            try:
                with other:
                    lock.acquire()
                    try:
                        use()  # here
                    finally:
                        lock.release()
            except Exception:
                print(early)
    """) == {"lock": "all"}


def test_thread_that_waits_for_what_it_has_acquired() -> None:
    assert acquired(TRY.format(acquire="lock.acquire()", release="lock.release()").replace(
        "use()", "lock.acquire()")) == {"lock": "none"}


def test_loop_over_locks_keeps_only_what_is_acquired_on_every_way() -> None:
    assert acquired("""
        while early:
            self.one.acquire()
            try:
                if other:
                    self.two.acquire()
                    self.two.release()
                    continue
                for item in items:
                    item.work()  # here
            finally:
                self.one.release()
    """) == {"self.one": "all"}


def test_nested_try_statements() -> None:
    assert acquired("""
        lock.acquire()
        try:
            other.acquire()
            try:
                if early:
                    return use()  # here
            finally:
                other.release()
        finally:
            lock.release()
    """) == {"lock": "all", "other": "all"}


def test_generator_at_its_yield() -> None:
    assert acquired("""
        lock.acquire()
        try:
            yield  # here
        finally:
            lock.release()
    """) == {"lock": "all"}


def test_variable_that_an_inner_function_shares() -> None:
    assert acquired("""
        lock.acquire()
        try:
            use(lambda: lock)  # here
        finally:
            lock.release()
    """) == {"lock": "all"}


def test_expressions_released_since() -> None:
    flow, offset = at_here("""
        lock.acquire()
        try:
            other.release()
            items[0].release()
            use()  # here
        finally:
            lock.release()
    """)
    (found,) = flow.acquired(offset)
    assert {str(place) for place in found.others} == {"other", "None"}


@pytest.mark.parametrize("escape", [
    "Timer(1, lock.release)", "finish = lock.release", "with closing(lock.release): pass",
])
def test_release_that_is_not_called_where_it_is_loaded(escape: str) -> None:
    flow, offset = at_here(TRY.format(acquire=f"lock.acquire(); {escape}" if "with" not in escape
                                      else f"lock.acquire()\n    {escape}", release="lock.release()"))
    (found,) = flow.acquired(offset)
    assert "lock" in {str(place) for place in found.others}


def test_function_that_has_not_come_to_its_release() -> None:
    flow, offset = at_here(TRY.format(acquire="lock.acquire()", release="lock.release()"))
    assert not flow.has_released(offset)
    assert {str(place) for place in flow.releases_ahead(offset)} == {"lock"}


def test_function_that_releases_in_a_loop() -> None:
    flow, offset = at_here("""
        while True:
            if not lock.acquire(timeout=1):  # here
                continue
            lock.release()
    """)
    assert flow.has_released(offset)
    assert list(flow.releases_ahead(offset)) == []


def test_code_outside_the_function_has_acquired_nothing() -> None:
    flow, _ = at_here("lock.acquire()\nuse()  # here")
    assert flow.acquired(-2) == flow.acquired(1 << 20) == []


@pytest.mark.parametrize("minor", range(8, 16))
@pytest.mark.parametrize("distance", [0, 1])
def test_jump_to_the_next_instruction_does_not_show_that_the_lock_is_taken(minor: int, distance: int) -> None:
    known = opcodes_of(3, minor)
    assert known is not None
    names = {*known.names.values()}
    method = ("LOAD_METHOD", 0) if "LOAD_METHOD" in names else ("LOAD_ATTR", 1)
    call = "CALL" if "CALL" in names else "CALL_METHOD"
    jump = "POP_JUMP_IF_FALSE" if "POP_JUMP_IF_FALSE" in names else "POP_JUMP_FORWARD_IF_FALSE"
    unit = 2 if minor >= 10 else 1
    begin = assemble(known, ("LOAD_FAST", 0), method, ("LOAD_CONST", 0), (call, 1))
    to = distance * 2 // unit
    if known.jumps[jump] == "absolute":
        to += (len(begin) + 2) // unit
    code = begin + assemble(known, (jump, to), ("NOP", 0), ("RETURN_VALUE", 0))
    found = (with_table(code, b"", known) if minor >= 11 else with_blocks(code, known))
    flow = LockFlow(found, find_lock_calls(found, Names(("acquire",), ("lock",), 1), known.version))
    # where the two ways do not meet at once, the lock is taken on one of them
    assert bool(flow.acquired(found.instructions[-2].start)) == bool(distance)
    assert flow.acquired(found.instructions[-1].start) == []
