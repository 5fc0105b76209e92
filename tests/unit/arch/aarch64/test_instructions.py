from __future__ import annotations

import pytest

from gdbext.arch.aarch64.instructions import Instruction, MemoryOperand, canonical, parse
from gdbext.arch.aarch64.registers import CALLER_SAVED, GENERAL
from gdbext.arch.protocol import Assignment


def one(text: str) -> Instruction:
    return parse(0x1000, 4, text)


def memory(text: str) -> MemoryOperand:
    found = one(text).memory
    assert isinstance(found, MemoryOperand)
    return found


@pytest.mark.parametrize(("text", "operands"), [
    ("mov x0, x1", ("x1", "x0")),
    ("add x0, x1, #0x10", (16, "x1", "x0")),
    ("add x0, x1, w2, sxtw #3", ("w2", "x1", "x0")),
    ("cmp w0, #0x3", (3, "w0")),
    ("cbz x0, 0x1010 <work+4>", (0x1010, "x0")),
    ("tbnz w0, #1, 0x1010", (0x1010, 1, "w0")),
    ("blr x8", ("x8",)),
    ("str x0, [x1]", ("x0", MemoryOperand(None, 0, "x1"))),
    ("ldr x0, [x1, #16]", (MemoryOperand(None, 16, "x1"), "x0")),
    ("ldr x0, [x1, #0x10]", (MemoryOperand(None, 16, "x1"), "x0")),
    ("ldr x0, 0x2000", (MemoryOperand(None, 0x2000), "x0")),
    ("stp x29, x30, [sp, #-32]!", ("x29", "x30", MemoryOperand(None, -32, "sp", moves=-32, before=True))),
    ("ldp x29, x30, [sp], #32", (MemoryOperand(None, 0, "sp", moves=32), "x30", "x29")),
    ("ld1 {v0.16b, v1.16b}, [x0], x2",
     (MemoryOperand(None, 0, "x0", moves_by_register=True), "{v0.16b, v1.16b}")),
    ("mrs x0, tpidr_el0", ("tpidr_el0", "x0")),
    ("frob x0, ???", ()),
])
def test_operands(text: str, operands: tuple[object, ...]) -> None:
    assert one(text).operands == operands


@pytest.mark.parametrize(("text", "kind", "falls_through", "condition"), [
    ("bl 0x1010 <work>", "call", True, None),
    ("bl 0x1010 <abort@plt>", "call", False, None),
    ("blr x1", "call", True, None),
    ("b 0x1010", "jump", False, None),
    ("b.eq 0x1010  // b.none", "jump", True, "equal"),
    ("b.ls 0x1010", "jump", True, "not above"),
    ("b.lt 0x1010", "jump", True, None),
    ("cbnz w0, 0x1010", "jump", True, None),
    ("br x17", "jump", False, None),
    ("ret", "return", False, None),
    ("retaa", "return", False, None),
    ("nop", "filler", True, None),
    ("brk #0x3e8", "trap", False, None),
    ("brk #0xf000", "other", True, None),
    ("udf #0", "undefined", False, None),
    (".inst 0xffffffff ; undefined", "undefined", False, None),
    ("bfi x0, x1, #3, #4", "other", True, None),
])
def test_kind(text: str, kind: str, falls_through: bool, condition: str | None) -> None:
    found = one(text)
    assert (found.kind, found.falls_through, found.condition) == (kind, falls_through, condition)


def test_targets_and_symbols_of_branches() -> None:
    call = one("bl 0x1010 <f(int, int)>")
    assert (call.call_target, call.symbol) == (0x1010, "f(int, int)")
    assert [one(text).jump_target for text in ("b 0x1010", "cbz w0, 0x1010", "tbz x0, #63, 0x1010", "br x1")] == [
        0x1010, 0x1010, 0x1010, None]


@pytest.mark.parametrize(("text", "accesses"), [
    ("ldr x0, [x1, #16]", ["read 8 [x1, #16]"]),
    ("ldr w0, [x1]", ["read 4 [x1]"]),
    ("ldrb w0, [x1, x2]", ["read 1 [x1, x2]"]),
    ("ldrsh x0, [x1, w2, sxtw #1]", ["read 2 [x1, w2, sxtw #1]"]),
    ("ldrsw x0, [x1, x2, lsl #2]", ["read 4 [x1, x2, lsl #2]"]),
    ("ldr q0, [x1]", ["read 16 [x1]"]),
    ("ldp x0, x1, [x2]", ["read 16 [x2]"]),
    ("ldp w0, w1, [x2]", ["read 8 [x2]"]),
    ("ldpsw x0, x1, [x2]", ["read 8 [x2]"]),
    ("stp q0, q1, [x0, #-32]!", ["write 32 [x0, #-32]"]),
    ("str xzr, [x1], #8", ["write 8 [x1]"]),
    ("strh w0, [x1]", ["write 2 [x1]"]),
    ("stlr w0, [x1]", ["write 4 [x1]"]),
    ("ldaxr w0, [x1]", ["read 4 [x1]"]),
    ("stlxr w2, x0, [x1]", ["write 8 [x1]"]),
    ("stxrb w2, w0, [x1]", ["write 1 [x1]"]),
    ("casal w0, w1, [x2]", ["read 4 [x2]", "write 4 [x2]"]),
    ("swpa x0, x1, [x2]", ["read 8 [x2]", "write 8 [x2]"]),
    ("ldaddal w0, w1, [x2]", ["read 4 [x2]", "write 4 [x2]"]),
    ("stadd x0, [x2]", ["read 8 [x2]", "write 8 [x2]"]),
    ("ld1 {v0.16b, v1.16b}, [x1]", ["read 32 [x1]"]),
    ("ld1 {v0.16b-v3.16b}, [x1]", ["read 64 [x1]"]),
    ("st1 {v0.s}[1], [x1]", ["write 4 [x1]"]),
    ("ldr x0, 0x2000", ["read 8 0x2000"]),
    ("dc zva, x3", ["write None [x3]"]),
    ("blr x1", ["execute None [x1]"]),
    ("br x1", ["execute None [x1]"]),
    ("prfm pldl1keep, [x0]", []),
    ("add x0, x1, x2", []),
    ("ret", []),
    ("bl 0x1010", []),
])
def test_accesses(text: str, accesses: list[str]) -> None:
    assert [f"{each.kind} {each.size} {each.operand.text}" for each in one(text).accesses()] == accesses


@pytest.mark.parametrize(("text", "written"), [
    ("ldr x0, [x1]", "x0"),
    ("ldr x0, [x1, #8]!", "x0 x1"),
    ("ldp x0, x1, [x2], #16", "x0 x1 x2"),
    ("ldr d0, [x1]", ""),
    ("str x0, [x1]", ""),
    ("str x0, [x1], #8", "x1"),
    ("stxr w0, x1, [x2]", "x0"),
    ("ldxp x0, x1, [x2]", "x0 x1"),
    ("cas w0, w1, [x2]", "x0"),
    ("ldadd w0, w1, [x2]", "x1"),
    ("swp w0, w1, [x2]", "x1"),
    ("stadd w0, [x2]", ""),
    ("add w0, w1, w2", "x0"),
    ("cmp x0, x1", ""),
    ("tst x0, #0x1", ""),
    ("svc #0x0", "x0"),
    ("paciasp", "x30"),
    ("nop", ""),
    ("mov x0, sp", "x0"),
    ("sub sp, sp, #0x20", "sp"),
    ("csel x0, x1, x2, eq", "x0"),
    ("b.eq 0x1010", ""),
    ("ret", ""),
    ("st1 {v0.16b}, [x0], #16", "x0"),
])
def test_written(text: str, written: str) -> None:
    assert one(text).written == set(written.split())


def test_written_by_calls_and_by_what_is_not_understood() -> None:
    assert one("bl 0x1010").written == CALLER_SAVED
    assert one("frob x0, ???").written == set(GENERAL) - {"sp"}


@pytest.mark.parametrize(("text", "read"), [
    ("add x0, x0, #0x1", "x0"), ("mov x0, x1", "x1"), ("movk x0, #0x1", "x0"), ("str x0, [x1, x2]", "x0 x1 x2"),
    ("ldr x0, [x1]", "x1"), ("cmp x0, x1", "x0 x1"), ("bl 0x1010", ""), ("blr x3", "x3")])
def test_read(text: str, read: str) -> None:
    assert one(text).read == set(read.split())


def test_assignments() -> None:
    at = MemoryOperand
    assert one("mov x0, x1").assignments() == (Assignment("x0", "x1"),)
    assert one("mov w0, #0xffffffff").assignments() == (Assignment("x0", 0xFFFFFFFF),)
    assert one("mov x0, xzr").assignments() == (Assignment("x0", 0),)
    assert one("adrp x0, 0x2000 <main>").assignments() == (Assignment("x0", 0x2000),)
    assert one("add x0, x1, #0x1, lsl #12").assignments() == (Assignment("x0", "x1", 4096),)
    assert one("sub sp, sp, #0x20").assignments() == (Assignment("sp", "sp", -32),)
    assert one("ldr x0, [x1, #8]").assignments() == (Assignment("x0", at(None, 8, "x1")),)
    assert one("str xzr, [x1]").assignments() == (Assignment(at(None, 0, "x1"), 0),)
    assert one("stp x29, x30, [sp, #-32]!").assignments() == (
        Assignment("sp", "sp", -32), Assignment(at(None, 0, "sp"), "x29"), Assignment(at(None, 8, "sp"), "x30"))
    assert one("ldp x29, x30, [sp], #32").assignments() == (
        Assignment("x29", at(None, 0, "sp")), Assignment("x30", at(None, 8, "sp")), Assignment("sp", "sp", 32))
    # the base is overwritten last
    assert one("ldp x0, x1, [x0]").assignments() == (
        Assignment("x1", at(None, 8, "x0")), Assignment("x0", at(None, 0, "x0")))
    for text in ("mov w0, w1", "movk x0, #0x1", "add w0, w0, #0x1", "ldr w0, [x1]", "add x0, x1, x2",
                 "ldr x0, [x1], x2", "mov x0, #0x1, lsl #16"):
        assert one(text).assignments() is None, text


@pytest.mark.parametrize(("text", "address"), [
    ("ldr x0, [x1, #16]", 0x1010), ("ldr x0, [x1, #-16]!", 0xFF0), ("ldr x0, [x1], #16", 0x1000),
    ("ldr x0, [x1, x2, lsl #3]", 0x1018), ("ldr x0, [x1, w4, uxtw]", 0x1_0000_0FFF),
    ("ldr x0, [x1, w4, sxtw]", 0xFFF), ("ldr x0, 0x2000", 0x2000), ("ldr x0, [x9]", None),
    # the processor ignores the highest byte
    ("ldr x0, [x3]", 0x0041_4141_4141_4141), ("ldr x0, [x5]", 0xFFFF_8000_0000_0000)])
def test_effective_address(text: str, address: int | None) -> None:
    registers = {"x1": 0x1000, "x2": 3, "x3": 0x4141_4141_4141_4141, "x4": 0xFFFF_FFFF, "x5": 0x34FF_8000_0000_0000}
    assert memory(text).address(registers, 0) == address


def test_simple_addresses() -> None:
    assert [memory(f"ldr x0, {text}").simple(0) for text in ("[x1, #8]", "0x2000", "[x1, x2]")] == [
        ("x1", 8), (None, 0x2000), None]


def test_comparisons_and_conditions() -> None:
    assert one("cmp x0, #0x3").comparison == (3, "x0")
    assert one("cmp w0, #0x3").comparison == (3, None)
    assert one("cmp x0, x1, lsl #2").comparison is None
    assert one("cset w0, ne").stored_condition == ("x0", "unequal")
    assert one("mov w0, w1").narrow_copy == ("x1", "x0")
    assert [canonical(name) for name in ("w3", "x3", "sp", "xzr")] == ["x3", "x3", "sp", "xzr"]
