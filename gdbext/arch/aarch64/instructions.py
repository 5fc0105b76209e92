"""arm64 instructions from the text of a disassembler: their accesses and changes.

The text is that of GDB's ``disassemble``, or of `disassembler`. Of vector instructions only loads and stores are known.

Source: Arm ARM (DDI 0487) C3 (instructions by their purpose), C6.2 (each general instruction).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Literal, Optional

from gdbext.arch import protocol
from gdbext.arch.aarch64.registers import CALLER_SAVED, GENERAL, LINK, RESULT, STACK_POINTER, without_tag
from gdbext.arch.no_return import does_not_return
from gdbext.arch.protocol import Access, Assignment, Condition, Exchange, Kind, Operand
from gdbext.record import record

# name -> (whole register, bits)
_PARTS: dict[str, tuple[str, int]] = {**{name: (name, 64) for name in GENERAL}, "lr": (LINK, 64), "wsp": ("sp", 32),
                                      **{f"w{number}": (f"x{number}", 32) for number in range(31)}}
_ZERO = frozenset({"xzr", "wzr"})


def canonical(register: str) -> str:
    """The name of a whole general register of which this is a part; other names as they are."""
    return _PARTS[register][0] if register in _PARTS else register


def part(operand: Operand) -> tuple[str, int] | None:
    """(whole register, bits from the lowest on) of a general register."""
    return _PARTS.get(operand) if isinstance(operand, str) else None


@record
class MemoryOperand(protocol.MemoryOperand):
    """``[base, #displacement]`` or ``[base, index, lsl #shift]``; without a base the address is `displacement`.

    `moves` is what the access adds to the base register, before it if `before`. None: the register is kept, or, with
    `moves_by_register`, a register is added. `is_signed`: the index is a signed number of 32 bits.
    """

    moves: int | None = None
    before: bool = False
    moves_by_register: bool = False
    is_signed: bool = False

    @property
    def text(self) -> str:
        if self.base is None:
            return f"{self.displacement:#x}"
        if self.index is not None:
            narrow = self.index.startswith("w")
            extended = ("sxtw" if self.is_signed else "uxtw") if narrow else "lsl"
            shift = f" #{self.scale.bit_length() - 1}" if self.scale > 1 else ""
            return f"[{self.base}, {self.index}{f', {extended}{shift}' if narrow or shift else ''}]"
        return f"[{self.base}{f', #{self.displacement}' if self.displacement else ''}]"

    @property
    def address_registers(self) -> Sequence[str]:
        return list(dict.fromkeys(canonical(name) for name in (self.base, self.index) if name is not None))

    @property
    def registers(self) -> frozenset[str]:
        """The registers that the address depends on."""
        return frozenset(self.address_registers)

    def simple(self, next_address: int) -> tuple[str | None, int] | None:
        if self.index is not None:
            return None
        return (self.base, self.displacement) if self.base in GENERAL or self.base is None else None

    def address(self, registers: Mapping[str, int], next_address: int) -> int | None:
        total = self.displacement
        for name, scale in ((self.base, 1), (self.index, self.scale)):
            if name in _ZERO or name is None:
                continue
            whole, bits = _PARTS.get(name, ("", 0))
            if whole not in registers:
                return None
            value = registers[whole] & (1 << bits) - 1
            total += (value - (1 << bits) if self.is_signed and bits == 32 and value >> 31 else value) * scale
        return without_tag(total)


# -- text ----------------------------------------------------------------------------------------------------------

_PIECE = re.compile(r"(?:[^,\[{]|\[[^\]]*\]|\{[^}]*\})+")
_NUMBER = re.compile(r"#?(-?(?:0x[0-9a-f]+|\d+))$")
_MEMORY = re.compile(r"\[(\w+)(?:,\s*(?:#(-?(?:0x[0-9a-f]+|\d+))"
                     r"|(\w+)(?:,\s*(lsl|uxtw|sxtw|sxtx)(?:\s*#((?:0x)?\d+))?)?))?\](!?)$")
_MODIFIER = re.compile(r"(?:lsl|lsr|asr|ror|msl|[us]xt[bhwx])(?:\s+#(?:0x)?[\da-f]+)?$")
_WORD = re.compile(r"(?:[a-z]\w*(?:\.\w+)?(?:/[zm])?(?:\[\d+\])?|#-?\d+\.\d+(?:e[-+]\d+)?)$")
_VECTORS = re.compile(r"\{[^}]*\}(?:\[\d+\])?$")
_CALLS = frozenset({"bl", "blr", "blraa", "blrab", "blraaz", "blrabz"})
_JUMPS = re.compile(r"b(?:\.\w\w)?$|cbn?z$|tbn?z$|br(?:a[ab]z?)?$|bc\.\w\w$")
_RETURNS = frozenset({"ret", "retaa", "retab", "eret", "eretaa", "eretab"})
_FILLERS = frozenset({"nop", "bti", "hint", "yield"})
_ENDS = re.compile(r"(?:b|br(?:a[ab]z?)?|ret\w*|eret\w*|udf|\.\w+|undefined)$")
_CONDITIONS: dict[str, Condition] = {"eq": "equal", "ne": "unequal", "hi": "above", "ls": "not above"}
#: The numbers that compilers put into ``brk`` where code must not get to: GCC, and LLVM and Rust.
_TRAPS = (1000, 1)
_STORE = re.compile(r"st(?!g)|cas|swp|cpy|set[pme]")
_COMPARES = frozenset({"cmp", "cmn", "tst", "ccmp", "ccmn", "fcmp", "fcmpe", "fccmp", "fccmpe"})
_WITHOUT_TARGET = re.compile(r"(?:nop|prfu?m|dmb|dsb|isb|sb|msr|dc|ic|tlbi|at|clrex|hlt|hvc|smc|brk|yield|wfe|wfi"
                             r"|sevl?|bti|stg\w*|st2g|stzg\w*|stzgm|sys|esb|csdb|psb|ssbb|pssbb)$")
_ON_LINK = re.compile(r"(?:pac|aut)i[ab](?:sp|z|1716)$|xpaclri$")
_PLAIN_LOADS = frozenset({"ldr", "ldur", "ldar", "ldapr", "ldapur", "ldp", "ldnp"})
_PLAIN_STORES = frozenset({"str", "stur", "stlr", "stlur", "stp", "stnp"})
_EXCLUSIVE_STORE = re.compile(r"stl?x[rp][bh]?$")
_ATOMIC = re.compile(r"(?:casp?|swpp?|ld(?:add|clr|set|eor|[su]max|[su]min))(?:al?|l)?[bh]?$")
_ATOMIC_STORE = re.compile(r"st(?:add|clr|set|eor|[su]max|[su]min)l?[bh]?$")
_NO_ACCESS = re.compile(r"prfu?m|adrp?$|pac|aut|ldg$|irg")
_SCALARS = {"b": 1, "h": 2, "s": 4, "d": 8, "q": 16, "w": 4, "x": 8, "sp": 8}
_ELEMENTS = {"b": 1, "h": 2, "s": 4, "d": 8}


def _number(text: str) -> int | None:
    match = _NUMBER.match(text)
    return int(match[1], 0) if match is not None else None


@lru_cache(maxsize=8192)
def _operand(text: str) -> Operand | None:
    """A register, an immediate or memory; None if the text is not understood."""
    number = _number(text)
    if number is not None:
        return number
    match = _MEMORY.match(text)
    if match is None:
        name = text[:-1] if text.endswith("!") else text
        return name if _WORD.match(name) or _VECTORS.match(name) else None
    base, displacement, index, extended, shift, moves = match.groups()
    distance = int(displacement, 0) if displacement is not None else 0
    return MemoryOperand(None, distance, canonical(base), index, 1 << int(shift or "0", 0),
                         moves=distance if moves else None, before=bool(moves), is_signed=extended == "sxtw")


def _operands(mnemonic: str, text: str) -> tuple[Operand, ...]:
    found: list[Operand] = []
    for piece in map(str.strip, _PIECE.findall(text)):
        if _MODIFIER.match(piece):
            continue
        operand = _operand(piece)
        if operand is None:
            return ()
        last = found[-1] if found else None
        if isinstance(last, MemoryOperand) and not mnemonic.startswith("cpy"):
            if isinstance(operand, int):
                found[-1] = replace(last, moves=operand)
            elif operand in GENERAL:
                found[-1] = replace(last, moves_by_register=True)
            else:
                return ()
            continue
        found.append(operand)
    if (mnemonic in ("ldr", "ldrsw", "prfm") and len(found) == 2 and isinstance(found[1], int)):
        found[1] = MemoryOperand(None, found[1])
    is_store = _STORE.match(mnemonic) is not None or mnemonic.startswith("msr")
    return tuple(found if is_store else reversed(found))


class Instruction(protocol.Instruction):
    """An instruction. Stores have their `operands` in the order of the text, other instructions reversed."""

    @property
    def alignment(self) -> int | None:
        return None  # the kernel says so, by a signal of its own

    @property
    def is_shifted(self) -> bool:
        """Whether an operand is shifted or extended."""
        return any(_MODIFIER.match(piece.strip()) for piece in _PIECE.findall(self.text.partition(" ")[2]))

    @cached_property
    def comparison(self) -> tuple[Operand, Operand | None] | None:
        if self.mnemonic != "cmp" or len(self.operands) != 2 or self.is_shifted:
            return None
        first, second = self.operands
        return first, second if second in GENERAL else None

    @property
    def tests_lowest_bit(self) -> str | None:
        return None

    @property
    def stored_condition(self) -> tuple[str, Condition] | None:
        if self.mnemonic != "cset" or len(self.operands) != 2:
            return None
        condition, target = _CONDITIONS.get(str(self.operands[0])), part(self.operands[1])
        return (target[0], condition) if condition in ("equal", "unequal") and target is not None else None

    @property
    def narrow_copy(self) -> tuple[str, str] | None:
        if self.mnemonic != "mov" or len(self.operands) != 2:
            return None
        source, target = (part(operand) for operand in self.operands)
        if source is None or target is None or (source[1], target[1]) != (32, 32):
            return None
        return source[0], target[0]

    @property
    def exchange(self) -> Exchange | None:
        return None  # of exclusive loads and stores no single instruction is one

    def part(self, operand: Operand) -> tuple[str, int] | None:
        return part(operand)

    @cached_property
    def read(self) -> frozenset[str]:
        if self.mnemonic == "svc" or not self.operands and " " in self.text:
            return frozenset(GENERAL)
        found: set[str] = set()
        is_made = _makes_first(self.mnemonic) and self.mnemonic not in ("movk", "bfi", "bfxil")
        for operand in self.operands[:-1] if is_made else self.operands:
            if isinstance(operand, MemoryOperand):
                found.update(operand.address_registers)
            elif operand in GENERAL:
                found.add(str(operand))
        return frozenset(found)

    def _iter_changes(self) -> Iterator[str]:
        return _changes(self)

    def _iter_accesses(self) -> Iterator[Access]:
        return _accesses(self)

    def _find_assignments(self) -> tuple[Assignment, ...] | None:
        mnemonic, operands = self.mnemonic, self.operands
        if mnemonic in _PLAIN_LOADS or mnemonic in _PLAIN_STORES:
            return _moves(mnemonic in _PLAIN_LOADS, operands)
        made = _assignment(self)
        return (made,) if made is not None else None


def _moves(is_load: bool, operands: Sequence[Operand]) -> tuple[Assignment, ...] | None:
    """The assignments of a load or store of one or two whole registers."""
    memory = next((operand for operand in operands if isinstance(operand, MemoryOperand)), None)
    names = [operand for operand in operands if isinstance(operand, str)]
    if is_load:
        names.reverse()
    if memory is None or memory.moves_by_register or not names or any(
            name not in GENERAL and name != "xzr" for name in names):
        return None
    moved = Assignment(str(memory.base), str(memory.base), memory.moves or 0) if memory.moves is not None else None
    first = replace(memory, displacement=0 if memory.before else memory.displacement, moves=None, before=False)
    made = []
    for number, name in enumerate(names):
        place = replace(first, displacement=first.displacement + 8 * number)
        if not is_load:
            made.append(Assignment(place, 0 if name == "xzr" else name))
        elif name != "xzr":
            made.append(Assignment(name, place))
    # a register that is the base of the other load is loaded last
    made.sort(key=lambda each: is_load and each.target == memory.base)
    if moved is None:
        return tuple(made)
    return (moved, *made) if memory.before else (*made, moved)


def _assignment(instruction: Instruction) -> Assignment | None:
    mnemonic, operands = instruction.mnemonic, instruction.operands
    target = part(operands[-1]) if len(operands) > 1 else None
    if target is None:
        return None
    whole, bits = target
    source = operands[0]
    if mnemonic in ("mov", "adr", "adrp", "movz") and len(operands) == 2:
        if isinstance(source, int) and not instruction.is_shifted:
            return Assignment(whole, source & (1 << bits) - 1)
        if source in _ZERO:
            return Assignment(whole, 0)
        return Assignment(whole, source) if bits == 64 and source in GENERAL else None
    if mnemonic in ("add", "sub") and len(operands) == 3 and isinstance(source, int) and bits == 64:
        distance = source << 12 if instruction.is_shifted else source
        return Assignment(whole, operands[1], distance if mnemonic == "add" else -distance) \
            if operands[1] in GENERAL else None
    return None


_Parsed = tuple[str, str, tuple[Operand, ...], tuple[str, ...], Optional[str], Kind, bool, Optional[Condition]]


@lru_cache(maxsize=8192)
def _parsed(text: str) -> _Parsed:
    code = text.partition("//")[0]
    symbol = None
    if "<" in code:
        code, _, rest = text.partition("<")
        symbol = rest[:rest.rindex(">")] if ">" in rest else None
    code = " ".join(code.split())
    mnemonic, _, rest = code.partition(" ")
    operands = _operands(mnemonic, rest) if rest else ()
    kind: Kind = "other"
    if mnemonic in _CALLS:
        kind = "call"
    elif _JUMPS.match(mnemonic):
        kind = "jump"
    elif mnemonic in _RETURNS:
        kind = "return"
    elif mnemonic in _FILLERS:
        kind = "filler"
    elif mnemonic == "brk" and operands and operands[0] in _TRAPS:
        kind = "trap"
    elif mnemonic in ("udf", ".inst", "undefined"):
        kind = "undefined"
    falls_through = kind != "trap" and not _ENDS.match(mnemonic) and not (
        kind == "call" and symbol is not None and does_not_return(symbol))
    condition = _CONDITIONS.get(mnemonic[2:]) if mnemonic.startswith("b.") else None
    return code, mnemonic, operands, (), symbol, kind, falls_through, condition


def parse(address: int, size: int, text: str) -> Instruction:
    """Parse an instruction; text that is not understood makes one without operands.

    :param size: of the instruction, in bytes.
    :param text: as GDB prints it after the address, with or without symbols and comment.
    """
    return Instruction(address, size, *_parsed(text))


# -- what an instruction changes and accesses ----------------------------------------------------------------------

def _makes_first(mnemonic: str) -> bool:
    """Whether the first operand of the text is what an instruction makes."""
    return not (mnemonic in _COMPARES or mnemonic in _CALLS or _STORE.match(mnemonic) or _JUMPS.match(mnemonic)
                or mnemonic in _RETURNS or _WITHOUT_TARGET.match(mnemonic))


def _changes(instruction: Instruction) -> Iterator[str]:
    mnemonic, operands, memory = instruction.mnemonic, instruction.operands, instruction.memory
    if instruction.kind == "call":
        yield from CALLER_SAVED
        return
    if not operands:
        if " " in instruction.text and instruction.kind not in ("jump", "return"):
            yield from (name for name in GENERAL if name != STACK_POINTER)
        elif _ON_LINK.match(mnemonic):
            yield "x17" if mnemonic.endswith("1716") else LINK
        return
    if mnemonic == "svc":
        yield RESULT
    if isinstance(memory, MemoryOperand) and (memory.moves is not None or memory.moves_by_register):
        yield str(memory.base)
    made: Sequence[Operand] = ()
    if mnemonic.startswith(("cpy", "set")) and len(operands) == 3 and "!" in instruction.text:
        made = operands
    elif mnemonic.startswith("casp"):
        made = operands[:2]
    elif _EXCLUSIVE_STORE.match(mnemonic) or mnemonic.startswith("cas"):
        made = operands[:1]
    elif _ATOMIC.match(mnemonic):
        made = operands[1:2]
    elif _makes_first(mnemonic):
        # a load of two registers makes all that is before the memory in the text
        is_pair = mnemonic.startswith(("ldp", "ldnp", "ldxp", "ldaxp"))
        made = operands[-2:] if is_pair else operands[-1:]
    for operand in made:
        found = part(operand) if isinstance(operand, str) else None
        if found is not None:
            yield found[0]


def _size(mnemonic: str, operands: Sequence[Operand]) -> int | None:
    """Bytes that an instruction accesses at its memory operand."""
    names = [operand for operand in operands if isinstance(operand, str)]
    if mnemonic == "ldpsw":
        return 8
    if mnemonic.startswith("ld") and mnemonic.endswith("sw"):
        return 4
    plain = re.match(r"(?:ld|st|cas|swp)\w*?(b|h)$", mnemonic)
    if plain is not None and not (names and names[0][:1] in "qdsv{"):
        return _ELEMENTS[plain[1]]
    if _EXCLUSIVE_STORE.match(mnemonic):
        names = names[1:]
    if not names:
        return None
    if names[0].startswith("{"):
        return _vectors(names[0])
    first = names[0] if names[0] in ("sp",) else names[0][:1]
    size = _SCALARS.get(first)
    is_pair = re.match(r"(?:ld|st)(?:n|a?x|lx)?p|casp", mnemonic) is not None
    return 2 * size if size is not None and is_pair else size


def _vectors(text: str) -> int | None:
    """Bytes of a list of vectors, or of one element of each."""
    inner, _, lane = text.partition("}")
    found = re.findall(r"v\d+\.(\d*)([bhsd])", inner)
    spread = re.search(r"v(\d+)\.\w+\s*-\s*v(\d+)", inner)
    if not found:
        return None
    count = (int(spread[2]) - int(spread[1])) % 32 + 1 if spread is not None else len(found)
    element = _ELEMENTS[found[0][1]]
    return count * element * (1 if lane else int(found[0][0] or 1))


def _accesses(instruction: Instruction) -> Iterator[Access]:
    mnemonic, operands, memory = instruction.mnemonic, instruction.operands, instruction.memory
    if _NO_ACCESS.match(mnemonic):
        return
    if instruction.kind in ("call", "jump") and operands and isinstance(operands[0], str) and mnemonic[0] == "b":
        yield Access("execute", MemoryOperand(None, 0, canonical(operands[0])), None)
        return
    if mnemonic == "dc" and len(operands) == 2 and isinstance(operands[0], str):
        if operands[1] == "zva":
            yield Access("write", MemoryOperand(None, 0, canonical(operands[0])), None)
        return
    if memory is None or not isinstance(memory, MemoryOperand):
        return
    kinds: tuple[Literal["read", "write"], ...] = ("read",)
    if _ATOMIC.match(mnemonic) or _ATOMIC_STORE.match(mnemonic):
        kinds = "read", "write"
    elif _STORE.match(mnemonic):
        kinds = ("write",)
    # the copy of memory of one instruction accesses both of its operands
    size = _size(mnemonic, operands)
    for kind in kinds:
        yield Access(kind, memory, size)
