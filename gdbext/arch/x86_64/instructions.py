"""x86-64 instructions from the text of a disassembler: their accesses and changes; long, as the tables of them are.

The text is AT&T syntax as GDB's ``disassemble`` prints it, of any GDB version: older ones write ``callq`` and
``retq`` where newer ones write ``call`` and ``ret``. The accesses of x87 and AVX-512 instructions have no known size.

Source: Intel SDM volume 2 (operands and sizes of each instruction) and volume 1 section 3.7 (operand addressing).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Literal, Optional

from gdbext.arch import protocol
from gdbext.arch.no_return import does_not_return
from gdbext.arch.protocol import Access, Assignment, Condition, Exchange, ExchangeKind, Kind, Operand
from gdbext.arch.x86_64.registers import CALLER_SAVED, GENERAL

_MASK = (1 << 64) - 1

# name -> (64-bit register, bits, number of the lowest bit)
_GENERAL: dict[str, tuple[str, int, int]] = {whole: (whole, 64, 0) for whole in GENERAL}
for _name in "abcd":
    _GENERAL.update({f"e{_name}x": (f"r{_name}x", 32, 0), f"{_name}x": (f"r{_name}x", 16, 0),
                     f"{_name}l": (f"r{_name}x", 8, 0), f"{_name}h": (f"r{_name}x", 8, 8)})
for _name in ("si", "di", "bp", "sp"):
    _GENERAL.update({f"e{_name}": (f"r{_name}", 32, 0), _name: (f"r{_name}", 16, 0), f"{_name}l": (f"r{_name}", 8, 0)})
for _name in GENERAL[8:]:
    _GENERAL.update({f"{_name}d": (_name, 32, 0), f"{_name}w": (_name, 16, 0), f"{_name}b": (_name, 8, 0)})
# printed where an encoding has a byte for an index, and no index
NO_INDEX = ("riz", "eiz")


def canonical(register: str) -> str:
    """The 64-bit name of a general register or of a part of it, as ``rax`` for ``eax``; other names as they are."""
    return _GENERAL[register][0] if register in _GENERAL else "rip" if register == "eip" else register


_EXCHANGES: Mapping[str, ExchangeKind] = {"xchg": "exchanges", "cmpxchg": "compares", "xadd": "adds"}


class MemoryOperand(protocol.MemoryOperand):
    """``segment:displacement(base,index,scale)`` in AT&T syntax, register names without ``%``."""

    @property
    def text(self) -> str:
        prefix = f"%{self.segment}:" if self.segment is not None else ""
        if self.base is None and self.index is None:
            return f"{prefix}{self.displacement & _MASK:#x}"
        shown = f"{self.displacement:#x}" if self.displacement or self.base is None else ""
        base = f"%{self.base}" if self.base is not None else ""
        index = f",%{self.index},{self.scale}" if self.index is not None else ""
        return f"{prefix}{shown}({base}{index})"

    @property
    def address_registers(self) -> Sequence[str]:
        used = dict.fromkeys(canonical(name) for name in (self.base, self.index) if name is not None)
        return [name for name in used if name not in ("rip", *NO_INDEX)]

    @property
    def registers(self) -> frozenset[str]:
        """The registers that the address depends on, without the program counter."""
        segment = [f"{self.segment}_base"] if self.segment in ("fs", "gs") else []
        return frozenset([*self.address_registers, *segment])

    def simple(self, next_address: int) -> tuple[str | None, int] | None:
        if self.segment in ("fs", "gs") or self.index not in (None, *NO_INDEX):
            return None
        if self.base is None:
            return None, self.displacement & _MASK
        if self.base == "rip":
            return None, next_address + self.displacement
        return (self.base, self.displacement) if self.base in GENERAL else None

    def address(self, registers: Mapping[str, int], next_address: int) -> int | None:
        total, narrow = self.displacement, False
        for name, scale in ((self.base, 1), (self.index, self.scale)):
            if name is None:
                continue
            if name in ("rip", "eip"):
                total += next_address
            elif name not in NO_INDEX:
                whole, bits, lowest = _GENERAL.get(name, ("", 0, 0))
                if whole not in registers:
                    return None
                total += (registers[whole] >> lowest & (1 << bits) - 1) * scale
            narrow = narrow or name in ("eip", "eiz") or _GENERAL.get(name, ("", 64))[1] == 32
        if narrow:
            total &= 0xFFFFFFFF
        if self.segment in ("fs", "gs"):
            if f"{self.segment}_base" not in registers:
                return None
            total += registers[f"{self.segment}_base"]
        return total & _MASK


# -- text ----------------------------------------------------------------------------------------------------------

_PREFIX = re.compile(r"(?:lock|rep|repn?[ze]|bnd|notrack|data16|data32|addr32|addr16|[c-gs]s|rex(?:\.\w+)?"
                     r"|xacquire|xrelease|\{\w+\})$")
_PIECE = re.compile(r"(?:[^,(]|\([^)]*\))+")
_DECORATION = re.compile(r"\{[^}]*\}")
_MEMORY = re.compile(r"(?:%([c-gs]s):)?(-?(?:0x[0-9a-f]+|\d+))?"
                     r"(\((?:%(\w+))?(?:,%(\w+))?(?:,([1248]))?\))?$")
_REGISTER = re.compile(r"%[a-z]\w*(?:\(\d\))?$")

# suffixes that GDB before 11 prints where the operand size is the only one
_OLD_NAMES = {f"{name}q": name for name in ("call", "ret", "jmp", "push", "pop", "leave", "enter", "pushf", "popf",
                                           "lret")}
_CONDITIONS = (
    "o", "no", "b", "c", "nae", "ae", "nb", "nc", "e", "z", "ne", "nz", "be", "na", "a", "nbe", "s", "ns", "p",
    "pe", "np", "po", "l", "nge", "ge", "nl", "le", "ng", "g", "nle")
_JUMPS = frozenset({f"j{condition}" for condition in _CONDITIONS} | {
    "jmp", "jmpw", "ljmp", "jcxz", "jecxz", "jrcxz", "loop", "loope", "loopne", "loopz", "loopnz", "xbegin"})
_RETURNS = frozenset({"ret", "retw", "lret", "iret", "iretq", "iretl", "iretw", "sysret", "sysretl", "sysretq"})
_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("call", "callw", "lcall"), "call"), **dict.fromkeys(_JUMPS, "jump"),
    **dict.fromkeys(_RETURNS, "return"),
    **dict.fromkeys(("nop", "nopw", "nopl", "int3"), "filler"),
    **dict.fromkeys(("idiv", "idivb", "idivw", "idivl", "idivq"), "signed division"),
    "ud2": "trap", "ud1": "trap", "ud0": "trap", "(bad)": "undefined"}
_CONDITION_OF: dict[str, Condition] = {"je": "equal", "jne": "unequal", "ja": "above", "jbe": "not above"}
_STORED_CONDITIONS: dict[str, Condition] = {"sete": "equal", "setne": "unequal"}
_ENDS = _RETURNS | {"jmp", "jmpw", "ljmp", "ud2", "ud1", "ud0", "hlt", "(bad)"}

@lru_cache(maxsize=8192)
def _operand(text: str) -> Operand | None:
    """A register, an immediate or memory; None if the text is not understood."""
    if text[:1] == "*":
        text = text[1:]
    first = text[:1]
    if first == "%" and ":" not in text:
        return text[1:] if _REGISTER.match(text) else None
    if first == "$":
        try:
            return int(text[1:], 0)
        except ValueError:
            return None
    match = _MEMORY.match(text)
    if match is None:
        return None
    segment, displacement, parentheses, base, index, scale = match.groups()
    if displacement is None and parentheses is None:
        return None
    if base == "dx":  # a port, not memory: in, out, ins, outs
        return base
    offset = int(displacement, 0) if displacement is not None else 0
    if offset >> 63 == 1:
        offset -= 1 << 64
    return MemoryOperand(segment, offset, base, index, int(scale) if scale is not None else 1)


def _operands(mnemonic: str, text: str) -> tuple[Operand, ...]:
    if _KINDS.get(mnemonic) in ("call", "jump") and text[:1] != "*":
        try:
            return (int(text, 0),)
        except ValueError:
            return ()
    if "{" in text:
        text = _DECORATION.sub("", text)
    if text.count("(") != text.count(")"):
        return ()
    pieces = _PIECE.findall(text) if "(" in text else text.split(",")
    found = []
    for piece in pieces:
        if piece and not piece.isspace():  # empty: nothing but a rounding mode was there
            operand = _operand(piece.strip())
            if operand is None:
                return ()
            found.append(operand)
    return tuple(found)


class Instruction(protocol.Instruction):
    """An instruction in AT&T syntax; of one that is not known the last operand counts as `written`."""

    @property
    def alignment(self) -> int | None:
        # Intel SDM volume 1 sections 11.4.1.1 and 14.9, and the instructions' exception types in volume 2
        mnemonic = self.mnemonic
        if self.memory is None:
            return None
        if mnemonic in ("cmpxchg16b", "cvtpd2pi", "cvttpd2pi"):
            return 16
        width = _vector_width(self.operands)
        if _ALIGNED.match(mnemonic):
            return width or None
        if mnemonic.startswith("v") or width != 16 or _UNALIGNED.match(mnemonic):
            return None
        # an operand of 16 bytes of an instruction in legacy encoding
        return 16 if _vector_size(self) == 16 else None

    @cached_property
    def comparison(self) -> tuple[Operand, Operand | None] | None:
        kind = self.mnemonic.rstrip("bwlq")
        if kind not in ("cmp", "test") or len(self.operands) != 2:
            return None
        first, second = self.operands
        if kind == "test" and first != second:
            return None
        is_whole = self.mnemonic in (kind, f"{kind}q") and (isinstance(second, MemoryOperand) or second in GENERAL)
        return 0 if kind == "test" else first, second if is_whole else None

    @property
    def tests_lowest_bit(self) -> str | None:
        if self.mnemonic.rstrip("bwlq") != "test" or len(self.operands) != 2 or self.operands[0] != 1:
            return None
        tested = part(self.operands[1])
        return tested[0] if tested is not None and tested[1] else None

    @property
    def stored_condition(self) -> tuple[str, Condition] | None:
        condition = _STORED_CONDITIONS.get(self.mnemonic)
        target = part(self.operands[0]) if condition is not None and self.operands else None
        return (target[0], condition) if condition is not None and target is not None and target[1] == 8 else None

    @property
    def narrow_copy(self) -> tuple[str, str] | None:
        if self.mnemonic not in ("mov", "movl") or len(self.operands) != 2:
            return None
        source, target = (part(operand) for operand in self.operands)
        if source is None or target is None or (source[1], target[1]) != (32, 32):
            return None
        return source[0], target[0]

    @cached_property
    def exchange(self) -> Exchange | None:
        # Intel SDM volume 2: XCHG with memory is atomic without a prefix
        name, memory = base_name(self.mnemonic), self.memory
        if memory is None or "lock" not in self.prefixes and name != "xchg":
            return None
        operand = next((each for each in self.operands if isinstance(each, str) and part(each) is not None), "")
        stored = part(operand)
        if name not in _EXCHANGES:
            size = next((access.size for access in self.accesses() if access.kind == "write"), None)
            if size is None:
                return None
            amount = 1 if name in ("inc", "dec") else self.operands[0]
            if name in ("inc", "add", "dec", "sub") and isinstance(amount, int):
                return Exchange("adds", memory, size, added=amount if name in ("inc", "add") else -amount)
            return Exchange("computes", memory, size)
        if stored is None or not stored[1]:
            return None
        return Exchange(_EXCHANGES[name], memory, stored[1] // 8, stored[0],
                        "rax" if name == "cmpxchg" else stored[0], part=operand)

    def part(self, operand: Operand) -> tuple[str, int] | None:
        return part(operand)

    @cached_property
    def read(self) -> frozenset[str]:
        name, operands = base_name(self.mnemonic), self.operands
        if self.mnemonic == "syscall" or not operands and len(self.text.split()) > len(self.prefixes) + 1:
            return frozenset(GENERAL)
        if name in ("xor", "sub") and len(operands) == 2 and operands[0] == operands[1]:
            return frozenset()
        found: set[str] = set()
        for i, operand in enumerate(operands):
            is_target = i == 1 and (name in ("mov", "movabs", "lea") or EXTEND.match(self.mnemonic) is not None)
            if isinstance(operand, MemoryOperand):
                found.update(operand.address_registers)
            elif operand in GENERAL and not is_target:
                found.add(str(operand))
        return frozenset(found)

    def _iter_changes(self) -> Iterator[str]:
        return _changes(self)

    def _iter_accesses(self) -> Iterator[Access]:
        return _accesses(self)

    def _find_assignments(self) -> tuple[Assignment, ...] | None:
        mnemonic, operands = self.mnemonic, self.operands
        if mnemonic in ("push", "pushq") and len(operands) == 1:
            return Assignment(_PUSHED, operands[0]), Assignment("rsp", "rsp", -8)
        if mnemonic in ("pop", "popq") and len(operands) == 1 and operands[0] in GENERAL:
            return Assignment("rsp", "rsp", 8), Assignment(str(operands[0]), _PUSHED)
        if mnemonic == "leave":
            return Assignment("rsp", "rbp", 8), Assignment("rbp", _PUSHED)
        if len(operands) != 2 or self.prefixes:
            return None
        made = _assignment(mnemonic, *operands)
        return (made,) if made is not None else None


_PUSHED = MemoryOperand(None, -8, "rsp")


def _assignment(mnemonic: str, source: Operand, target: Operand) -> Assignment | None:
    whole = target if isinstance(target, str) and target in GENERAL else None
    if mnemonic in ("mov", "movq", "movabs", "movl"):
        if whole is not None:
            return Assignment(whole, source)
        narrow = part(target)
        if narrow is not None and narrow[1] == 32 and isinstance(source, int):
            return Assignment(narrow[0], source & 0xFFFFFFFF)
        if isinstance(target, MemoryOperand) and (source in GENERAL or mnemonic == "movq"):
            return Assignment(target, source)
    elif mnemonic == "xor" and source == target and part(target):
        return Assignment(canonical(str(target)), 0, sets_flags=True)
    elif whole is None:
        return None
    elif mnemonic == "lea" and isinstance(source, MemoryOperand):
        return Assignment(whole, source, is_address=True)
    elif mnemonic in ("add", "addq", "sub", "subq") and isinstance(source, int):
        distance = source - (1 << 64) if source >> 63 else source
        return Assignment(whole, whole, distance if mnemonic.startswith("add") else -distance, sets_flags=True)
    return None


_Parsed = tuple[str, str, tuple[Operand, ...], tuple[str, ...], Optional[str], Kind, bool, Optional[Condition]]


@lru_cache(maxsize=8192)
def _parsed(text: str) -> _Parsed:
    # operands have neither character; symbols may have both
    code, mark, rest = text.partition("#")
    symbol = None
    if "<" in code:
        code, _, rest = text.partition("<")
    elif mark:
        rest = rest.partition("<")[2]
    if rest and ">" in rest:
        symbol = rest[:rest.rindex(">")]
    words = code.split() or [""]
    code = " ".join(words)
    first, last = 0, len(words) - 1
    while first < last and _PREFIX.match(words[first]):
        first += 1
    mnemonic = words[first].partition(",")[0]  # ja,pt: a hint at the branch's likely way
    mnemonic = _OLD_NAMES.get(mnemonic, mnemonic)
    operands: tuple[Operand, ...] = ()
    if first < last and mnemonic[0] not in "(.":
        operands = _operands(mnemonic, "".join(words[first + 1:]))
    kind = "filler" if code == "xchg %ax,%ax" else _KINDS.get(mnemonic, "other")
    falls_through = mnemonic not in _ENDS and not (kind == "call" and symbol is not None and does_not_return(symbol))
    return code, mnemonic, operands, tuple(words[:first]), symbol, kind, falls_through, _CONDITION_OF.get(mnemonic)


def parse(address: int, size: int, text: str) -> Instruction:
    """Parse an instruction; text that is not understood makes one without operands.

    :param size: of the instruction, in bytes.
    :param text: as GDB prints it after the address, with or without symbols and comment.
    """
    return Instruction(address, size, *_parsed(text))


# -- what an instruction changes -----------------------------------------------------------------------------------

_SUFFIXES = {"b": 1, "w": 2, "l": 4, "q": 8}
_STRING = {"movs": ("rsi", "rdi"), "cmps": ("rsi", "rdi"), "stos": ("rdi",), "lods": ("rsi",), "scas": ("rdi",),
           "ins": ("rdi",), "outs": ("rsi",)}
# by their effect on the last operand
_MODIFIES = frozenset({
    "add", "or", "adc", "sbb", "and", "sub", "xor", "inc", "dec", "neg", "not", "shl", "sal", "shr", "sar", "rol",
    "ror", "rcl", "rcr", "shld", "shrd", "xadd", "xchg", "cmpxchg", "cmpxchg8b", "cmpxchg16b", "bts", "btr", "btc"})
_WRITES = frozenset({
    "mov", "movabs", "movbe", "movnti", "movdiri", "pop", "stmxcsr", "vstmxcsr", "sgdt", "sidt", "sldt", "str",
    "smsw", "movs", "stos", "ins"})
_READS = frozenset({
    "cmp", "test", "bt", "push", "call", "jmp", "ljmp", "lcall", "mul", "imul", "div", "idiv", "ldmxcsr", "vldmxcsr",
    "verr", "verw", "clflush", "clflushopt", "clwb", "cmps", "outs", "out", "xlat"})
_NO_ACCESS = frozenset({"lea", "nop", "nopw", "nopl", "endbr64", "cldemote", "ud0", "ud1"})
_ONLY_FLAGS = frozenset({"cmp", "test", "bt", "out", "wrfsbase", "wrgsbase", "verr", "verw"})
_NAMES = _MODIFIES | _WRITES | _READS | frozenset(_STRING)
EXTEND = re.compile(r"mov[sz]([bwl])[wlq]$")
_FIXED_CHANGES: dict[str, tuple[str, ...]] = {
    "cltq": ("rax",), "cwtl": ("rax",), "cbtw": ("rax",), "lahf": ("rax",), "xlat": ("rax",), "int": ("rax",),
    "cqto": ("rdx",), "cltd": ("rdx",), "cwtd": ("rdx",), "rdtsc": ("rax", "rdx"), "rdtscp": ("rax", "rdx", "rcx"),
    "xgetbv": ("rax", "rdx"), "cpuid": ("rax", "rbx", "rcx", "rdx"), "rdpkru": ("rax", "rdx"),
    "syscall": ("rax", "rcx", "r11"), "xbegin": ("rax",), "leave": ("rsp", "rbp"), "enter": ("rsp", "rbp"),
    "push": ("rsp",), "pushf": ("rsp",), "popf": ("rsp",), "pushw": ("rsp",), "pushfw": ("rsp",), "popfw": ("rsp",),
    "loop": ("rcx",), "loope": ("rcx",), "loopne": ("rcx",), "loopz": ("rcx",), "loopnz": ("rcx",),
    "cmpxchg8b": ("rax", "rdx"), "cmpxchg16b": ("rax", "rdx"),
}
_COMPARE_STRINGS = re.compile(r"v?pcmp[ei]stri(?:q|l)?$")


def base_name(mnemonic: str) -> str:
    """The mnemonic without the suffix of its operand size."""
    if mnemonic not in _NAMES and mnemonic[-1:] in _SUFFIXES and mnemonic[:-1] in _NAMES:
        return mnemonic[:-1]
    return mnemonic


def part(operand: Operand) -> tuple[str, int] | None:
    """(64-bit register, bits from the lowest on) of a general register; 0 bits for ``ah`` to ``dh``."""
    known = _GENERAL.get(operand) if isinstance(operand, str) else None
    return (known[0], 0 if known[2] else known[1]) if known is not None else None


def _changes(instruction: Instruction) -> Iterator[str]:
    mnemonic, operands = instruction.mnemonic, instruction.operands
    fixed = (CALLER_SAVED if instruction.kind == "call" else ("rsp",) if instruction.kind == "return"
             else _FIXED_CHANGES.get(mnemonic))
    if fixed is not None:
        yield from fixed
        return
    if instruction.kind == "jump":
        return
    base = base_name(mnemonic)
    if base in _STRING and instruction.memory is not None:
        yield from _STRING[base]
        if any(prefix.startswith("rep") for prefix in instruction.prefixes):
            yield "rcx"
        if base != "lods":
            return
    if not operands or base in _ONLY_FLAGS or mnemonic.startswith(("nop", "prefetch")):
        return
    if len(operands) == 1 and base in ("mul", "imul", "div", "idiv"):
        yield "rax"
        if _width(operands) not in (0, 8) and not mnemonic.endswith("b"):
            yield "rdx"
        return
    if base == "cmpxchg":
        yield "rax"  # unless the comparison holds
    elif mnemonic in ("pop", "popw"):
        yield "rsp"
    elif _COMPARE_STRINGS.match(mnemonic):
        yield "rcx"
        return
    elif base == "xchg" and operands[0] == operands[-1] and _width(operands) != 32:
        return  # no effect, except that one of 32 bits sets the others to zero
    for operand in operands[-2:] if base in ("xchg", "xadd", "mulx") else operands[-1:]:
        if isinstance(operand, str) and operand in _GENERAL:
            yield _GENERAL[operand][0]


# -- what an instruction accesses ----------------------------------------------------------------------------------

_VECTOR = re.compile(r"(?:([xyz]?)mm|k)\d")
_VECTOR_BYTES = {"": 8, "x": 16, "y": 32}
# AVX-512, AVX10 and others whose encoding has the size of the memory operand
_NEWER = (r"\{|%[xy]mm(?:1[6-9]|2\d|3\d)|%zmm|%k\d|^\w+\d\dx\d|^v(?:\w*bf16|\w*sh2?\w* |\w*ph2|\w*ph "
          r"|cvt\w*u|cvt\w*qq|cvtsh|pmov(?:u?s)?(?:wb|db|qb|dw|qw|qd) |range|getexp|getmant|rndscale|reduce"
          r"|fpclass|scalef|fixupimm|p?compress|p?expand)")
_X87_STORES = re.compile(r"f(?:n?st|ist|bst|n?save|xsave)|xsave")
_SIZES = {"cmpxchg8b": 8, "cmpxchg16b": 16, "ldmxcsr": 4, "vldmxcsr": 4, "stmxcsr": 4, "vstmxcsr": 4, "xlat": 1,
          "call": 8, "jmp": 8, "callw": 2, "jmpw": 2}
# the first match is the size: bytes, or -N for an N-th of the vector register; compiled when they are needed
_VECTOR_SIZES = (
    (r"mov[lh]p[sd]", 8), (r"movd", 4), (r"movq", 8), (r"insertps|extractps", 4), (r"broadcastss", 4),
    (r"broadcastsd", 8), (r"(?:broadcast|extract|insert)[fi]128", 16), (r"cvtt?ss2\w+", 4), (r"cvtt?sd2\w+", 8),
    (r"cvtsi2s[sd]l", 4), (r"cvtsi2s[sd]q", 8), (r"cvtpi2p[sd]", 8), (r"cvtt?pd2(?:pi|(?:ps|dq)x?)", 16),
    (r"cvtt?pd2(?:ps|dq)y", 32), (r"cvtp[sh]2p[shd]|cvtdq2pd", -2), (r"pcmp[ei]str[im]\w?", 16),
    (r"p(?:insr|extr|broadcast)b", 1), (r"p(?:insr|extr|broadcast)w", 2), (r"p(?:insr|extr|broadcast)d", 4),
    (r"p(?:insr|extr|broadcast)q", 8), (r"p?gather[dq](?:ps|d)", 4), (r"p?gather[dq](?:pd|q)", 8),
    (r"pmov[sz]x(?:bw|wd|dq)", -2), (r"pmov[sz]x(?:bd|wq)", -4), (r"pmov[sz]xbq", -8),
    (r"(?!p)\w*ss", 4), (r"(?!p)\w*sd", 8),
)
_SHIFT = re.compile(r"v?ps(?:ll|rl|ra)[wdq]$")


def _vector_width(operands: Sequence[Operand]) -> int:
    """Bytes of the widest vector register, 0 if there is none."""
    names = [_VECTOR.match(operand) for operand in operands if isinstance(operand, str)]
    return max((_VECTOR_BYTES.get(match[1], 0) for match in names if match), default=0)


def _vector_size(instruction: Instruction) -> int | None:
    """Bytes of the memory operand of a vector instruction."""
    mnemonic, width = instruction.mnemonic, _vector_width(instruction.operands)
    if re.search(_NEWER, instruction.text):
        return None
    if _SHIFT.match(mnemonic):
        return min(width, 16)  # the count
    if mnemonic.endswith("movddup"):
        return 8 if width == 16 else width
    for pattern, size in _VECTOR_SIZES:
        if re.match(f"v?(?:{pattern})$", mnemonic):
            return size if size > 0 else width // -size
    return width or None


def _size(instruction: Instruction, base: str) -> int | None:
    """Bytes that an instruction accesses at its memory operand."""
    mnemonic, operands = instruction.mnemonic, instruction.operands
    if mnemonic in _SIZES:
        return _SIZES[mnemonic]
    if mnemonic.startswith(("cvt", "vcvt")) or _has_vector(operands):
        return _vector_size(instruction)
    match = EXTEND.match(mnemonic)
    if match is not None:
        return _SUFFIXES[match[1]]
    if mnemonic.startswith("set"):
        return 1
    if mnemonic.startswith("crc32"):
        return _SUFFIXES.get(mnemonic[-1])
    register = next((operand for operand in reversed(operands) if isinstance(operand, str)), None)
    if base in ("bt", "bts", "btr", "btc") and register is not None:
        return None  # any part of a bit string
    if base in ("push", "pop"):
        return 2 if mnemonic.endswith("w") else 8
    if base in ("shl", "sal", "shr", "sar", "rol", "ror", "rcl", "rcr") and base != mnemonic:
        return _SUFFIXES[mnemonic[-1]]  # the register is a count
    if register is not None and not (base in ("ins", "outs") and register == "dx"):
        known = _GENERAL.get(register)
        if known is not None:
            return known[1] // 8 if mnemonic not in ("lar", "lsl", "movdir64b", "enqcmd") else None
        return 2 if register in ("cs", "ds", "es", "fs", "gs", "ss") else None
    return _SUFFIXES[mnemonic[-1]] if base != mnemonic else None


def _has_vector(operands: Sequence[Operand]) -> bool:
    return any(isinstance(operand, str) and _VECTOR.match(operand) for operand in operands)


def _kinds(instruction: Instruction, base: str, position: int) -> tuple[Literal["read", "write"], ...]:
    """The kinds of access to the memory operand at a position."""
    operands, mnemonic = instruction.operands, instruction.mnemonic
    if base in ("xchg", "xadd"):
        return "read", "write"
    if position < len(operands) - 1 or base in _READS or mnemonic.startswith("crc32"):
        return ("read",)
    if base in _WRITES or mnemonic.startswith("set") or _has_vector(operands) or _X87_STORES.match(mnemonic):
        return ("write",)
    return ("read",) if mnemonic.startswith(("f", "xrstor")) else ("read", "write")


def _accesses(instruction: Instruction) -> Iterator[Access]:
    mnemonic, operands = instruction.mnemonic, instruction.operands
    if mnemonic in _NO_ACCESS or mnemonic.startswith("prefetch"):
        return
    base = base_name(mnemonic)
    # pop computes the address of its destination after it has raised the stack pointer
    taken = 0
    if base == "pop" or mnemonic in ("popf", "popfw"):
        taken = 2 if mnemonic.endswith("w") or _width(operands) == 16 else 8
        yield Access("read", MemoryOperand(None, 0, "rsp"), taken)
    elif mnemonic in ("ret", "retw"):
        yield Access("read", MemoryOperand(None, 0, "rsp"), 2 if mnemonic == "retw" else 8)
    elif mnemonic == "leave":
        yield Access("read", MemoryOperand(None, 0, "rbp"), 8)
    elif mnemonic in ("maskmovdqu", "vmaskmovdqu", "maskmovq"):
        yield Access("write", MemoryOperand(None, 0, "rdi"), 8 if mnemonic == "maskmovq" else 16)
    for position, operand in enumerate(operands):
        if isinstance(operand, MemoryOperand):
            size = _size(instruction, base)
            if taken and operand.base in ("rsp", "esp"):
                operand = replace(operand, displacement=operand.displacement + taken)
            elif mnemonic == "xlat":
                operand = replace(operand, index="al")
            for kind in _kinds(instruction, base, position):
                yield Access(kind, operand, size)
    if base == "push" or mnemonic in ("pushf", "pushfw", "enter", "call"):
        size = 2 if mnemonic.endswith("w") or base == "push" and _width(operands) == 16 else 8
        yield Access("write", MemoryOperand(None, -size, "rsp"), size)
    if mnemonic in ("call", "jmp") and operands and isinstance(operands[0], str):
        yield Access("execute", MemoryOperand(None, 0, operands[0]), None)


def _width(operands: Sequence[Operand]) -> int | None:
    """Bits of the first operand if that is a general register."""
    known = part(operands[0]) if operands else None
    return known[1] if known is not None else None


# older vector instructions whose memory operand is unaligned, or not as large as a register
_UNALIGNED = re.compile(r"mov(?:up[sd]|dqu)|lddqu|pcmp[ei]str[im]|mov[lh]p[sd]|movddup|maskmov")
_ALIGNED = re.compile(r"v?mov(?:ap[sd]|dqa|nt(?:p[sd]|dqa?))$")
