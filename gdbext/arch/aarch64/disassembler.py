"""Disassembles machine code of arm64 without a debugger, by the library capstone, in the spelling of GDB."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from gdbext.errors import MissingLibrary

#: Instructions whose last number is an address, which GDB writes without a mark.
_TO_ADDRESS = re.compile(r"(?:b|bl|b\.\w\w|cbn?z|tbn?z|adrp?|ldr|ldrsw|prfm)$")
#: Instructions whose last number is hexadecimal; others have distances and counts of bits.
_WITH_VALUE = re.compile(r"(?:adds?|subs?|cmp|cmn|movk?|ands?|orr|eor|tst|bics?|svc|brk|hlt|udf|ccm[pn])$")
_LAST, _NUMBER = re.compile(r"#(-?(?:0x[0-9a-f]+|\d+))(?=$|,)"), re.compile(r"#(-?)0x([0-9a-f]+)")
_SHIFT = re.compile(r"((?:ls[lr]|asr|ror|[us]xt\w) #)0x([0-9a-f]+)")
_BRANCH = re.compile(r"(?:bl?|b\.\w\w|cbn?z|tbn?z) (?:.*, )?(0x[0-9a-f]+)$")
_NAMES = {"b.hs": "b.cs", "b.lo": "b.cc"}


@lru_cache(maxsize=1)
def _capstone() -> Any:
    try:
        import capstone
    except ImportError:
        raise MissingLibrary("capstone") from None
    return capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_LITTLE_ENDIAN)


def disassemble(code: bytes, address: int,
                name: Callable[[int], str | None] = lambda target: None) -> Sequence[tuple[int, int, str]]:
    """Disassemble code up to the first word that the library does not recognise; see `arch.x86_64.disassembler`.

    :raises MissingLibrary: capstone is not installed.
    """
    found = []
    for at, size, mnemonic, operands in _capstone().disasm_lite(code, address):
        text = spelled(mnemonic, operands)
        branch = _BRANCH.match(text)
        symbol = name(int(branch[1], 16)) if branch is not None else None
        found.append((at, size, f"{text} <{symbol}>" if symbol is not None else text))
    return found


def spelled(mnemonic: str, operands: str) -> str:
    """The text of an instruction as GDB writes it."""
    address = ""
    if _TO_ADDRESS.match(mnemonic) and "[" not in operands:
        operands, _, address = operands.rpartition("#")
        address = f"{int(address, 0):#x}" if address[:1].isdigit() else address
    elif _WITH_VALUE.match(mnemonic):
        bits = 32 if operands.startswith("w") else 64
        operands = _LAST.sub(lambda found: f"#{int(found[1], 0) & (1 << bits) - 1:#x}", operands)
    else:
        operands = _NUMBER.sub(lambda found: f"#{found[1]}{_signed(int(found[2], 16))}", operands)
    if address:
        operands = _NUMBER.sub(lambda found: f"#{found[1]}{int(found[2], 16)}", operands)
    operands = _SHIFT.sub(lambda found: f"{found[1]}{int(found[2], 16)}", operands)
    return f"{_NAMES.get(mnemonic, mnemonic)} {operands}{address}".strip()


def _signed(value: int) -> int:
    """The library writes negative distances of 64 bits without a sign."""
    return value - (1 << 64) if value >> 63 else value
