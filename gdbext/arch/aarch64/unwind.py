"""Unwinds native stacks of arm64 by `.eh_frame`, and by the chain of frame records where there is no description.

A frame record is the caller's x29 and the return address; x29 has its address. With pointer authentication a return
address that is stored has a code in its upper bits, which is removed here.

Format: DWARF 5 section 6.4, DWARF for AArch64 2023Q3 (register numbers, RA_SIGN_STATE), AAPCS64 2023Q3 section 6.4.6
(frame records).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gdbext.arch import frame_rules
from gdbext.arch.aarch64.calls import is_after_call
from gdbext.arch.aarch64.registers import CALLEE_SAVED
from gdbext.arch.frame_rules import CannotUnwind, row_at
from gdbext.arch.unwinder import UnwinderBase
from gdbext.errors import GdbextError, MemoryUnreadable
from gdbext.inferior.protocol import Memory, Module
from gdbext.record import record

_FP, _LR, _SP = 29, 30, 31
_SAVED = {number: f"x{number}" for number in range(19, 30)}
#: The bits of an address; those above them may have an authentication code.
_ADDRESS = (1 << 48) - 1
#: A stack is at most this large; also the bound of one frame's size.
_MAX_FRAME = 1 << 28


class State(frame_rules.State):
    """The row of the call frame table that a program has built so far."""

    SIGNS = True


@record
class Rule:
    """How to get from a frame to its caller at one program counter.

    The canonical frame address is `cfa_offset` bytes above sp, or above x29 if `from_fp`. The return address is stored
    at it + `ra_offset`, or is in x30 if that is None. `saved` are registers with the offsets at which they are stored,
    `lost` those whose values are not known. `outermost` marks the frame that has no caller.
    """

    from_fp: bool
    cfa_offset: int
    ra_offset: int | None
    fp_offset: int | None
    saved: tuple[tuple[str, int], ...] = ()
    lost: tuple[str, ...] = ()
    is_signed: bool = False
    outermost: bool = False


_LEAF = Rule(False, 0, None, None)


def _rule(state: State) -> Rule:
    kind, offset = state.rules.get(_LR, ("same", 0))
    if kind == "undefined":
        return Rule(False, 0, None, None, outermost=True)
    if state.cfa_register not in (_FP, _SP) or kind not in ("offset", "same"):
        raise CannotUnwind("the frame is found through an expression or an unusual register")
    others = {name: state.rules.get(number, ("same", 0)) for number, name in _SAVED.items()}
    fp_kind, fp_offset = others["x29"]
    if fp_kind not in ("offset", "same", "undefined"):
        raise CannotUnwind("x29 is restored through an expression")
    return Rule(state.cfa_register == _FP, state.cfa_offset, offset if kind == "offset" else None,
                fp_offset if fp_kind == "offset" else None,
                tuple((name, at) for name, (kind, at) in others.items() if kind == "offset"),
                tuple(name for name, (kind, _) in others.items() if kind not in ("offset", "same")), state.is_signed)


class Unwinder(UnwinderBase[Rule]):
    """Unwinds the threads of one stop of one target.

    :param modules: all loaded files; those without ``.eh_frame_hdr`` are unwound by frame records alone.
    """

    STATE = State

    def __init__(self, memory: Memory, modules: Sequence[Module]) -> None:
        super().__init__(memory, modules, _LR, at_entry=(_SP, 0))
        self._stubs = [(section.start, section.end) for module in modules for section in module.sections
                       if section.name in (".plt", ".iplt", ".plt.sec")]

    def _find_rule(self, pc: int) -> Rule:
        if any(start <= pc < end for start, end in self._stubs):
            return _LEAF  # linkers describe no stubs
        found = self._descriptions.find(pc)
        if found.cie.is_signal:
            raise CannotUnwind("a signal frame")
        return _rule(row_at(found, pc - found.start, State))

    def walk(self, registers: Mapping[str, int], limit: int) -> tuple[list[tuple[int, int]], GdbextError | None]:
        """The frames as `unwind` has them, and why the walk ended before the outermost frame, None if it did not."""
        frame = _Frame(self, self._memory, registers)
        frames = [(frame.pc, frame.sp)]
        try:
            while len(frames) < limit and frame.to_caller(saves_all=False):
                frames.append((frame.pc, frame.sp))
        except (CannotUnwind, MemoryUnreadable) as error:
            return frames, error.with_traceback(None)
        return frames, None

    def frame_registers(self, registers: Mapping[str, int], index: int) -> dict[str, int]:
        """The registers of a frame that calls preserve, its program counter and its stack pointer.

        :param registers: of the innermost frame.
        :param index: the number of the frame; the innermost is 0.
        :return: unknown registers are left out; empty if the frame cannot be reached.
        """
        frame = _Frame(self, self._memory, registers)
        try:
            for _ in range(index):
                if not frame.to_caller(saves_all=True):
                    return {}
        except GdbextError:
            return {}
        known = {name: value for name, value in frame.values.items() if name in CALLEE_SAVED}
        return {**known, "pc": frame.pc, **({"sp": frame.sp} if frame.is_exact else {})}


class _Frame:
    """A frame: its program counter, and what is known of its registers.

    The stack pointer `is_exact`, or else the frame begins there or above: a frame record does not show where.
    """

    def __init__(self, unwinder: Unwinder, memory: Memory, registers: Mapping[str, int]) -> None:
        self._unwinder, self._memory = unwinder, memory
        self.pc, self.sp = registers["pc"], registers["sp"]
        self.values = {name: registers[name] for name in (*CALLEE_SAVED, "x30") if name in registers}
        self.is_exact, self._is_first = True, True

    def to_caller(self, saves_all: bool) -> bool:
        """Go to the caller; False if there is none.

        :param saves_all: restore all registers that calls preserve, not only x29.
        """
        try:
            # in the call: the code after it may be another function
            rule = self._unwinder.rule(self.pc if self._is_first else self.pc - 1)
        except CannotUnwind:
            return self._to_recorded()
        if rule.outermost:
            return False
        fp = self.values.get("x29")
        cfa = self._cfa(rule, fp)
        if rule.ra_offset is not None:
            pc = self._word(cfa + rule.ra_offset)
        elif self._is_first and "x30" in self.values:
            pc = self.values["x30"]
        else:
            raise CannotUnwind(f"the return address of {self.pc:#x} is not stored")
        if rule.is_signed:
            pc &= _ADDRESS
        if not pc:
            return False
        if not self._is_first and cfa <= self.sp:
            raise CannotUnwind(f"the frame of {self.pc:#x} ends below where it starts")
        self._check(pc, cfa)
        for name in rule.lost:
            self.values.pop(name, None)
        for name, offset in rule.saved if saves_all else (("x29", rule.fp_offset),):
            if offset is not None:
                self.values[name] = self._word(cfa + offset)
        self._enter(pc, cfa, True)
        return True

    def _cfa(self, rule: Rule, fp: int | None) -> int:
        if not rule.from_fp and self.is_exact:
            return self.sp + rule.cfa_offset
        if fp is None:
            raise CannotUnwind(f"x29 of {self.pc:#x} is not known")
        if rule.from_fp:
            return fp + rule.cfa_offset
        # the record of this frame is where x29 points, if its code has set it up
        if rule.fp_offset is None or rule.ra_offset != rule.fp_offset + 8:
            raise CannotUnwind(f"the frame of {self.pc:#x} has no record")
        return fp - rule.fp_offset

    def _check(self, pc: int, cfa: int) -> None:
        if not self.sp <= cfa < self.sp + _MAX_FRAME or cfa & 7:
            raise CannotUnwind(f"the frame of {self.pc:#x} ends below where it starts")

    def _to_recorded(self) -> bool:
        """Go to the caller by the frame record; the frame is that of code without a frame description."""
        fp = self.values.get("x29")
        if fp is None or fp & 7 or not self.sp <= fp < self.sp + _MAX_FRAME:
            raise CannotUnwind(f"no usable frame description for {self.pc:#x}")
        pc = self._word(fp + 8) & _ADDRESS
        if not is_after_call(self._memory, pc):
            raise CannotUnwind(f"no usable frame description for {self.pc:#x}, and no frame record")
        self.values = {"x29": self._word(fp)}
        self._enter(pc, fp + 16, False)
        return True

    def _enter(self, pc: int, sp: int, is_exact: bool) -> None:
        self.values.pop("x30", None)
        self.pc, self.sp, self.is_exact, self._is_first = pc, sp, is_exact, False

    def _word(self, address: int) -> int:
        return int.from_bytes(self._memory.read(address, 8), "little")
