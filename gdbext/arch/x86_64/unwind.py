"""Unwinds native stacks by `.eh_frame`, computing the rule of each program counter once.

GDB's own unwinder reads debug information to find inlined calls and costs some 20 us a frame; a process of a
thousand Python threads has tens of thousands of frames at a few dozen program counters. Here a frame costs one
dictionary look-up and one read of the stack. Of DWARF expressions, those of linkage tables are understood, and those of
functions that align their stack: they find registers and the CFA through rbp. Unusual cases (other expressions, a
signal frame, code without a frame description, such as JIT code) raise `CannotUnwind`, and the caller uses the
debugger's unwinder instead.

Format: DWARF 5 section 6.4, Linux Standard Base 5.0 (`.eh_frame`, `.eh_frame_hdr`), x86-64 psABI 1.0 for the
register numbers.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Mapping, Sequence

from gdbext.arch.protocol import ExceptionTable
from gdbext.elf.dwarf_cursor import INDIRECT, OMITTED, DwarfCursor
from gdbext.errors import CorruptStructure, GdbextError, MemoryUnreadable, if_unreadable
from gdbext.inferior.cache import PAGE, read_u64
from gdbext.inferior.modules import TEMPLATES
from gdbext.inferior.protocol import Memory, Module
from gdbext.record import record

#: DWARF register numbers of x86-64.
_RDI, _RBP, _RSP, _RA = 5, 6, 7, 16
_CALLEE_SAVED = {3: "rbx", _RBP: "rbp", 12: "r12", 13: "r13", 14: "r14", 15: "r15"}
#: DW_CFA instructions by their byte: the effect, and the operands: unsigned, signed, a factored offset of either kind
#: (U, S).
_INSTRUCTIONS = {
    0x00: ("nop", ""), 0x05: ("offset", "uU"), 0x06: ("restore", "u"), 0x07: ("undefined", "u"), 0x08: ("same", "u"),
    0x09: ("register", "uu"), 0x0A: ("remember", ""), 0x0B: ("restore state", ""), 0x0C: ("cfa", "uu"),
    0x0D: ("cfa register", "u"), 0x0E: ("cfa offset", "u"), 0x11: ("offset", "uS"),
    0x12: ("cfa", "uS"), 0x13: ("cfa offset", "S"), 0x14: ("value", "uu"), 0x15: ("value", "us"), 0x2E: ("nop", "u")}
#: The same that have an expression: of the CFA, of the address where a register is saved, and of a register's value.
_CFA_EXPRESSION, _EXPRESSION, _VALUE_EXPRESSION = 0x0F, 0x10, 0x16
#: Operations of expressions: a register's value plus an offset, and the word at the address so far.
_BREG_RBP, _DEREF = 0x70 + _RBP, 0x06
#: The CFA in a linkage table: rsp + 8 + ((rip & 15 >= N) << 3), with the size N of the code of an entry that comes
#: before the end of its push instruction. Source: binutils bfd/elfxx-x86.c, elf_x86_64_eh_frame_lazy_plt.
_LINKAGE_CFA = re.compile(rb"\x77\x08\x80\x00\x3f\x1a([\x30-\x4f])\x2a\x33\x24\x22", re.DOTALL)
_SYSCALL = b"\x0f\x05"
_RULES = ("offset", "undefined", "same", "register", "value")
_ADVANCES = {0x02: 1, 0x03: 2, 0x04: 4}
#: Sizes that no real record exceeds, in bytes; a larger one means damaged data.
_MAX_RECORD = 1 << 16
#: A stack is at most this large; also the bound of one frame's size.
_MAX_FRAME = 1 << 26
#: The bytes below the stack pointer that a function may use; they keep their values when registers are popped. Source:
#: System V ABI for x86-64, 3.2.2.
_RED_ZONE = 128
#: How much of a stack is read at once.
_STACK_PIECE = 2048


class CannotUnwind(GdbextError):
    """This frame needs the debugger's unwinder."""


@record
class Rule:
    """How to get from a frame to its caller at one program counter.

    The canonical frame address is `cfa_offset` bytes above rsp, or above rbp if `from_rbp`; the return address
    is stored at it + `ra_offset`; the caller's rbp at it + `rbp_offset`, or unchanged if that is None. `outermost`
    marks the frame that has no caller.

    A function that aligns its stack stores the canonical frame address at rbp + `cfa_at`. Its caller's rbp is stored
    where rbp points, and other registers at rbp + the offsets of `near_rbp`.

    The return address of vfork is in the register `returns_in`, because its child uses the same stack.
    """

    from_rbp: bool
    cfa_offset: int
    ra_offset: int
    rbp_offset: int | None
    outermost: bool = False
    saved: tuple[tuple[str, int], ...] = ()
    lost: tuple[str, ...] = ()
    cfa_at: int | None = None
    near_rbp: tuple[tuple[str, int], ...] = ()
    returns_in: str | None = None


@record
class _Cie:
    """A common information entry.

    `personality` is the routine that handles exceptions: (whether its address is stored there, address).
    """

    code_align: int
    data_align: int
    pointer_encoding: int
    has_augmentation: bool
    is_signal: bool
    program: bytes
    personality: tuple[bool, int] | None
    table_encoding: int


@record
class _Description:
    """The frame description of the code from `start` to `end`: its instructions and augmentation data."""

    cie: _Cie
    start: int
    end: int
    program: DwarfCursor
    augmentation: DwarfCursor | None


def _pointer(cursor: DwarfCursor, encoding: int) -> int | None:
    """An encoded pointer, not followed if it is indirect; None for one that is left out or null."""
    if encoding == OMITTED:
        return None
    here = cursor.address + cursor.at
    value = cursor.encoded(encoding, 0)
    return value if value != (here if encoding & 0x70 == 0x10 else 0) else None


class Unwinder:
    """Unwinds the threads of one stop of one target.

    :param modules: all loaded files; those without ``.eh_frame_hdr`` cannot be unwound here.
    """

    def __init__(self, memory: Memory, modules: Sequence[Module]) -> None:
        self._memory = memory
        # programs put code into sections of any name
        self._headers = sorted(((section.start, section.end, header) for module in modules
                                for header in [module.section(".eh_frame_hdr")] if header is not None
                                for section in module.sections if section.name not in TEMPLATES),
                               key=lambda item: item[0])
        self._starts = [item[0] for item in self._headers]
        self._rules: dict[int, Rule | None] = {}
        self._cies: dict[int, _Cie] = {}
        self._functions: dict[int, tuple[int, int] | None] = {}
        self._entries: dict[int, bool] = {}

    def rule(self, pc: int) -> Rule:
        """The rule at a program counter (of a caller: its return address less one).

        :raises CannotUnwind: no frame description covers it, or an unusual one.
        """
        if pc not in self._rules:
            try:
                self._rules[pc] = self._find_rule(pc)
            except (CannotUnwind, CorruptStructure, MemoryUnreadable):
                self._rules[pc] = None
        rule = self._rules[pc]
        if rule is None:
            raise CannotUnwind(f"no usable frame description for {pc:#x}")
        return rule

    def _first_rule(self, registers: Mapping[str, int]) -> Rule:
        """The rule of the innermost frame.

        The frame description of `clone` and `clone3` ends before their system call. After it a new thread has a stack
        without callers, and the stack of the calling thread has the return address at its top: it waits there until a
        child that shares its memory calls execve. Source: glibc 2.36 sysdeps/unix/sysv/linux/x86_64/clone3.S.
        """
        pc, result = registers["rip"], registers.get("rax")
        try:
            return self.rule(pc)
        except CannotUnwind:
            before = self.function_range(pc - len(_SYSCALL) - 1)
            if (result is None or before is None or before[1] != pc - len(_SYSCALL)
                    or self._memory.read(before[1], len(_SYSCALL)) != _SYSCALL):
                raise
        return Rule(False, 8, -8, None, outermost=not result)

    def unwind(self, registers: Mapping[str, int], limit: int) -> list[tuple[int, int]]:
        """(program counter, stack pointer) of the frames, innermost first.

        :param registers: of the innermost frame.
        :param limit: most frames to walk; a longer stack is cut there.
        :raises CannotUnwind: some frame needs the debugger's unwinder.
        :raises MemoryUnreadable: the stack is not readable.
        """
        frames, error = self.walk(registers, limit)
        if error is not None:
            raise error
        return frames

    def walk(self, registers: Mapping[str, int], limit: int) -> tuple[list[tuple[int, int]], GdbextError | None]:
        """The frames as `unwind` has them, and why the walk ended before the outermost frame, None if it did not."""
        frames = [(registers["rip"], registers["rsp"])]
        try:
            self._walk(frames, registers, limit)
        except (CannotUnwind, MemoryUnreadable) as error:
            # the frames of a traceback hold the stack's contents, and thousands of threads wait for the same
            return frames, error.with_traceback(None)
        return frames, None

    def _walk(self, frames: list[tuple[int, int]], registers: Mapping[str, int], limit: int) -> None:
        """Append the callers of the innermost frame."""
        (pc, sp), bp = frames[0], registers.get("rbp", 0)
        rules = self._rules
        low = high = 0  # the part of the stack that `words` holds
        words: memoryview | bytes = b""
        inside = pc
        while len(frames) < limit:
            rule = rules.get(inside)
            if rule is None:
                rule = self.rule(inside) if len(frames) > 1 else self._first_rule(registers)
            if rule.outermost:
                break
            if rule.returns_in is not None:
                if len(frames) > 1 or rule.returns_in not in registers:
                    raise CannotUnwind(f"the caller of {inside:#x} is not known")
                pc, sp = registers[rule.returns_in], sp + rule.cfa_offset
                frames.append((pc, sp))
                inside = pc - 1
                continue
            cfa = ((bp if rule.from_rbp else sp) + rule.cfa_offset if rule.cfa_at is None
                   else self._near_rbp(bp, rule.cfa_at, sp))
            if not sp < cfa < sp + _MAX_FRAME or cfa & 7:
                raise CannotUnwind(f"the frame of {inside:#x} ends below where it starts")
            if not low <= sp or cfa > high:
                low, words = self._words(sp, cfa)
                high = low + 8 * len(words)
            place = cfa + rule.ra_offset - low >> 3
            saved = place if rule.rbp_offset is None else cfa + rule.rbp_offset - low >> 3
            # the innermost function may have taken registers from the stack already, to return
            is_popped = len(frames) == 1 and -_RED_ZONE <= 8 * saved < 0
            if not (0 <= place < len(words) and (is_popped or 0 <= saved < len(words))):
                raise CannotUnwind(f"the frame of {inside:#x} saves registers outside itself")
            pc = words[place]
            if pc == 0:
                break
            if rule.rbp_offset is not None:
                bp = words[saved] if not is_popped else self._word(cfa + rule.rbp_offset)
            elif rule.cfa_at is not None:
                bp = self._near_rbp(bp, 0, sp)
            sp = cfa
            frames.append((pc, sp))
            inside = pc - 1  # in the call: the code after it may be another function

    def frame_registers(self, registers: Mapping[str, int], index: int) -> dict[str, int]:
        """The registers of a frame that calls preserve, its program counter and its stack pointer.

        :param registers: of the innermost frame.
        :param index: the number of the frame; the innermost is 0.
        :return: unknown registers are left out; empty if the frame cannot be reached.
        """
        values = {name: registers[name] for name in ("rip", "rsp", *_CALLEE_SAVED.values()) if name in registers}
        try:
            for depth in range(index):
                rule = self.rule(values["rip"] - 1) if depth else self._first_rule(registers)
                base = values.get("rbp" if rule.from_rbp else "rsp")
                if rule.outermost or base is None:
                    return {}
                if rule.returns_in is not None:
                    if depth or rule.returns_in not in registers:
                        return {}
                    values["rip"], values["rsp"] = registers[rule.returns_in], values["rsp"] + rule.cfa_offset
                    continue
                cfa = (base + rule.cfa_offset if rule.cfa_at is None
                       else self._near_rbp(base, rule.cfa_at, values["rsp"]))
                if not values["rsp"] < cfa < values["rsp"] + _MAX_FRAME or cfa & 7:
                    return {}
                saved = rule.saved if rule.rbp_offset is None else (*rule.saved, ("rbp", rule.rbp_offset))
                for name, offset in rule.near_rbp:
                    values[name] = self._near_rbp(base, offset, values["rsp"])
                for name, offset in saved:
                    values[name] = self._word(cfa + offset)
                for name in rule.lost:
                    values.pop(name, None)
                values["rip"], values["rsp"] = self._word(cfa + rule.ra_offset), cfa
        except GdbextError:
            return {}
        return values

    def _word(self, address: int) -> int:
        return int.from_bytes(self._memory.read(address, 8), "little")

    def _near_rbp(self, bp: int, offset: int, sp: int) -> int:
        """The word at an offset from rbp, which must be in the frame that begins at the stack pointer."""
        if not sp <= bp + offset < sp + _MAX_FRAME:
            raise CannotUnwind(f"rbp is outside of the frame at {sp:#x}")
        return self._word(bp + offset)

    def _words(self, sp: int, cfa: int) -> tuple[int, memoryview]:
        """The stack from a stack pointer up to a frame's end at least, as 64-bit words.

        If the stack pointer is below the stack, as after an overflow, the part that is in the stack.
        """
        low = sp & ~7
        for first in (low, (low | PAGE - 1) + 1, cfa - 8 & -PAGE):
            for size in (max(_STACK_PIECE, cfa - first), cfa - first) if first < cfa else ():
                try:
                    return first, memoryview(self._memory.read(first, size & ~7)).cast("Q")
                except MemoryUnreadable:
                    continue
        raise MemoryUnreadable(low, cfa - low)

    def function_range(self, pc: int) -> tuple[int, int] | None:
        """Start and end of the function that covers a program counter (of a caller: less one), without symbols.

        The part of a function that a compiler moved elsewhere (``.cold``) counts as a function.
        """
        if pc not in self._functions:
            try:
                found = self._find_fde(pc)
                self._functions[pc] = found.start, found.end
            except (CannotUnwind, CorruptStructure, MemoryUnreadable):
                self._functions[pc] = None
        return self._functions[pc]

    def starts_function(self, address: int) -> bool:
        """Whether a call can lead to an address: a frame description begins there, with an empty frame.

        A part of a function that is entered by a jump usually begins with a frame of the function.
        """
        if address not in self._entries:
            try:
                found = self._find_fde(address)
                state = _row(found, 0)
                self._entries[address] = found.start == address and (state.cfa_register, state.cfa_offset) == (_RSP, 8)
            except (CannotUnwind, CorruptStructure, MemoryUnreadable):
                self._entries[address] = False
        return self._entries[address]

    @if_unreadable(None)
    def exception_table(self, pc: int) -> ExceptionTable | None:
        """The exception table of the function that covers a program counter (of a caller: less one)."""
        try:
            found = self._find_fde(pc)
        except CannotUnwind:
            return None
        cie, cursor = found.cie, found.augmentation
        if cie.personality is None or cursor is None:
            return None
        table = _pointer(cursor, cie.table_encoding)
        is_indirect, personality = cie.personality
        if table is None or cie.table_encoding & INDIRECT:
            return None
        return ExceptionTable(table, read_u64(self._memory, personality) if is_indirect else personality, found.start)

    def _find_fde(self, pc: int) -> _Description:
        index = bisect.bisect_right(self._starts, pc) - 1
        if index < 0 or pc >= self._headers[index][1]:
            raise CannotUnwind(f"no file with frame descriptions contains {pc:#x}")
        header = self._headers[index][2]
        head = DwarfCursor(self._memory.read(header.start, min(header.end - header.start, 32)), header.start)
        version, _, count_encoding, table_encoding = head.take(4)
        head_encoding = head.data[1]
        if version != 1 or table_encoding != 0x3B or count_encoding == 0xFF:
            raise CannotUnwind("an unusual .eh_frame_hdr")
        head.encoded(head_encoding, header.start)
        count = head.encoded(count_encoding, header.start)
        table = header.start + head.at
        if not 0 < count <= (header.end - table) // 8:
            raise CorruptStructure(header.start, "the table of .eh_frame_hdr is larger than its section")
        read = self._memory.read

        def entry(i: int) -> int:
            return header.start + int.from_bytes(read(table + 8 * i, 4), "little", signed=True)

        low, high = 0, count
        while low + 1 < high:
            middle = (low + high) // 2
            if entry(middle) <= pc:
                low = middle
            else:
                high = middle
        at = header.start + int.from_bytes(read(table + 8 * low + 4, 4), "little", signed=True)
        length = int.from_bytes(read(at, 4), "little")
        if not 8 < length < _MAX_RECORD:
            raise CannotUnwind("an unusual frame description")
        body = DwarfCursor(read(at + 4, length), at + 4)
        cie = self._cie(at + 4 - body.unsigned(4))
        start = body.encoded(cie.pointer_encoding, header.start)
        size = body.encoded(cie.pointer_encoding & 0x0F, 0)
        if not start <= pc < start + size:
            raise CannotUnwind(f"no frame description covers {pc:#x}")
        augmentation = None
        if cie.has_augmentation:
            length = body.uleb()
            augmentation = DwarfCursor(body.data[body.at:body.at + length], body.address + body.at)
            body.take(length)
        return _Description(cie, start, start + size, body, augmentation)

    def _cie(self, at: int) -> _Cie:
        known = self._cies.get(at)
        if known is not None:
            return known
        length = int.from_bytes(self._memory.read(at, 4), "little")
        if not 8 < length < _MAX_RECORD:
            raise CannotUnwind("an unusual common information entry")
        body = DwarfCursor(self._memory.read(at + 4, length), at + 4)
        if body.unsigned(4) != 0 or body.unsigned(1) not in (1, 3):
            raise CannotUnwind("not a common information entry")
        end = body.data.find(b"\0", body.at)
        if end < 0:
            raise CorruptStructure(at, "an augmentation string without end")
        augmentation = body.take(end - body.at).decode("ascii", "replace")
        body.take(1)
        code_align, data_align = body.uleb(), body.sleb()
        if body.uleb() != _RA:
            raise CannotUnwind("the return address is in an unusual register")
        encoding, is_signal = 0, False
        personality, table_encoding = None, OMITTED
        if augmentation.startswith("z"):
            stop = body.uleb() + body.at
            for letter in augmentation[1:]:
                if letter == "R":
                    encoding = body.unsigned(1)
                elif letter == "P":
                    form = body.unsigned(1)
                    pointer = _pointer(body, form)
                    personality = (bool(form & INDIRECT), pointer) if pointer is not None else None
                elif letter == "L":
                    table_encoding = body.unsigned(1)
                elif letter == "S":
                    is_signal = True
                else:
                    break
            body.at = stop
        elif augmentation:
            raise CannotUnwind(f"augmentation {augmentation!r}")
        cie = _Cie(code_align, data_align, encoding, augmentation.startswith("z"), is_signal, body.data[body.at:],
                   personality, table_encoding)
        self._cies[at] = cie
        return cie

    def _find_rule(self, pc: int) -> Rule:
        found = self._find_fde(pc)
        if found.cie.is_signal:
            raise CannotUnwind("a signal frame")
        return _row(found, pc - found.start).result()


class _State:
    """The row of the call frame table that a program has built so far."""

    def __init__(self, pc: int) -> None:
        self.pc = pc
        self.cfa_register: int | None = None
        self.cfa_offset = 0
        self.cfa_at: int | None = None
        self.rules: dict[int, tuple[str, int]] = {}
        self.initial: dict[int, tuple[str, int]] = {}
        self.stack: list[tuple[int | None, int, int | None, dict[int, tuple[str, int]]]] = []

    def restore(self, register: int) -> None:
        self.rules[register] = self.initial.get(register, ("same", 0))

    def result(self) -> Rule:
        ra_kind, ra_offset = self.rules.get(_RA, ("same", 0))
        if ra_kind == "undefined":
            return Rule(False, 8, -8, None, outermost=True)
        if (ra_kind, ra_offset, self.cfa_register) == ("register", _RDI, _RSP) and _RBP not in self.rules:
            return Rule(False, self.cfa_offset, 0, None, returns_in="rdi")
        if self.cfa_register not in (_RBP, _RSP) and self.cfa_at is None or ra_kind != "offset":
            raise CannotUnwind("the frame is found through an expression or an unusual register")
        rbp_kind, rbp_offset = self.rules.get(_RBP, ("same", 0))
        aligned = self.cfa_at is not None
        if (rbp_kind, rbp_offset) != ("near rbp", 0) if aligned else rbp_kind not in ("offset", "same", "undefined"):
            raise CannotUnwind("rbp is restored through an expression")
        others = {name: self.rules.get(number, ("same", 0)) for number, name in _CALLEE_SAVED.items()}
        known = ("offset", "same", "near rbp") if aligned else ("offset", "same")

        def of_kind(wanted: str) -> tuple[tuple[str, int], ...]:
            return tuple([(name, offset) for name, (kind, offset) in others.items() if kind == wanted])

        return Rule(aligned or self.cfa_register == _RBP, self.cfa_offset, ra_offset,
                    rbp_offset if rbp_kind == "offset" else None,
                    saved=tuple([each for each in of_kind("offset") if each[0] != "rbp"]),
                    lost=tuple([name for name, (kind, _) in others.items() if kind not in known and name != "rbp"]),
                    cfa_at=self.cfa_at, near_rbp=of_kind("near rbp") if aligned else ())


def _row(found: _Description, distance: int) -> _State:
    """The row at a distance from the function's start, in bytes."""
    state, cie, body = _State(found.start + distance), found.cie, found.program
    _run(DwarfCursor(cie.program, 0), cie, state, None)
    state.initial = dict(state.rules)
    _run(DwarfCursor(body.data[body.at:], body.address + body.at), cie, state, distance)
    return state


def _run(program: DwarfCursor, cie: _Cie, state: _State, wanted: int | None) -> None:
    """Interpret call frame instructions up to `wanted` bytes into the function (None: all of them)."""
    location = 0
    while program.at < len(program.data):
        code = program.unsigned(1)
        high, low = code & 0xC0, code & 0x3F
        if high == 0x40 or code in _ADVANCES:
            location += (low if high == 0x40 else program.unsigned(_ADVANCES[code])) * cie.code_align
            if wanted is not None and location > wanted:
                return
        elif high == 0x80:
            state.rules[low] = ("offset", program.uleb() * cie.data_align)
        elif high == 0xC0:
            state.restore(low)
        elif code in (_CFA_EXPRESSION, _EXPRESSION, _VALUE_EXPRESSION):
            register = program.uleb() if code != _CFA_EXPRESSION else None
            _apply_expression(state, code, register, program.take(program.uleb()))
        elif code in _INSTRUCTIONS:
            effect, operands = _INSTRUCTIONS[code]
            _apply(effect, [_operand(kind, program, cie) for kind in operands], state, program.address)
        else:  # DW_CFA_set_loc and those of other processors
            raise CannotUnwind(f"call frame instruction {code:#x}")


def _operand(kind: str, program: DwarfCursor, cie: _Cie) -> int:
    value = program.uleb() if kind in "uU" else program.sleb()
    return value * cie.data_align if kind.isupper() else value


def _apply(effect: str, operands: Sequence[int], state: _State, address: int) -> None:
    if effect in _RULES:
        state.rules[operands[0]] = (effect, operands[-1])
    elif effect == "restore":
        state.restore(operands[0])
    elif effect == "remember":
        state.stack.append((state.cfa_register, state.cfa_offset, state.cfa_at, dict(state.rules)))
        if len(state.stack) > 64:
            raise CorruptStructure(address, "too many unwind states are remembered")
    elif effect == "restore state":
        if not state.stack:
            raise CorruptStructure(address, "an unwind state is restored that was not remembered")
        state.cfa_register, state.cfa_offset, state.cfa_at, state.rules = state.stack.pop()
    elif effect == "cfa":
        state.cfa_register, state.cfa_offset = operands
        state.cfa_at = None
    elif effect == "cfa register":
        state.cfa_register, state.cfa_at = operands[0], None
    elif effect == "cfa offset":
        state.cfa_offset = operands[0]


def _apply_expression(state: _State, code: int, register: int | None, expression: bytes) -> None:
    """Apply an instruction with an expression: of a linkage table, or a sum of rbp and an offset."""
    linkage = _LINKAGE_CFA.fullmatch(expression) if register is None else None
    if linkage is not None:
        is_pushed = state.pc & 15 >= linkage[1][0] - 0x30
        state.cfa_register, state.cfa_offset, state.cfa_at = _RSP, 16 if is_pushed else 8, None
        return
    is_stored = expression[-1:] == bytes([_DEREF])
    sum_of_rbp = expression[:-1] if register is None and is_stored else expression
    offset = None
    if sum_of_rbp[:1] == bytes([_BREG_RBP]):
        cursor = DwarfCursor(sum_of_rbp[1:], 0)
        value = cursor.sleb()
        offset = value if cursor.at == len(cursor.data) else None
    if register is None:
        state.cfa_register, state.cfa_at = None, offset if is_stored else None
    elif code == _EXPRESSION and offset is not None:
        state.rules[register] = ("near rbp", offset)
    else:
        state.rules[register] = ("expression", 0)
