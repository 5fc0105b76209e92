from __future__ import annotations

import pytest

from gdbext.arch.aarch64.instructions import parse
from gdbext.arch.aarch64.origins import origin

AT = 0x40_0000


def describe(text: str, register: str) -> str | None:
    """Describe the origin of a register at the end of code; jumps are to line numbers (``@2``)."""
    lines = [line.strip() for line in text.splitlines()]
    code = [parse(AT + 4 * i, 4, " ".join(hex(AT + 4 * int(word[1:])) if word[:1] == "@" else word
                                          for word in line.split())) for i, line in enumerate(lines)]
    found = origin(code, len(code), register)
    if found is None:
        return None
    words: list[str] = [found.kind]
    if found.instruction is not None:
        words.append(f"#{(found.instruction.address - AT) // 4}")
    if found.argument is not None:
        words.append(str(found.argument))
    if found.value is not None:
        words.append(hex(found.value))
    if found.operand is not None:
        words += [found.operand.text, "same" if found.operand_unchanged else "changed"]
    return " ".join([*words, *([] if found.certain else ["perhaps"])])


@pytest.mark.parametrize(("text", "register", "expected"), [
    ("ldr x0, [x1, #24]", "x0", "loaded #0 [x1, #24] same"),
    ("ldr x0, [x0, #24]", "x0", "loaded #0 [x0, #24] changed"),
    ("ldp x2, x3, [x1, #16]", "x3", "loaded #0 [x1, #24] same"),
    ("ldp w2, w3, [x1]", "w3", "loaded #0 [x1, #4] same"),
    ("ldr x0, [x1], #8", "x0", "loaded #0 [x1] changed"),
    ("ldr x0, [x1], #8", "x1", "computed #0"),
    ("ldrb w0, [x1, x2]", "w0", "loaded #0 [x1, x2] same"),
    ("ldr x0, [x1]\nmov x2, x0", "x2", "loaded #0 [x1] same"),
    ("nop\nmov x19, x0\nbl 0x10", "x19", "argument 1"),
    ("nop\nsxtw x3, w1", "w3", "argument 2"),
    ("bl 0x10 <find>\nmov x19, x0", "x19", "result #0"),
    ("bl 0x10 <find>", "x1", None),
    ("mov w0, #0x3", "x0", "constant #0 0x3"),
    ("mov x0, xzr", "x0", "constant #0 0x0"),
    # the address of a variable, and the word at one
    ("adrp x0, 0x420000\nadd x0, x0, #0xb8", "x0", "constant #1 0x4200b8"),
    ("adrp x0, 0x420000\nldr x0, [x0, #184]", "x0", "loaded #1 0x4200b8 same"),
    ("adrp x0, 0x420000\nadd x0, x0, #0xb8\nldr x1, [x0, #8]", "x1", "loaded #2 0x4200c0 same"),
    ("cbz x3, @2\nadrp x0, 0x420000\nldr x1, [x0, #8]", "x1", "loaded #2 [x0, #8] same"),
    ("add x0, x1, x2", "x0", "computed #0"),
    ("add x0, x1, #0x8", "x0", "computed #0"),
    # a jump past the load
    ("ldr x0, [x1]\ncbz x2, @3\nldr x0, [x3]\nnop", "x0", "loaded #2 [x3] same perhaps"),
    # a switch: the code after it may be reached from there
    ("ldr x0, [x1]\nadd x5, x4, w5, sxtb #2\nbr x5\nldr x0, [x3]\ncbz x2, @6\nnop\nnop", "x0",
     "loaded #3 [x3] same perhaps"),
    # a call in place of a return
    ("ldr x0, [x1]\ncbz x2, @4\nldp x29, x30, [sp], #32\nbr x3\nnop", "x0", "loaded #0 [x1] same"),
])
def test_origin(text: str, register: str, expected: str | None) -> None:
    assert describe(text, register) == expected
