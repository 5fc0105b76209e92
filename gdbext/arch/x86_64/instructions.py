"""x86-64 instructions from the text of a disassembler: what they access, what they change, where a value came from.

The text is AT&T syntax as GDB's ``disassemble`` prints it, of any GDB version: older ones write ``callq`` and
``retq`` where newer ones write ``call`` and ``ret``. Pure functions on text; reading code and registers of a target
is for others.

Source: Intel SDM volume 2 (operands and sizes of each instruction) and volume 1 section 3.7 (operand addressing);
x86-64 psABI 1.0 section 3.2.1 (registers that a call preserves) and 3.2.3 (registers of arguments and results).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Literal, Union

from gdbext.record import record

_MASK = (1 << 64) - 1

#: Registers of the first six arguments that are integers or pointers, in order.
ARGUMENTS = ("rdi", "rsi", "rdx", "rcx", "r8", "r9")
#: General registers that a call may change, and those that it preserves.
CALLER_SAVED = frozenset({"rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11"})
CALLEE_SAVED = frozenset({"rbx", "rbp", "rsp", "r12", "r13", "r14", "r15"})


def _general_registers() -> Iterator[tuple[str, tuple[str, int, int]]]:
    for name in "abcd":
        whole = f"r{name}x"
        yield from ((whole, (whole, 64, 0)), (f"e{name}x", (whole, 32, 0)), (f"{name}x", (whole, 16, 0)),
                    (f"{name}l", (whole, 8, 0)), (f"{name}h", (whole, 8, 8)))
    for name in ("si", "di", "bp", "sp"):
        whole = f"r{name}"
        yield from ((whole, (whole, 64, 0)), (f"e{name}", (whole, 32, 0)), (name, (whole, 16, 0)),
                    (f"{name}l", (whole, 8, 0)))
    for number in range(8, 32):  # r16 and above: Intel APX
        whole = f"r{number}"
        yield from ((whole, (whole, 64, 0)), (f"{whole}d", (whole, 32, 0)), (f"{whole}w", (whole, 16, 0)),
                    (f"{whole}b", (whole, 8, 0)))


# name -> (64-bit register, bits, number of the lowest bit)
_GENERAL = dict(_general_registers())
# what stands for no index, printed where an encoding has a byte for one
_NO_INDEX = ("riz", "eiz")


def canonical(register: str) -> str:
    """The 64-bit name of a general register or of a part of it, as ``rax`` for ``eax``; other names as they are."""
    known = _GENERAL.get(register)
    if known is not None:
        return known[0]
    return "rip" if register == "eip" else register


@record
class MemoryOperand:
    """``segment:displacement(base,index,scale)``, with register names as printed, without ``%``.

    `displacement` is signed. An absolute address has neither `base` nor `index`. `index` may be a vector register
    (gather and scatter), and then there is no one address.
    """

    segment: str | None = None
    displacement: int = 0
    base: str | None = None
    index: str | None = None
    scale: int = 1

    @property
    def text(self) -> str:
        """The operand in AT&T syntax."""
        prefix = f"%{self.segment}:" if self.segment is not None else ""
        if self.base is None and self.index is None:
            return f"{prefix}{self.displacement & _MASK:#x}"
        shown = f"{self.displacement:#x}" if self.displacement or self.base is None else ""
        base = f"%{self.base}" if self.base is not None else ""
        index = f",%{self.index},{self.scale}" if self.index is not None else ""
        return f"{prefix}{shown}({base}{index})"

    @property
    def registers(self) -> frozenset[str]:
        """The registers that the address depends on, by 64-bit name; not ``rip``; ``fs_base`` for ``%fs:``."""
        used = {canonical(name) for name in (self.base, self.index) if name is not None and name not in _NO_INDEX}
        if self.segment in ("fs", "gs"):
            used.add(f"{self.segment}_base")
        return frozenset(used - {"rip"})

    def address(self, registers: Mapping[str, int], next_address: int) -> int | None:
        """The effective address, 64 bits, whether canonical or not.

        :param registers: values of registers by 64-bit name, ``fs_base`` and ``gs_base`` among them.
        :param next_address: where the next instruction begins, the value of ``%rip`` in an operand.
        :return: None if a register that it needs is not known.
        """
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


#: A register by name without ``%``, an immediate or the address that a branch leads to, or memory.
Operand = Union[str, int, MemoryOperand]


@record
class Access:
    """One access to memory; an instruction that reads, modifies and writes has two.

    `size` is in bytes, None where the text does not tell. Of a repeated string instruction it is one element, the one
    at today's registers. Vector elements that a mask leaves out are not accessed. ``execute`` is the fetch at the
    address in a register that a call or jump goes to.
    """

    kind: Literal["read", "write", "execute"]
    operand: MemoryOperand
    size: int | None = None


# -- text ----------------------------------------------------------------------------------------------------------

_PREFIX = re.compile(r"(?:lock|rep|repn?[ze]|bnd|notrack|data16|data32|addr32|addr16|[c-gs]s|rex(?:\.\w+)?"
                     r"|xacquire|xrelease|\{\w+\})$")
_PIECE = re.compile(r"(?:[^,(]|\([^)]*\))+")
_DECORATION = re.compile(r"\{[^}]*\}")
_MEMORY = re.compile(r"(?:%([c-gs]s):)?(-?(?:0x[0-9a-f]+|\d+))?"
                     r"(\((?:%(\w+))?(?:,%(\w+))?(?:,([1248]))?\))?$")
_REGISTER = re.compile(r"%[a-z]\w*(?:\(\d\))?$")
_BROADCAST = re.compile(r"\{1to(\d+)\}")

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


@record
class Instruction:
    """One instruction.

    `text` has one space between mnemonic and operands, and neither symbols nor comments. `mnemonic` is without prefixes
    and the same for all versions of GDB. `operands` are in AT&T order, the destination last; empty where the text of
    one is not understood. `symbol` is what GDB prints between ``<`` and ``>``, the name of a branch's target or of an
    address relative to ``%rip``.
    """

    address: int
    size: int
    text: str
    mnemonic: str
    operands: tuple[Operand, ...] = ()
    prefixes: tuple[str, ...] = ()
    symbol: str | None = None

    @property
    def next_address(self) -> int:
        """Where the next instruction begins."""
        return self.address + self.size

    @property
    def memory(self) -> MemoryOperand | None:
        """The first operand that is written as memory, accessed or not (``lea``)."""
        return next((operand for operand in self.operands if isinstance(operand, MemoryOperand)), None)

    @property
    def is_call(self) -> bool:
        """Whether it is a call, direct or not."""
        return self.mnemonic in _CALLS

    @property
    def is_jump(self) -> bool:
        """Whether it is a jump, conditional or not, direct or not."""
        return self.mnemonic in _JUMPS

    @property
    def is_return(self) -> bool:
        """Whether it returns."""
        return self.mnemonic in _RETURNS

    @property
    def call_target(self) -> int | None:
        """The address that a direct call calls, which may be a stub of the procedure linkage table."""
        return self._target() if self.mnemonic in _CALLS else None

    @property
    def jump_target(self) -> int | None:
        """The address that a direct jump leads to."""
        return self._target() if self.mnemonic in _JUMPS else None

    def _target(self) -> int | None:
        return self.operands[0] if self.operands and isinstance(self.operands[0], int) else None

    @property
    def falls_through(self) -> bool:
        """Whether the next instruction may run after it; a call of a function known not to return does not."""
        if self.mnemonic in _ENDS:
            return False
        return not (self.mnemonic in _CALLS and self.symbol is not None and _NO_RETURN.match(self.symbol))

    @property
    def aligned(self) -> int | None:
        """To how many bytes the memory operand must be aligned, or a general-protection exception is raised.

        Source: Intel SDM volume 1 section 11.4.1.1 and 14.9, and the instructions' exception types in volume 2.
        """
        return _alignment(self) if self.memory is not None else None

    @cached_property
    def _changes(self) -> tuple[tuple[str, int], ...]:
        return tuple(_changes(self))

    def written(self) -> frozenset[str]:
        """The general registers that it changes, by 64-bit name.

        A call changes what the ABI lets it change; ``rsp`` is afterwards as before. Of an unknown instruction it is
        the last operand.
        """
        return frozenset(name for name, _ in self._changes)

    def accesses(self) -> tuple[Access, ...]:
        """Accesses to memory, explicit and implicit, in the order in which they are made.

        A prefetch and a ``nop`` make none. The address of ``bt``, ``bts``, ``btr`` and ``btc`` with a register is only
        where the bit string begins: their size is None.
        """
        return tuple(_accesses(self))


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
    """An instruction from its text.

    :param address: of the instruction.
    :param size: of the instruction, in bytes.
    :param text: as GDB prints it after the address, with or without symbols and comment. Text that is not understood
        makes an instruction without operands.
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
    "ror", "rcl", "rcr", "shld", "shrd", "xadd", "xchg", "cmpxchg", "cmpxchg8b", "cmpxchg16b", "bts", "btr", "btc",
    "aadd", "aand", "aor", "axor"})
_WRITES = frozenset({
    "mov", "movabs", "movbe", "movnti", "movdiri", "pop", "stmxcsr", "vstmxcsr", "sgdt", "sidt", "sldt", "str",
    "smsw", "movs", "stos", "ins", "xsave", "xsave64", "xsavec", "xsavec64", "xsaveopt", "xsaveopt64", "xsaves",
    "xsaves64", "fxsave", "fxsave64"})
_READS = frozenset({
    "cmp", "test", "bt", "push", "call", "jmp", "ljmp", "lcall", "mul", "imul", "div", "idiv", "ldmxcsr", "vldmxcsr",
    "lgdt", "lidt", "lldt", "ltr", "lmsw", "verr", "verw", "fxrstor", "fxrstor64", "xrstor", "xrstor64", "xrstors",
    "xrstors64", "clflush", "clflushopt", "clwb", "ptwrite", "cmps", "outs", "invlpg", "out", "xlat"})
_NO_ACCESS = frozenset({
    "lea", "nop", "nopw", "nopl", "endbr64", "cldemote", "ud0", "ud1", "invlpg", "bndmk", "bndcl", "bndcu", "bndcn"})
_ONLY_FLAGS = frozenset({
    "cmp", "test", "bt", "out", "wrfsbase", "wrgsbase", "ptwrite", "invlpg", "verr", "verw", "lldt", "ltr", "lmsw",
    "umonitor", "tpause", "umwait", "movdir64b"})
_NAMES = _MODIFIES | _WRITES | _READS | frozenset(_STRING)
_EXTEND = re.compile(r"mov[sz]([bwl])[wlq]$")
_FIXED_CHANGES: dict[str, tuple[str, ...]] = {
    "cltq": ("rax",), "cwtl": ("rax",), "cbtw": ("rax",), "lahf": ("rax",), "xlat": ("rax",), "int": ("rax",),
    "cqto": ("rdx",), "cltd": ("rdx",), "cwtd": ("rdx",), "rdtsc": ("rax", "rdx"), "rdtscp": ("rax", "rdx", "rcx"),
    "rdpmc": ("rax", "rdx"), "rdmsr": ("rax", "rdx"), "xgetbv": ("rax", "rdx"), "cpuid": ("rax", "rbx", "rcx", "rdx"),
    "syscall": ("rax", "rcx", "r11"), "sysenter": ("rax", "rcx", "rdx", "rsp", "rbp"), "xbegin": ("rax",),
    "xend": (), "leave": ("rsp", "rbp"), "enter": ("rsp", "rbp"), "push": ("rsp",), "pushf": ("rsp",),
    "popf": ("rsp",), "pushw": ("rsp",), "pushfw": ("rsp",), "popfw": ("rsp",), "vmcall": ("rax",),
    "loop": ("rcx",), "loope": ("rcx",), "loopne": ("rcx",), "loopz": ("rcx",), "loopnz": ("rcx",),
    "cmpxchg8b": ("rax", "rdx"), "cmpxchg16b": ("rax", "rdx"), "mwait": (), "monitor": (), "rdpkru": ("rax", "rdx"),
    "encls": ("rax", "rbx", "rcx", "rdx"), "enclu": ("rax", "rbx", "rcx", "rdx"),
}
_PARTIAL_CHANGES = {"cwtl": 32, "cltd": 32, "cbtw": 16, "cwtd": 16, "lahf": 0, "xlat": 8}
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
    return base in _STRING and any(isinstance(operand, MemoryOperand) for operand in instruction.operands)


def _changes(instruction: Instruction) -> Iterator[tuple[str, int]]:
    mnemonic, operands = instruction.mnemonic, instruction.operands
    if mnemonic in _CALLS:
        for name in CALLER_SAVED:
            yield name, 64
        return
    if mnemonic in _RETURNS:
        yield "rsp", 64
        return
    fixed = _FIXED_CHANGES.get(mnemonic)
    if fixed is not None:
        for name in fixed:
            yield name, _PARTIAL_CHANGES.get(mnemonic, 64)
        return
    if mnemonic in _JUMPS:
        return
    base = _base(mnemonic)
    if _is_string(instruction, base):
        for name in _STRING[base]:
            yield name, 64
        if instruction.prefixes and any(prefix.startswith("rep") for prefix in instruction.prefixes):
            yield "rcx", 64
        if base != "lods":
            return
    if not operands or base in _ONLY_FLAGS or mnemonic.startswith(("nop", "prefetch")):
        return
    if len(operands) == 1 and base in ("mul", "imul", "div", "idiv"):
        part = _part(operands[0])
        byte = part is not None and part[1] in (0, 8) or mnemonic.endswith("b")
        yield "rax", 16 if byte else 64
        if not byte:
            yield "rdx", 64
        return
    if base == "cmpxchg":
        yield "rax", 0  # as it was where the comparison holds
    elif mnemonic in ("pop", "popw"):
        yield "rsp", 64
    elif _COMPARE_STRINGS.match(mnemonic):
        yield "rcx", 32
        return
    elif base == "xchg" and operands[0] == operands[-1] and (_part(operands[0]) or ("", 0))[1] != 32:
        return  # does nothing; of 32 bits, it sets the rest to zero
    changed = operands[-2:] if base in ("xchg", "xadd", "mulx") else operands[-1:]
    for operand in changed:
        part = _part(operand)
        if part is not None:
            yield part


# -- what an instruction accesses ----------------------------------------------------------------------------------

_VECTOR = re.compile(r"(?:([xyz]?)mm|k)\d")
_VECTOR_BYTES = {"": 8, "x": 16, "y": 32, "z": 64}
_X87_STORES = re.compile(r"f(?:n?st|ist|bst|n?save)")
_SIZES = {
    "cmpxchg8b": 8, "cmpxchg16b": 16, "fxsave": 512, "fxsave64": 512, "fxrstor": 512, "fxrstor64": 512, "ldmxcsr": 4,
    "vldmxcsr": 4, "stmxcsr": 4, "vstmxcsr": 4, "fldcw": 2, "fnstcw": 2, "fnstsw": 2, "fldenv": 28, "fnstenv": 28,
    "frstor": 108, "fnsave": 108, "fbld": 10, "fbstp": 10, "sgdt": 10, "sidt": 10, "lgdt": 10, "lidt": 10, "sldt": 2,
    "str": 2, "smsw": 2, "lldt": 2, "ltr": 2, "lmsw": 2, "lar": 2, "lsl": 2, "verr": 2, "verw": 2, "xlat": 1,
    "clflush": 1, "clflushopt": 1, "clwb": 1, "movdir64b": 64, "call": 8, "jmp": 8, "callw": 2, "jmpw": 2, "fstcw": 2,
    "fstsw": 2, "fstenv": 28, "fsave": 108,
}
_FLOAT = re.compile(r"f(i?)(?:(?<=i)(?:ld|stp|sttp)(ll)|\w*([slt]))$")
_FLOAT_SIZES = {("", "s"): 4, ("", "l"): 8, ("", "t"): 10, ("i", "s"): 2, ("i", "l"): 4, ("i", "ll"): 8}
_ELEMENTS = {"b": 1, "w": 2, "d": 4, "q": 8}
# bytes, whatever the registers; the first that matches
_VECTOR_SIZES = tuple((re.compile(pattern + "$"), size) for pattern, size in (
    (r"mov[lh]p[sd]", 8), (r"movd", 4), (r"movq", 8), (r"insertps|extractps", 4), (r"movntss", 4), (r"movntsd", 8),
    (r"broadcastss", 4), (r"broadcastsd", 8), (r"(?:broadcast|extract|insert)[fi](?:128|32x4|64x2)", 16),
    (r"broadcast[fi]32x2", 8), (r"(?:broadcast|extract|insert)[fi](?:32x8|64x4)", 32),
    (r"cvtt?ss2\w+", 4), (r"cvtt?sd2\w+", 8), (r"cvtu?si2s[sdh]l", 4), (r"cvtu?si2s[sdh]q", 8), (r"cvtpi2p[sd]", 8),
    (r"cvtt?pd2pi", 16),
    (r"psll[wdq]|psrl[wdq]|psra[wdq]", 16), (r"pcmp[ei]str[im]\w?", 16),
))
_PACKED_ELEMENT = re.compile(r"p(?:insr|extr|broadcast)([bwdq])$")
_GATHER = re.compile(r"(?:p?(?:gather|scatter)[dq](?:p([sd])|([dq])))$")
_WIDEN = re.compile(r"pmov[sz]x(bw|bd|bq|wd|wq|dq)$")
_NARROW = re.compile(r"pmov(?:u?s)?(wb|db|qb|dw|qw|qd)$")
_SCALAR = re.compile(r"(?!p)\w*s([sdh])$")
_SCALAR_SIZES = {"s": 4, "d": 8, "h": 2}
_HALF = re.compile(r"cvt(?:ps2pd|u?dq2pd|ph2psx?|t?ps2u?qq|pd2ps|t?pd2u?dq|u?qq2ps)$")
_FROM_64 = re.compile(r"v?cvtt?(?:pd|u?qq)2")


def _vector_width(operands: Sequence[Operand]) -> int:
    """Bytes of the widest vector register, 0 if there is none."""
    widest = 0
    for operand in operands:
        match = _VECTOR.match(operand) if isinstance(operand, str) else None
        if match is not None and match[1] is not None:
            widest = max(widest, _VECTOR_BYTES[match[1]])
    return widest


def _vector_size(instruction: Instruction, memory: MemoryOperand) -> int | None:
    """Bytes of the memory operand of a vector instruction."""
    mnemonic, operands = instruction.mnemonic, instruction.operands
    name = mnemonic[1:] if mnemonic.startswith("v") else mnemonic
    width = _vector_width(operands)
    if name.startswith("kmov"):
        return _ELEMENTS.get(name[4:5])
    if name == "movddup":
        return 8 if width == 16 else width
    if name.startswith(("psll", "psrl", "psra")) and (width == 8 or operands[0] is not memory):
        return width  # what is shifted, not the count
    for pattern, size in _VECTOR_SIZES:
        if pattern.match(name):
            return size
    match = _PACKED_ELEMENT.match(name)
    if match is not None:
        return _ELEMENTS[match[1]]
    match = _GATHER.match(name)
    if match is not None:
        return 4 if match[1] == "s" or match[2] == "d" else 8
    match = _WIDEN.match(name)
    if match is not None:
        return width * _ELEMENTS[match[1][0]] // _ELEMENTS[match[1][1]]
    match = _NARROW.match(name)
    if match is not None:
        return width * _ELEMENTS[match[1][1]] // _ELEMENTS[match[1][0]]
    if name == "cvtps2ph":
        return width // 2
    if name.startswith("cvt") and name[-1] in "xyz" and name[-2] in "sqh":  # cvtpd2psx: the source tells the two apart
        return _VECTOR_BYTES[name[-1]]
    if name.startswith("fpclassp") and name[-1] in "xyz":
        return _VECTOR_BYTES[name[-1]]
    match = _HALF.match(name)
    if match is not None:
        if _FROM_64.match(mnemonic):  # to a register half as wide as the source
            return width if mnemonic == name else width * 2
        return width // 2
    match = _SCALAR.match(name)
    if match is not None:
        return _SCALAR_SIZES[match[1]]
    return width or None


def _size(instruction: Instruction, base: str, memory: MemoryOperand) -> int | None:
    """Bytes that an instruction accesses at its memory operand."""
    mnemonic, operands = instruction.mnemonic, instruction.operands
    size = _SIZES.get(mnemonic)
    if size is not None:
        return size
    if mnemonic.startswith(("cvt", "vcvt")) or any(
            isinstance(operand, str) and _VECTOR.match(operand) for operand in operands):
        size = _vector_size(instruction, memory)
        broadcast = _BROADCAST.search(instruction.text) if size is not None else None
        if size is None or broadcast is None:
            return size
        return 8 if _FROM_64.match(mnemonic) else size // int(broadcast[1])
    match = _EXTEND.match(mnemonic)
    if match is not None and not _is_string(instruction, base):
        return _SUFFIXES[match[1]]
    if mnemonic.startswith("set"):
        return 1
    if mnemonic.startswith("crc32"):
        return _SUFFIXES.get(mnemonic[-1])
    if mnemonic.startswith("f"):
        match = _FLOAT.match(mnemonic)
        return _FLOAT_SIZES.get((match[1], match[2] or match[3])) if match is not None else None
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
            return known[1] // 8
        return 2 if register in ("cs", "ds", "es", "fs", "gs", "ss") else None
    return _SUFFIXES[mnemonic[-1]] if base != mnemonic else None


def _kinds(instruction: Instruction, base: str, position: int) -> tuple[Literal["read", "write"], ...]:
    """What is done to the memory operand at a position."""
    operands, mnemonic = instruction.operands, instruction.mnemonic
    if base in ("xchg", "xadd"):
        return "read", "write"
    if position < len(operands) - 1:
        return ("read",)
    if base in _READS or mnemonic.startswith("crc32"):
        return ("read",)
    if base in _WRITES or mnemonic.startswith("set") or any(
            isinstance(operand, str) and _VECTOR.match(operand) for operand in operands):
        return ("write",)
    if mnemonic.startswith("f"):
        return ("write",) if _X87_STORES.match(mnemonic) else ("read",)
    return "read", "write"


def _stack(kind: Literal["read", "write"], displacement: int, size: int) -> Access:
    return Access(kind, MemoryOperand(None, displacement, "rsp"), size)


def _accesses(instruction: Instruction) -> Iterator[Access]:
    mnemonic, operands = instruction.mnemonic, instruction.operands
    if mnemonic in _NO_ACCESS or mnemonic.startswith("prefetch"):
        return
    base = _base(mnemonic)
    # the stack pointer is raised before the address of pop's destination is worked out
    taken = 0
    if base == "pop" or mnemonic in ("popf", "popfw"):
        narrow = mnemonic.endswith("w") or _width(operands) == 16
        taken = 2 if narrow else 8
        yield _stack("read", 0, taken)
    elif mnemonic in ("ret", "retw"):
        yield _stack("read", 0, 2 if mnemonic == "retw" else 8)
    elif mnemonic == "leave":
        yield Access("read", MemoryOperand(None, 0, "rbp"), 8)
    elif mnemonic in ("maskmovdqu", "vmaskmovdqu", "maskmovq"):
        yield Access("write", MemoryOperand(None, 0, "rdi"), 8 if mnemonic == "maskmovq" else 16)
    for position, operand in enumerate(operands):
        if isinstance(operand, MemoryOperand):
            size = _size(instruction, base, operand)
            if taken and operand.base in ("rsp", "esp"):
                operand = replace(operand, displacement=operand.displacement + taken)
            elif mnemonic == "xlat":
                operand = replace(operand, index="al")
            for kind in _kinds(instruction, base, position):
                yield Access(kind, operand, size)
    if base == "push" or mnemonic in ("pushf", "pushfw", "enter"):
        narrow = mnemonic.endswith("w") or base == "push" and _width(operands) == 16
        yield _stack("write", -2 if narrow else -8, 2 if narrow else 8)
    elif mnemonic == "call":
        yield _stack("write", -8, 8)
    elif mnemonic == "movdir64b" and operands and isinstance(operands[-1], str):
        yield Access("write", MemoryOperand(None, 0, operands[-1]), 64)
    if mnemonic in ("call", "jmp") and operands and isinstance(operands[0], str):
        yield Access("execute", MemoryOperand(None, 0, operands[0]), None)


def _width(operands: Sequence[Operand]) -> int | None:
    """Bits of the only operand if that is a general register."""
    part = _part(operands[0]) if operands else None
    return part[1] if part is not None else None


# unaligned ones, and those whose memory operand is not a whole register, among the older vector instructions
_UNALIGNED = re.compile(r"mov(?:up[sd]|dqu)|lddqu|pcmp[ei]str[im]|mov[lh]p[sd]|movddup|maskmov")
_ALIGNED = re.compile(r"v?mov(?:ap[sd]|dqa(?:32|64)?|nt(?:p[sd]|dqa?))$")
_ALIGNED_64 = frozenset({"xsave", "xsave64", "xsavec", "xsavec64", "xsaveopt", "xsaveopt64", "xsaves", "xsaves64",
                         "xrstor", "xrstor64", "xrstors", "xrstors64"})


def _alignment(instruction: Instruction) -> int | None:
    mnemonic = instruction.mnemonic
    if mnemonic in _ALIGNED_64:
        return 64
    if mnemonic in ("cmpxchg16b", "fxsave", "fxsave64", "fxrstor", "fxrstor64", "cvtpd2pi", "cvttpd2pi"):
        return 16
    width = _vector_width(instruction.operands)
    if _ALIGNED.match(mnemonic):
        return width or None
    memory = instruction.memory
    if mnemonic.startswith("v") or width != 16 or memory is None or _UNALIGNED.match(mnemonic):
        return None
    # an operand of 16 bytes of an instruction in legacy encoding
    return 16 if _vector_size(instruction, memory) == 16 else None


# -- where a value came from ---------------------------------------------------------------------------------------

@record
class Origin:
    """Where the value of a register came from.

    ``loaded`` from memory, the ``result`` of a call, an ``argument`` (1 to 6) of the function, a ``constant`` (its
    `value`; an address relative to ``%rip`` is one), or ``computed`` by an instruction, with `operand` that of ``lea``.

    `certain` is False where another way through the code may have brought another value. `copies` are the registers
    that it was moved through, the latest move first. `bits` is how many of the lowest bits came through: fewer than
    were asked for after a move of a part, so that a pointer that was cut to 32 bits shows.

    `operand_unchanged` says that the registers of `operand` have the same values still, so that its address can be
    worked out from the registers at the place of use. The memory may have changed.
    """

    kind: Literal["loaded", "result", "argument", "constant", "computed"]
    instruction: Instruction | None = None
    operand: MemoryOperand | None = None
    argument: int | None = None
    value: int | None = None
    certain: bool = True
    copies: tuple[str, ...] = ()
    bits: int = 64
    operand_unchanged: bool = False


# the function's first instruction and code that no known jump leads to have these in place of a predecessor
_ENTRY, _UNKNOWN = -1, -2


class _Flow:
    """Which instruction may run before which."""

    def __init__(self, instructions: Sequence[Instruction], from_entry: bool) -> None:
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
        while self._is_filler(self.instructions[at]) and at not in self.jumps and at > 0:
            at -= 1
            if not self.instructions[at].falls_through:
                return True
        return False

    @staticmethod
    def _is_filler(instruction: Instruction) -> bool:
        return instruction.mnemonic in _PADDING or instruction.text == "xchg %ax,%ax"

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
        return any(name == register for name, _ in self.instructions[place]._changes)

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


def origin(instructions: Sequence[Instruction], index: int, register: str, *, from_entry: bool = True) -> Origin | None:
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


def _moved(instruction: Instruction, register: str) -> tuple[str, int, int] | None:
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


def _made(instruction: Instruction, register: str, bits: int) -> Origin | None:
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
