"""Instructions by capstone in the spelling of GDB."""

from __future__ import annotations

import pytest

from gdbext.arch.aarch64.disassembler import disassemble

#: Machine code, and what GDB 13.1 prints of it at 0x1000.
SPELLINGS = [
    ("f9400820", "ldr x0, [x1, #16]"),
    ("f85e8380", "ldur x0, [x28, #-24]"),
    ("f85e8780", "ldr x0, [x28], #-24"),
    ("a9be7bfd", "stp x29, x30, [sp, #-32]!"),
    ("a8c27bfd", "ldp x29, x30, [sp], #32"),
    ("f8627820", "ldr x0, [x1, x2, lsl #3]"),
    ("b862d820", "ldr w0, [x1, w2, sxtw #2]"),
    ("90000000", "adrp x0, 0x1000"),
    ("9102e000", "add x0, x0, #0xb8"),
    ("cb810861", "sub x1, x3, x1, asr #2"),
    ("52800060", "mov w0, #0x3"),
    ("92800000", "mov x0, #0xffffffffffffffff"),
    ("72a00de1", "movk w1, #0x6f, lsl #16"),
    ("71000c1f", "cmp w0, #0x3"),
    ("d37cec00", "lsl x0, x0, #4"),
    ("d4207d00", "brk #0x3e8"),
    ("d65f03c0", "ret"),
    ("d503201f", "nop"),
]
#: Those that lead to a function.
BRANCHES = [("94000004", "bl 0x1010 <work>"), ("54000080", "b.eq 0x1010 <work>"), ("b4000081", "cbz x1, 0x1010 <work>"),
            ("37080080", "tbnz w0, #1, 0x1010 <work>"), ("54000082", "b.cs 0x1010 <work>")]


@pytest.mark.parametrize(("word", "text"), SPELLINGS + BRANCHES, ids=[text for _, text in SPELLINGS + BRANCHES])
def test_spelling_is_that_of_gdb(word: str, text: str) -> None:
    found = disassemble(int(word, 16).to_bytes(4, "little"), 0x1000, lambda at: "work" if at == 0x1010 else None)
    assert list(found) == [(0x1000, 4, text)]


def test_disassembly_ends_at_data() -> None:
    code = bytes.fromhex("1f2003d5" "ffffffff" "1f2003d5")
    assert [at for at, _, _ in disassemble(code, 0x1000)] == [0x1000]
