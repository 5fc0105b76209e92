from __future__ import annotations

import pytest

from gdbext.cpython.gil import GilState, decode_gil, decode_static_gil
from gdbext.errors import CorruptStructure, MemoryUnreadable
from gdbext.inferior.protocol import Module, Section
from gdbext.layout.table import Field
from tests.support.fake_memory import Builder, FakeMemory
from tests.support.fake_python import VERSIONS, cpython_layouts

AT = 0x7F00_0000_1000
TSTATE = 0x5555_1000
INTERPRETER = 0x7F00_0002_0000


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("locked", "state", "holder"), [(1, "held", TSTATE), (0, "free", None), (-1, "unknown", None)])
def test_states(version: str, locked: int, state: str, holder: int | None) -> None:
    layouts = cpython_layouts(version)
    memory = FakeMemory()
    # the last holder remains recorded after its release: it counts only while the GIL is locked
    Builder(memory, layouts).put("_gil_runtime_state", AT, interval=5000, last_holder=TSTATE, locked=locked)
    found = decode_gil(memory, layouts, AT)
    assert (found.address, found.state, found.holder, found.size) == (AT, state, holder, 208)


@pytest.mark.parametrize(("enabled", "state", "holder"), [(0, "disabled", None), (1, "held", TSTATE)])
def test_free_threaded(enabled: int, state: str, holder: int | None) -> None:
    plain = cpython_layouts("3.13.0")
    moved = {name: Field(field.offset + 8, field.size, field.signed)
             for name, field in plain["_gil_runtime_state"].fields.items()}
    layouts = plain.replaced("table", {"_gil_runtime_state": {"enabled": Field(0, 4, True), **moved}},
                             {"_gil_runtime_state": 216})
    memory = FakeMemory()
    Builder(memory, layouts).put("_gil_runtime_state", AT, enabled=enabled, interval=5000, last_holder=TSTATE, locked=1)
    found = decode_gil(memory, layouts, AT)
    assert (found.address, found.state, found.holder, found.size) == (AT, state, holder, 216)


@pytest.mark.parametrize("interval", [0, 1, 5000, 10**8, 10**9, 10**16])
def test_unusual_switch_intervals(interval: int) -> None:
    """Some programs set an interval that means never: 1e10 s."""
    layouts = cpython_layouts("3.12.1")
    memory = FakeMemory()
    Builder(memory, layouts).put("_gil_runtime_state", AT, interval=interval, last_holder=TSTATE, locked=1)
    assert decode_gil(memory, layouts, AT).holder == TSTATE


@pytest.mark.parametrize(("interval", "first_of", "accepted"), [
    (10**9, INTERPRETER, True), (10**9, INTERPRETER + 8, False), (10**9, 0, False), (TSTATE, INTERPRETER, False),
    (INTERPRETER, INTERPRETER, False)])
def test_long_interval_that_is_a_mapped_address(interval: int, first_of: int, accepted: bool) -> None:
    """The heap of a program at a fixed address may include 10**9, which is an interval of 1,000 s."""
    layouts = cpython_layouts("3.12.1")
    memory = FakeMemory({10**9: bytes(8)})
    built = Builder(memory, layouts)
    built.put("_gil_runtime_state", AT, interval=interval, last_holder=TSTATE, locked=1)
    built.put("PyThreadState", TSTATE, interp=INTERPRETER)
    built.put("PyThreadState", TSTATE + 0x1000, interp=first_of)
    built.put("PyInterpreterState", INTERPRETER, tstate_head=TSTATE + 0x1000)
    if accepted:
        assert decode_gil(memory, layouts, AT).holder == TSTATE
    else:
        with pytest.raises(CorruptStructure):
            decode_gil(memory, layouts, AT)


@pytest.mark.parametrize("members", [{"locked": 2}, {"locked": -2}, {"locked": 1, "interval": 1 << 60},
                                     {"locked": 1, "interval": AT + 8}],
                         ids=["locked twice", "less than never", "no interval", "address"])
def test_implausible_gil_is_rejected(members: dict[str, int]) -> None:
    layouts = cpython_layouts("3.12.1")
    memory = FakeMemory()
    Builder(memory, layouts).put("_gil_runtime_state", AT, **members)
    with pytest.raises(CorruptStructure):
        decode_gil(memory, layouts, AT)


def test_unreadable() -> None:
    with pytest.raises(MemoryUnreadable):
        decode_gil(FakeMemory({AT: bytes(16)}), cpython_layouts("3.12.1"), AT)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("offset", "waits"), [
    (0, False), (28, False), (32, True), (32 + 32, True), (32 + 40, True), (32 + 44, True), (80, True), (119, True),
    (120 + 40, True), (168, True), (207, True), (208, False), (-4, False),
])
def test_waiting_threads_are_recognised_by_their_words(version: str, offset: int, waits: bool) -> None:
    layouts = cpython_layouts(version)
    memory = FakeMemory()
    Builder(memory, layouts).put("_gil_runtime_state", AT, interval=5000, last_holder=TSTATE, locked=1)
    gil = decode_gil(memory, layouts, AT)
    assert gil.is_waited_for(AT + offset, True, None) is waits
    assert gil.is_waited_for(AT + offset, False, "some_variable") is waits


BSS = 0x7F00_0001_0000


def static_gil(holder: int) -> GilState:
    """The GIL of CPython 3.6, whose variables are stored in `.bss`."""
    module = Module("/lib/libpython3.6m.so.1.0", (Section(".bss", BSS, BSS + 0x1000),))
    return decode_static_gil(FakeMemory({AT: holder.to_bytes(8, "little")}), module, AT)


def test_static_gil() -> None:
    assert (static_gil(TSTATE).state, static_gil(TSTATE).holder) == ("held", TSTATE)
    assert (static_gil(0).state, static_gil(0).holder) == ("free", None)


@pytest.mark.parametrize(("offset", "timed", "symbol", "waits"), [
    (0x40, True, "gil_cond", True), (0x40, False, "gil_mutex", True), (0x40, True, "switch_cond.lto_priv.0", True),
    (0x40, True, "pending_lock", False),
    # without symbols the timeout decides: only waits for the GIL are timed
    (0x40, True, None, True), (0x40, False, None, False), (0x1000, True, None, False), (-4, True, None, False),
])
def test_waiting_threads_of_a_static_gil(offset: int, timed: bool, symbol: str | None, waits: bool) -> None:
    assert static_gil(TSTATE).is_waited_for(BSS + offset, timed, symbol) is waits
