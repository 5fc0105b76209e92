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

from collections.abc import Mapping, Sequence

from gdbext.arch.frame_rules import CannotUnwind, row_at
from gdbext.arch.unwinder import UnwinderBase
from gdbext.arch.x86_64.frame_rules import CALLEE_SAVED, RA, RSP, Rule, State
from gdbext.errors import GdbextError, MemoryUnreadable
from gdbext.inferior.cache import PAGE
from gdbext.inferior.protocol import Memory, Module

_SYSCALL = b"\x0f\x05"
#: A stack is at most this large; also the bound of one frame's size.
_MAX_FRAME = 1 << 28
#: The bytes below the stack pointer that a function may use; they keep their values when registers are popped. Source:
#: System V ABI for x86-64, 3.2.2.
_RED_ZONE = 128
#: How much of a stack is read at once.
_STACK_PIECE = 2048


class Unwinder(UnwinderBase[Rule]):
    """Unwinds the threads of one stop of one target.

    :param modules: all loaded files; those without ``.eh_frame_hdr`` cannot be unwound here.
    """

    STATE = State

    def __init__(self, memory: Memory, modules: Sequence[Module]) -> None:
        super().__init__(memory, modules, RA, at_entry=(RSP, 8))

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
        values = {name: registers[name] for name in ("rip", "rsp", *CALLEE_SAVED.values()) if name in registers}
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

    def _find_rule(self, pc: int) -> Rule:
        found = self._descriptions.find(pc)
        if found.cie.is_signal:
            raise CannotUnwind("a signal frame")
        return row_at(found, pc - found.start, State).result()
