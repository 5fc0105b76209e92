from __future__ import annotations

import pytest

from gdbext.cpython.gil import GilState, decode_gil, waits_for_gil
from gdbext.errors import CorruptStructure, MemoryUnreadable
from gdbext.layout.table import Field
from tests.support.fake_memory import Builder, FakeMemory
from tests.support.fake_python import VERSIONS, cpython_layouts

AT = 0x7F00_0000_1000
TSTATE = 0x5555_1000


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("locked", "state", "holder"), [(1, "held", TSTATE), (0, "free", None), (-1, "unknown", None)])
def test_states(version: str, locked: int, state: str, holder: int | None) -> None:
    layouts = cpython_layouts(version)
    memory = FakeMemory()
    # the last holder stays noted after it let go: it counts only while the GIL is locked
    Builder(memory, layouts).put("_gil_runtime_state", AT, interval=5000, last_holder=TSTATE, locked=locked)
    assert decode_gil(memory, layouts, AT) == GilState(AT, state, holder, 208)


@pytest.mark.parametrize(("enabled", "state", "holder"), [(0, "disabled", None), (1, "held", TSTATE)])
def test_free_threaded(enabled: int, state: str, holder: int | None) -> None:
    plain = cpython_layouts("3.13.0")
    moved = {name: Field(field.offset + 8, field.size, field.signed)
             for name, field in plain["_gil_runtime_state"].fields.items()}
    layouts = plain.replaced("table", {"_gil_runtime_state": {"enabled": Field(0, 4, True), **moved}},
                             {"_gil_runtime_state": 216})
    memory = FakeMemory()
    Builder(memory, layouts).put("_gil_runtime_state", AT, enabled=enabled, interval=5000, last_holder=TSTATE, locked=1)
    assert decode_gil(memory, layouts, AT) == GilState(AT, state, holder, 216)


@pytest.mark.parametrize("members", [{"locked": 2}, {"locked": -2}, {"locked": 1, "interval": 1 << 40}],
                         ids=["locked twice", "less than never", "interval"])
def test_no_gil(members: dict[str, int]) -> None:
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
def test_words_of_waiters(version: str, offset: int, waits: bool) -> None:
    assert waits_for_gil(cpython_layouts(version), AT, AT + offset) is waits
