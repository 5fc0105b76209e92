"""x86-64 instructions from the text of a disassembler: what they access, what they change, where a value came from.

The text is AT&T syntax as GDB's ``disassemble`` prints it, of any GDB version: older ones write ``callq`` and
``retq`` where newer ones write ``call`` and ``ret``. Pure functions on text. Instructions of x87 and AVX-512 have
accesses of unknown size.

Source: Intel SDM volume 2 (operands and sizes of each instruction) and volume 1 section 3.7 (operand addressing).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Literal

from gdbext.arch import protocol
from gdbext.arch.protocol import Access, Assignment, Operand, Origin
from gdbext.arch.x86_64.registers import ARGUMENTS, CALLER_SAVED, GENERAL

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
# what stands for no index, printed where an encoding has a byte for one
_NO_INDEX = ("riz", "eiz")


def canonical(register: str) -> str:
    """The 64-bit name of a general register or of a part of it, as ``rax`` for ``eax``; other names as they are."""
    known = _GENERAL.get(register)
    if known is not None:
        return known[0]
    return "rip" if register == "eip" else register


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
    def base_register(self) -> str | None:
        name = canonical(self.base or self.index or "")
        return name if name and name != "rip" else None

    @property
    def address_registers(self) -> Sequence[str]:
        used = dict.fromkeys(canonical(name) for name in (self.base, self.index) if name is not None)
        return [name for name in used if name not in ("rip", *_NO_INDEX)]

    @property
    def registers(self) -> frozenset[str]:
        segment = [f"{self.segment}_base"] if self.segment in ("fs", "gs") else []
        return frozenset([*self.address_registers, *segment])

    def simple(self, next_address: int) -> tuple[str | None, int] | None:
        if self.segment in ("fs", "gs") or self.index not in (None, *_NO_INDEX):
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
            elif name not in _NO_INDEX:
                whole, bits, lowest = _GENERAL.get(name, ("", 0, 0))
                value = registers.get(whole)
                if value is None:
                    return None
                total += (value >> lowest & (1 << bits) - 1) * scale
            narrow = narrow or name in ("eip", "eiz") or _GENERAL.get(name, ("", 64))[1] == 32
        if narrow:
            total &= 0xFFFFFFFF
        if self.segment in ("fs", "gs"):
            start = registers.get(f"{self.segment}_base")
            if start is None:
                return None
            total += start
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
_CONDITIONAL = frozenset({f"j{condition}" for condition in _CONDITIONS}
                         | {"jcxz", "jecxz", "jrcxz", "loop", "loope", "loopne", "loopz", "loopnz", "xbegin"})
_JUMPS = _CONDITIONAL | {"jmp", "jmpw", "ljmp"}
_CALLS = frozenset({"call", "callw", "lcall"})
_BRANCHES = _JUMPS | _CALLS
_RETURNS = frozenset({"ret", "retw", "lret", "iret", "iretq", "iretl", "iretw", "sysret", "sysretl", "sysretq"})
_CONDITION_OF: dict[str, Literal["equal", "unequal", "above", "not above"]] = {
    "je": "equal", "jne": "unequal", "ja": "above", "jbe": "not above"}
# what runs on nowhere
_ENDS = _RETURNS | {"jmp", "jmpw", "ljmp", "ud2", "ud1", "ud0", "hlt", "(bad)"}
_PADDING = frozenset({"nop", "nopw", "nopl", "int3"})

# functions that do not return, as far as their names say so: mangled, demangled, through a stub
_NO_RETURN = re.compile(
    r"(?:(?:__GI_)?_*(?:abort|exit|Exit|quick_exit|pthread_exit|stack_chk_fail(?:_local)?|fortify_fail|chk_fail"
    r"|longjmp(?:_chk)?|siglongjmp|assert\w*_fail\w*|assert|libc_fatal|libc_message|libc_assert_fail|malloc_assert"
    r"|cxa_(?:re)?throw\w*|cxa_bad_(?:cast|typeid)|cxa_pure_virtual|cxa_call_unexpected|cxa_call_terminate"
    r"|clang_call_terminate|Unwind_Resume|rust_start_panic|Py_FatalError\w*|err|errx|verr|verrx)"
    r"|_*Py_Fatal\w*|std::__throw_\w+\(.*\)|_ZSt\d+__throw_\w+|std::terminate\(\)|_ZSt9terminatev"
    r"|_ZN4core(?:9panicking|6option1\dexpect_failed|6option13unwrap_failed|6result13unwrap_failed|5slice5index\d+slice_)"
    r"\w+(?:\.llvm\.\d+)?|core::(?:panicking|(?:option|result)::(?:unwrap|expect)_failed).*"
    r"|_ZN5alloc5alloc18handle_alloc_error\w+|_ZN3std9panicking\w*panic\w+|rust_panic\w*)(?:@.*|\.part\.\d+|\.cold)?$")


@lru_cache(maxsize=8192)
def _operand(text: str) -> Operand | None:
    """A register, an immediate or memory; None where the text is none of them."""
    first = text[:1]
    if first == "*":
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
    if mnemonic in _BRANCHES and text[:1] != "*":
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
    """An instruction in AT&T syntax."""

    @property
    def is_call(self) -> bool:
        return self.mnemonic in _CALLS

    @property
    def is_jump(self) -> bool:
        return self.mnemonic in _JUMPS

    @property
    def is_return(self) -> bool:
        return self.mnemonic in _RETURNS

    @property
    def is_filler(self) -> bool:
        return self.mnemonic in _PADDING or self.text == "xchg %ax,%ax"

    @property
    def is_trap(self) -> bool:
        return self.mnemonic == "ud2"

    @property
    def is_undefined(self) -> bool:
        return self.mnemonic == "(bad)"

    @property
    def is_signed_division(self) -> bool:
        return self.mnemonic.startswith("idiv")

    @property
    def falls_through(self) -> bool:
        if self.mnemonic in _ENDS:
            return False
        return not (self.mnemonic in _CALLS and self.symbol is not None and _NO_RETURN.match(self.symbol))

    @property
    def aligned(self) -> int | None:
        """See `protocol.Instruction.aligned`.

        Source: Intel SDM volume 1 section 11.4.1.1 and 14.9, and the instructions' exception types in volume 2.
        """
        return _alignment(self) if self.memory is not None else None

    @property
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
    def condition(self) -> Literal["equal", "unequal", "above", "not above"] | None:
        return _CONDITION_OF.get(self.mnemonic)

    def part(self, operand: Operand) -> tuple[str, int] | None:
        return _part(operand)

    @cached_property
    def _written(self) -> frozenset[str]:
        return frozenset(_changes(self))

    def written(self) -> frozenset[str]:
        """See `protocol.Instruction.written`; of an unknown instruction it is the last operand."""
        return self._written

    def accesses(self) -> tuple[Access, ...]:
        """See `protocol.Instruction.accesses`.

        The address of ``bt``, ``bts``, ``btr`` and ``btc`` with a register is only where the bit string begins.
        """
        return tuple(_accesses(self))

    def assignments(self) -> tuple[Assignment, ...] | None:
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
        part = _part(target)
        if part is not None and part[1] == 32 and isinstance(source, int):
            return Assignment(part[0], source & 0xFFFFFFFF)
        if isinstance(target, MemoryOperand) and (source in GENERAL or mnemonic == "movq"):
            return Assignment(target, source)
    elif mnemonic == "xor" and source == target and _part(target):
        return Assignment(canonical(str(target)), 0, sets_flags=True)
    elif whole is None:
        return None
    elif mnemonic == "lea" and isinstance(source, MemoryOperand):
        return Assignment(whole, source, is_address=True)
    elif mnemonic in ("add", "addq", "sub", "subq") and isinstance(source, int):
        distance = source - (1 << 64) if source >> 63 else source
        return Assignment(whole, whole, distance if mnemonic.startswith("add") else -distance, sets_flags=True)
    return None


@lru_cache(maxsize=8192)
def _parsed(text: str) -> tuple[str, str, tuple[Operand, ...], tuple[str, ...], str | None]:
    # operands have neither character; symbols may have both
    code, mark, rest = text.partition("#")
    symbol = None
    if "<" in code:
        code, _, rest = text.partition("<")
    elif mark:
        rest = rest.partition("<")[2]
    if rest and ">" in rest:
        symbol = rest[:rest.rindex(">")]
    words = code.split()
    if not words:
        return "", "", (), (), symbol
    code = " ".join(words)
    first, last = 0, len(words) - 1
    while first < last and _PREFIX.match(words[first]):
        first += 1
    mnemonic = words[first].partition(",")[0]  # ja,pt: a hint at the branch's likely way
    mnemonic = _OLD_NAMES.get(mnemonic, mnemonic)
    operands: tuple[Operand, ...] = ()
    if first < last and mnemonic[0] not in "(.":
        operands = _operands(mnemonic, "".join(words[first + 1:]))
    return code, mnemonic, operands, tuple(words[:first]), symbol


def parse(address: int, size: int, text: str) -> Instruction:
    """An instruction from its text; text that is not understood makes one without operands.

    :param size: of the instruction, in bytes.
    :param text: as GDB prints it after the address, with or without symbols and comment.
    """
    code, mnemonic, operands, prefixes, symbol = _parsed(text)
    return Instruction(address, size, code, mnemonic, operands, prefixes, symbol)


# -- what an instruction changes -----------------------------------------------------------------------------------

_SUFFIXES = {"b": 1, "w": 2, "l": 4, "q": 8}
_STRING = {"movs": ("rsi", "rdi"), "cmps": ("rsi", "rdi"), "stos": ("rdi",), "lods": ("rsi",), "scas": ("rdi",),
           "ins": ("rdi",), "outs": ("rsi",)}
# by what they do to their last operand
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
_EXTEND = re.compile(r"mov[sz]([bwl])[wlq]$")
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


def _base(mnemonic: str) -> str:
    """The mnemonic without the suffix of its operand size."""
    if mnemonic not in _NAMES and mnemonic[-1:] in _SUFFIXES and mnemonic[:-1] in _NAMES:
        return mnemonic[:-1]
    return mnemonic


def _part(operand: Operand) -> tuple[str, int] | None:
    """(64-bit register, bits from the lowest on) of a general register; no bits for ``ah`` and the like."""
    known = _GENERAL.get(operand) if isinstance(operand, str) else None
    return (known[0], 0 if known[2] else known[1]) if known is not None else None


def _is_string(instruction: Instruction, base: str) -> bool:
    return base in _STRING and instruction.memory is not None


def _changes(instruction: Instruction) -> Iterator[str]:
    mnemonic, operands = instruction.mnemonic, instruction.operands
    if mnemonic in _CALLS:
        yield from CALLER_SAVED
        return
    if mnemonic in _RETURNS:
        yield "rsp"
        return
    if mnemonic in _FIXED_CHANGES:
        yield from _FIXED_CHANGES[mnemonic]
        return
    if mnemonic in _JUMPS:
        return
    base = _base(mnemonic)
    if _is_string(instruction, base):
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
        yield "rax"  # as it was where the comparison holds
    elif mnemonic in ("pop", "popw"):
        yield "rsp"
    elif _COMPARE_STRINGS.match(mnemonic):
        yield "rcx"
        return
    elif base == "xchg" and operands[0] == operands[-1] and _width(operands) != 32:
        return  # does nothing; of 32 bits, it sets the rest to zero
    for operand in operands[-2:] if base in ("xchg", "xadd", "mulx") else operands[-1:]:
        part = _part(operand)
        if part is not None:
            yield part[0]


# -- what an instruction accesses ----------------------------------------------------------------------------------

_VECTOR = re.compile(r"(?:([xyz]?)mm|k)\d")
_VECTOR_BYTES = {"": 8, "x": 16, "y": 32}
# AVX-512, AVX10 and what else has an encoding of its own for the size of its memory operand
_NEWER = re.compile(r"\{|%[xy]mm(?:1[6-9]|2\d|3\d)|%zmm|%k\d|^\w+\d\dx\d|^v(?:\w*bf16|\w*sh2?\w* |\w*ph2|\w*ph "
                    r"|cvt\w*u|cvt\w*qq|cvtsh|pmov(?:u?s)?(?:wb|db|qb|dw|qw|qd) |range|getexp|getmant|rndscale|reduce"
                    r"|fpclass|scalef|fixupimm|p?compress|p?expand)")
_X87_STORES = re.compile(r"f(?:n?st|ist|bst|n?save|xsave)|xsave")
_SIZES = {"cmpxchg8b": 8, "cmpxchg16b": 16, "ldmxcsr": 4, "vldmxcsr": 4, "stmxcsr": 4, "vstmxcsr": 4, "xlat": 1,
          "call": 8, "jmp": 8, "callw": 2, "jmpw": 2}
# the first that matches: bytes, or in how many parts of a vector register it fits, as a number below 0
_VECTOR_SIZES = tuple((re.compile(f"v?(?:{pattern})$"), size) for pattern, size in (
    (r"mov[lh]p[sd]", 8), (r"movd", 4), (r"movq", 8), (r"insertps|extractps", 4), (r"broadcastss", 4),
    (r"broadcastsd", 8), (r"(?:broadcast|extract|insert)[fi]128", 16), (r"cvtt?ss2\w+", 4), (r"cvtt?sd2\w+", 8),
    (r"cvtsi2s[sd]l", 4), (r"cvtsi2s[sd]q", 8), (r"cvtpi2p[sd]", 8), (r"cvtt?pd2(?:pi|(?:ps|dq)x?)", 16),
    (r"cvtt?pd2(?:ps|dq)y", 32), (r"cvtp[sh]2p[shd]|cvtdq2pd", -2), (r"pcmp[ei]str[im]\w?", 16),
    (r"p(?:insr|extr|broadcast)b", 1), (r"p(?:insr|extr|broadcast)w", 2), (r"p(?:insr|extr|broadcast)d", 4),
    (r"p(?:insr|extr|broadcast)q", 8), (r"p?gather[dq](?:ps|d)", 4), (r"p?gather[dq](?:pd|q)", 8),
    (r"pmov[sz]x(?:bw|wd|dq)", -2), (r"pmov[sz]x(?:bd|wq)", -4), (r"pmov[sz]xbq", -8),
    (r"(?!p)\w*ss", 4), (r"(?!p)\w*sd", 8),
))
_SHIFT = re.compile(r"v?ps(?:ll|rl|ra)[wdq]$")


def _vector_width(operands: Sequence[Operand]) -> int:
    """Bytes of the widest vector register, 0 if there is none."""
    names = [_VECTOR.match(operand) for operand in operands if isinstance(operand, str)]
    return max((_VECTOR_BYTES.get(match[1], 0) for match in names if match), default=0)


def _vector_size(instruction: Instruction) -> int | None:
    """Bytes of the memory operand of a vector instruction."""
    mnemonic, width = instruction.mnemonic, _vector_width(instruction.operands)
    if _NEWER.search(instruction.text):
        return None
    if _SHIFT.match(mnemonic):
        return min(width, 16)  # the count
    if mnemonic.endswith("movddup"):
        return 8 if width == 16 else width
    for pattern, size in _VECTOR_SIZES:
        if pattern.match(mnemonic):
            return size if size > 0 else width // -size
    return width or None


def _size(instruction: Instruction, base: str) -> int | None:
    """Bytes that an instruction accesses at its memory operand."""
    mnemonic, operands = instruction.mnemonic, instruction.operands
    if mnemonic in _SIZES:
        return _SIZES[mnemonic]
    if mnemonic.startswith(("cvt", "vcvt")) or _has_vector(operands):
        return _vector_size(instruction)
    match = _EXTEND.match(mnemonic)
    if match is not None and not _is_string(instruction, base):
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
    """What is done to the memory operand at a position."""
    operands, mnemonic = instruction.operands, instruction.mnemonic
    if base in ("xchg", "xadd"):
        return "read", "write"
    if position < len(operands) - 1:
        return ("read",)
    if base in _READS or mnemonic.startswith("crc32"):
        return ("read",)
    if base in _WRITES or mnemonic.startswith("set") or _has_vector(operands) or _X87_STORES.match(mnemonic):
        return ("write",)
    if mnemonic.startswith(("f", "xrstor")):
        return ("read",)
    return "read", "write"


def _accesses(instruction: Instruction) -> Iterator[Access]:
    mnemonic, operands = instruction.mnemonic, instruction.operands
    if mnemonic in _NO_ACCESS or mnemonic.startswith("prefetch"):
        return
    base = _base(mnemonic)
    # the stack pointer is raised before the address of pop's destination is worked out
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
    part = _part(operands[0]) if operands else None
    return part[1] if part is not None else None


# unaligned ones, and those whose memory operand is not a whole register, among the older vector instructions
_UNALIGNED = re.compile(r"mov(?:up[sd]|dqu)|lddqu|pcmp[ei]str[im]|mov[lh]p[sd]|movddup|maskmov")
_ALIGNED = re.compile(r"v?mov(?:ap[sd]|dqa|nt(?:p[sd]|dqa?))$")


def _alignment(instruction: Instruction) -> int | None:
    mnemonic = instruction.mnemonic
    if mnemonic in ("cmpxchg16b", "cvtpd2pi", "cvttpd2pi"):
        return 16
    width = _vector_width(instruction.operands)
    if _ALIGNED.match(mnemonic):
        return width or None
    if mnemonic.startswith("v") or width != 16 or _UNALIGNED.match(mnemonic):
        return None
    # an operand of 16 bytes of an instruction in legacy encoding
    return 16 if _vector_size(instruction) == 16 else None


# -- where a value came from ---------------------------------------------------------------------------------------

# the function's first instruction and code that no known jump leads to have these in place of a predecessor
_ENTRY, _UNKNOWN = -1, -2


class _Flow:
    """Which instruction may run before which."""

    def __init__(self, instructions: Sequence[protocol.Instruction], from_entry: bool) -> None:
        self.instructions = instructions
        self._start = _ENTRY if from_entry else _UNKNOWN
        places = {instruction.address: i for i, instruction in enumerate(instructions)}
        #: place -> places of the jumps that lead to it
        self.jumps: dict[int, list[int]] = {}
        indirect = []
        for i, instruction in enumerate(instructions):
            if instruction.mnemonic in _JUMPS:
                target = instruction.jump_target
                if target is None:
                    indirect.append(i)
                elif target in places:
                    self.jumps.setdefault(places[target], []).append(i)
        #: whether there is a jump that may lead anywhere in the function, such as that of a ``switch``
        self.computed = not all(self._leaves(i) for i in indirect)

    def _leaves(self, at: int) -> bool:
        """Whether an indirect jump is the last call of a function, not a ``switch``.

        That of a ``switch`` goes through a table, or to a sum of a table's entry and its address; compilers mark it
        with ``notrack`` where indirect branches are tracked. A call goes to a pointer at a fixed place, and often
        behind the removal of the stack frame.
        """
        instruction = self.instructions[at]
        if "notrack" in instruction.prefixes:
            return False
        if instruction.memory is not None:
            return instruction.memory.index is None
        part = _part(instruction.operands[0]) if instruction.operands else None
        above = self.above(at)
        if part is None or above is None:
            return False
        if above >= 0 and "rsp" in self.instructions[above].written():
            return True
        place = self._straight(at, part[0])
        if place is None or place == _UNKNOWN:
            return False
        if place == _ENTRY:
            return part[0] in ARGUMENTS
        made = _made(self.instructions[place], part[0], 64)
        if made is None or made.operand is None:
            return made is not None and made.kind == "result"
        return made.kind == "loaded" and made.operand.index is None

    def above(self, at: int) -> int | None:
        """The place from which straight code comes to a place."""
        if at == 0:
            return self._start
        before = at - 1
        if (self.instructions[before].falls_through and not self._is_padding(before)
                and (at == len(self.instructions)
                     or self.instructions[before].next_address == self.instructions[at].address)):
            return before
        return None

    def _is_padding(self, at: int) -> bool:
        """Whether an instruction only fills up, behind one that does not run on."""
        while self.instructions[at].is_filler and at not in self.jumps and at > 0:
            at -= 1
            if not self.instructions[at].falls_through:
                return True
        return False

    def before(self, at: int) -> list[int]:
        """All places from which a place is reached."""
        above = self.above(at)
        found = list(self.jumps.get(at, ()))
        if above is not None:
            found.append(above)
        return found or [_UNKNOWN]

    def definition(self, index: int, register: str) -> tuple[int, bool] | None:
        """(place of the instruction that set a register, or _ENTRY; whether that is the only one) before a place."""
        straight = self._straight(index, register)
        found: set[int] = set()
        seen = {index}
        todo = [index]
        while todo:
            for place in self.before(todo.pop()):
                if place < 0 or self._changes(place, register):
                    found.add(place)
                elif place not in seen:
                    seen.add(place)
                    todo.append(place)
        if straight is None:
            if len(found) != 1:
                return None
            straight = found.pop()
            found.add(straight)
        if straight == _UNKNOWN:
            return None
        certain = found == {straight}
        if certain and self.computed:
            run = range(straight + 1, index)
            certain = straight < index and index not in self.jumps and not any(
                i in self.jumps or self.instructions[i].mnemonic in _JUMPS for i in run)
        return straight, certain

    def _straight(self, index: int, register: str) -> int | None:
        """The definition that straight code before a place leads to; where that ends, the only jump to there."""
        at, seen = index, set()
        while at not in seen:
            seen.add(at)
            before = self.above(at)
            if before is None:
                jumps = self.jumps.get(at, ())
                if len(jumps) != 1:
                    return None
                before = jumps[0]
            if before < 0 or self._changes(before, register):
                return before
            at = before
        return None

    def _changes(self, place: int, register: str) -> bool:
        return register in self.instructions[place].written()

    def between(self, first: int, index: int) -> set[int]:
        """The places on all ways from one place to another that do not pass the first again."""
        after: dict[int, list[int]] = {}
        seen, todo = {index}, [index]
        while todo:
            at = todo.pop()
            for place in self.before(at):
                after.setdefault(place, []).append(at)
                if place >= 0 and place != first and place not in seen:
                    seen.add(place)
                    todo.append(place)
        passed: set[int] = set()
        todo = list(after.get(first, ()))
        while todo:
            at = todo.pop()
            # the place itself is passed only where a way leads from it back to it
            if at not in passed and at in after:
                passed.add(at)
                todo += after[at]
        return passed


def origin(instructions: Sequence[protocol.Instruction], index: int, register: str, *,
           from_entry: bool = True) -> Origin | None:
    """Where the value came from that a register has when an instruction begins.

    :param instructions: of one function, in the order of their addresses. Jumps from elsewhere into it, such as from
        its part that a compiler moved away as cold, are not known.
    :param index: of the instruction, which itself is not looked at; the number of instructions for the end.
    :param register: a general register or a part of it.
    :param from_entry: whether the first instruction is where the function begins, so that arguments are known there.
    :return: None where nothing is known. Where several ways lead to the instruction, the value of straight code before
        it is the one that is told, and it is not `certain`.

    The targets of computed jumps (``switch``) are not known: in a function that has one, only code without any
    jump from the value's origin to its use is `certain`.
    """
    known = _GENERAL.get(register)
    if known is None or not 0 <= index <= len(instructions):
        return None
    flow = _Flow(instructions, from_entry)
    name, bits = known[0], known[1] + known[2]
    at, certain = index, True
    copies: list[str] = []
    seen: set[tuple[int, str]] = set()
    while (at, name) not in seen:
        seen.add((at, name))
        definition = flow.definition(at, name)
        if definition is None:
            return None
        place, only = definition
        certain = certain and only
        if place == _ENTRY:
            if name not in ARGUMENTS:
                return None
            return Origin("argument", argument=ARGUMENTS.index(name) + 1, certain=certain, copies=tuple(copies),
                          bits=bits)
        instruction = instructions[place]
        moved = _moved(instruction, name)
        if moved is None or moved[2] < bits:
            found = _made(instruction, name, bits)
            if found is None:
                return None
            unchanged = found.operand is not None and not (
                found.operand.registers & instruction.written()
                or any(found.operand.registers & instructions[i].written() for i in flow.between(place, index)))
            return replace(found, certain=certain, copies=tuple(copies), bits=bits, operand_unchanged=unchanged)
        if moved[0] != name:
            copies.append(moved[0])
        name, bits, at = moved[0], min(bits, moved[1]), place
    return None


def _moved(instruction: protocol.Instruction, register: str) -> tuple[str, int, int] | None:
    """(source, bits that are moved, bits that are set) if an instruction only moves another register into this one."""
    mnemonic, operands = instruction.mnemonic, instruction.operands
    if mnemonic in ("cltq", "cwtl"):
        return ("rax", 32, 64) if mnemonic == "cltq" else ("rax", 16, 64)
    if len(operands) != 2:
        return None
    source, target = _part(operands[0]), _part(operands[1])
    if target is None or target[0] != register or target[1] == 0:
        return None
    width = 64 if target[1] >= 32 else target[1]
    if mnemonic == "lea":
        memory = operands[0]
        if (isinstance(memory, MemoryOperand) and memory.base is not None and memory.displacement == 0
                and (memory.index is None or memory.index in _NO_INDEX)):
            base = _part(memory.base)
            return (base[0], min(base[1], target[1]), width) if base is not None else None
        return None
    if source is None or source[1] == 0 or _base(mnemonic) != "mov" and not _EXTEND.match(mnemonic):
        return None
    return source[0], source[1], width


def _made(instruction: protocol.Instruction, register: str, bits: int) -> Origin | None:
    """The origin of a value that an instruction made, not moved."""
    mnemonic, operands = instruction.mnemonic, instruction.operands
    if mnemonic in _CALLS:
        return Origin("result", instruction) if register == "rax" else None
    computed = Origin("computed", instruction)
    part = _part(operands[-1]) if operands else None
    # a part that is less than what is asked for; what is set of 32 bits sets the rest to zero
    if part is None or part[0] != register or part[1] < min(bits, 32):
        return computed
    mask = (1 << part[1]) - 1
    base, source = _base(mnemonic), operands[0]
    if base == "pop" and len(operands) == 1:
        return Origin("loaded", instruction, MemoryOperand(None, 0, "rsp"))
    if len(operands) != 2:
        return computed
    if isinstance(source, MemoryOperand):
        if base in ("mov", "movabs") or _EXTEND.match(mnemonic):
            return Origin("loaded", instruction, source)
        if base == "lea":
            if source.base in ("rip", "eip"):
                return Origin("constant", instruction, value=(source.address({}, instruction.next_address) or 0) & mask)
            return Origin("computed", instruction, source)
    elif isinstance(source, int):
        value = source & mask
        if base in ("mov", "movabs") or base == "or" and value == mask or base == "and" and value == 0:
            return Origin("constant", instruction, value=value)
    elif base in ("xor", "sub") and source == operands[1]:
        return Origin("constant", instruction, value=0)
    return computed
