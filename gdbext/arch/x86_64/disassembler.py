"""Disassembles machine code without a debugger, by the library capstone, in the spelling of GDB.

capstone writes AT&T syntax as LLVM does: each instruction has a suffix for its size, immediates are signed, small
numbers are decimal, and string instructions have no segment. GDB writes a suffix only if no register shows the size.
`tests/gdb/test_disassembler.py` compares both on whole libraries.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from gdbext.errors import MissingLibrary

_BITS = {"b": 8, "w": 16, "l": 32, "q": 64}
_SHIFTS = frozenset({"shl", "sal", "shr", "sar", "rol", "ror", "rcl", "rcr"})
_STRING = frozenset({"movs", "cmps", "stos", "lods", "scas", "ins", "outs"})
#: GDB never writes a suffix for these.
_WITHOUT = frozenset({"movabs", "nop", "call", "jmp", "ret", "lret", "leave", "push", "pop", "pushf", "popf"})
_OTHERS = """
    mov add or adc sbb and sub xor cmp test inc dec neg not shld shrd xadd xchg cmpxchg bt bts btr btc mul imul div idiv
    lea bsf bsr tzcnt lzcnt popcnt bswap movbe movnti in out crc32 adcx adox andn bextr blsi blsr blsmsk bzhi mulx pdep
    pext rorx sarx shlx shrx enter sldt str smsw lmsw lsl lar rdrand rdseed ud1
    cmova cmovae cmovb cmovbe cmove cmovne cmovg cmovge cmovl cmovle cmovs cmovns cmovo cmovno cmovp cmovnp"""
#: Names with suffix -> the name, and the size of the operands in bits.
_NAMES = {f"{name}{suffix}": (name, bits) for suffix, bits in _BITS.items()
          for name in (*_SHIFTS, *_STRING, *_WITHOUT, *_OTHERS.split())}
#: The prefixes of string instructions that compare.
_REPEATS = {"repe": "repz", "repne": "repnz"}
_IMMEDIATE = re.compile(r"\$(-?(?:0x[0-9a-f]+|\d+))")
_MEMORY = re.compile(r"(?:%[c-gs]s:)?[-\w]*\([^)]*\)|%[c-gs]s:[-\w]+")
_SMALL = re.compile(r"(?<![\w$%.])(-?)(\d)(?=\(|,|$)")
_STRING_OPERAND = re.compile(r"(?<![:\w])\((%[re]?([sd])i)\)")
_VECTOR = re.compile(r"%[xyz]?mm")
_BRANCH = re.compile(r"(?:^| )(?:call|j[a-z]+) (0x[0-9a-f]+)$")
#: Legacy prefixes and a REX prefix. Source: Intel SDM volume 2, section 2.1.1 and 2.2.1.
_PREFIXES = re.compile(rb"[\x66\x67\xf0\xf2\xf3\x2e\x36\x3e\x26\x64\x65]*[\x40-\x4f]?")
#: The opcodes of shifts by one, which have no operand for the count.
_BY_ONE = (0xD0, 0xD1, 0xD2, 0xD3)


@lru_cache(maxsize=1)
def _capstone() -> Any:
    try:
        import capstone
    except ImportError:
        raise MissingLibrary("capstone") from None
    made = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    made.syntax = capstone.CS_OPT_SYNTAX_ATT
    return made


def disassemble(code: bytes, address: int,
                name: Callable[[int], str | None] = lambda target: None) -> Sequence[tuple[int, int, str]]:
    """Disassemble code up to the first bytes that the library does not recognise as an instruction.

    :param code: machine code of x86-64.
    :param address: of its first byte.
    :param name: returns the name of the function at the target of a call or jump, or None.
    :return: address, size in bytes and text of each instruction.
    :raises MissingLibrary: capstone is not installed.
    """
    found = []
    for at, size, mnemonic, operands in _capstone().disasm_lite(code, address):
        text = spelled(mnemonic, operands, code[at - address:at - address + size])
        branch = _BRANCH.search(text)
        symbol = name(int(branch[1], 16)) if branch is not None else None
        found.append((at, size, f"{text} <{symbol}>" if symbol is not None else text))
    return found


def spelled(mnemonic: str, operands: str, code: bytes) -> str:
    """The text of an instruction as GDB writes it.

    :param mnemonic: with prefixes, as capstone writes it.
    :param operands: as capstone writes them.
    :param code: the instruction's bytes.
    """
    prefixes, _, name = mnemonic.rpartition(" ")
    prefixes = _REPEATS.get(prefixes, prefixes)
    operands = _SMALL.sub(r"\g<1>0x\2", operands.replace(", ", ","))
    base, bits = _NAMES.get(name, (name, 64))
    if base != name:
        if base in _STRING:
            operands = _STRING_OPERAND.sub(lambda found: f"%{'es' if found[2] == 'd' else 'ds'}:({found[1]})", operands)
        elif base in _SHIFTS and operands.startswith("$1,") and code[_end_of_prefixes(code)] in _BY_ONE:
            operands = operands[3:]
        if base in _WITHOUT or "%" in _MEMORY.sub("", operands) and not _VECTOR.search(operands):
            name = base
    if "$" in operands:
        operands = _IMMEDIATE.sub(lambda found: f"${int(found[1], 0) & (1 << bits) - 1:#x}", operands)
    return f"{prefixes} {name} {operands}".strip()


def _end_of_prefixes(code: bytes) -> int:
    found = _PREFIXES.match(code)
    return found.end() if found is not None and found.end() < len(code) else 0
