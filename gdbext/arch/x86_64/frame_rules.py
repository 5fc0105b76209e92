"""How to get from a frame of x86-64 to its caller, by the row of its frame description."""

from __future__ import annotations

import re

from gdbext.arch import frame_rules
from gdbext.arch.frame_rules import EXPRESSION, CannotUnwind
from gdbext.elf.dwarf_cursor import DwarfCursor
from gdbext.record import record

#: DWARF register numbers of x86-64.
RDI, RBP, RSP, RA = 5, 6, 7, 16
CALLEE_SAVED = {3: "rbx", RBP: "rbp", 12: "r12", 13: "r13", 14: "r14", 15: "r15"}
#: Operations of expressions: a register's value plus an offset, and the word at the address so far.
_BREG_RBP, _DEREF = 0x70 + RBP, 0x06
#: The CFA in a linkage table: rsp + 8 + ((rip & 15 >= N) << 3), with the size N of the code of an entry that comes
#: before the end of its push instruction. Source: binutils bfd/elfxx-x86.c, elf_x86_64_eh_frame_lazy_plt.
_LINKAGE_CFA = re.compile(rb"\x77\x08\x80\x00\x3f\x1a([\x30-\x4f])\x2a\x33\x24\x22", re.DOTALL)


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


class State(frame_rules.State):
    """The row of the call frame table that a program has built so far."""

    def result(self) -> Rule:
        """The rule at the address.

        :raises CannotUnwind: `Rule` has no such form.
        """
        ra_kind, ra_offset = self.rules.get(RA, ("same", 0))
        if ra_kind == "undefined":
            return Rule(False, 8, -8, None, outermost=True)
        if (ra_kind, ra_offset, self.cfa_register) == ("register", RDI, RSP) and RBP not in self.rules:
            return Rule(False, self.cfa_offset, 0, None, returns_in="rdi")
        if self.cfa_register not in (RBP, RSP) and self.cfa_at is None or ra_kind != "offset":
            raise CannotUnwind("the frame is found through an expression or an unusual register")
        rbp_kind, rbp_offset = self.rules.get(RBP, ("same", 0))
        aligned = self.cfa_at is not None
        if (rbp_kind, rbp_offset) != ("near rbp", 0) if aligned else rbp_kind not in ("offset", "same", "undefined"):
            raise CannotUnwind("rbp is restored through an expression")
        others = {name: self.rules.get(number, ("same", 0)) for number, name in CALLEE_SAVED.items()}
        known = ("offset", "same", "near rbp") if aligned else ("offset", "same")

        def of_kind(wanted: str) -> tuple[tuple[str, int], ...]:
            return tuple([(name, offset) for name, (kind, offset) in others.items() if kind == wanted])

        return Rule(aligned or self.cfa_register == RBP, self.cfa_offset, ra_offset,
                    rbp_offset if rbp_kind == "offset" else None,
                    saved=tuple([each for each in of_kind("offset") if each[0] != "rbp"]),
                    lost=tuple([name for name, (kind, _) in others.items() if kind not in known and name != "rbp"]),
                    cfa_at=self.cfa_at, near_rbp=of_kind("near rbp") if aligned else ())

    def apply_expression(self, code: int, register: int | None, expression: bytes) -> None:
        """Apply an instruction with an expression: of a linkage table, or a sum of rbp and an offset."""
        linkage = _LINKAGE_CFA.fullmatch(expression) if register is None else None
        if linkage is not None:
            is_pushed = self.pc & 15 >= linkage[1][0] - 0x30
            self.cfa_register, self.cfa_offset, self.cfa_at = RSP, 16 if is_pushed else 8, None
            return
        is_stored = expression[-1:] == bytes([_DEREF])
        sum_of_rbp = expression[:-1] if register is None and is_stored else expression
        offset = None
        if sum_of_rbp[:1] == bytes([_BREG_RBP]):
            cursor = DwarfCursor(sum_of_rbp[1:], 0)
            value = cursor.sleb()
            offset = value if cursor.at == len(cursor.data) else None
        if register is None:
            self.cfa_register, self.cfa_at = None, offset if is_stored else None
        elif code == EXPRESSION and offset is not None:
            self.rules[register] = ("near rbp", offset)
        else:
            self.rules[register] = ("expression", 0)
