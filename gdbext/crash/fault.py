"""Explains a fault: the instruction, the address that it accessed, what is at that address, and its origin.

Registers, memory, mappings and code suffice; no symbols are needed. Sources: Linux 6.1 arch/x86/mm/fault.c,
kernel/traps.c (signal and code of each fault), Intel SDM volume 3 chapter 6.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from gdbext.arch.protocol import Access, Instruction, MemoryOperand
from gdbext.crash.instructions import InstructionFaults
from gdbext.crash.origins import Link, OriginReader
from gdbext.crash.pointers import BAD, LOWEST, NON_CANONICAL, NULL, PATTERN, SMALL, UNMAPPED, Pointers
from gdbext.crash.seen import FaultSite, SeenFault
from gdbext.errors import GdbextError
from gdbext.inferior.cache import PAGE, read_u64
from gdbext.inferior.protocol import SignalInfo, Target
from gdbext.inferior.signals import (
    BUS_ADRALN,
    BUS_ADRERR,
    CORE_SIGNALS,
    EFBIG,
    FPE_INTDIV,
    ILL_ILLOPN,
    SEGV_ACCERR,
    SEGV_MAPERR,
    SEGV_PKUERR,
    SI_KERNEL,
    SI_TKILL,
    SIGABRT,
    SIGBUS,
    SIGFPE,
    SIGILL,
    SIGSEGV,
    SIGSYS,
    SIGTRAP,
    SIGXCPU,
    SIGXFSZ,
    code_name,
)
from gdbext.model import DERIVED, INFERRED, Fault, Operand
from gdbext.model.reasons import Reason, because, find_reasons
from gdbext.threads.code import Code
from gdbext.threads.function_code import FunctionCode, function_at

#: How far beyond the end of a stack one access may be.
_MAX_OVERRUN = 1 << 20
#: How far from the stack pointer an instruction accesses the stack.
_NEAR_STACK = 1 << 16
#: The largest frame of a function, in bytes.
_MAX_FRAME = 1 << 31
_NEEDED = {"read": "r", "write": "w", "execute": "x"}


class FaultReader:
    """Explains the fault of one thread."""

    def __init__(self, target: Target, code: Code, pointers: Pointers) -> None:
        self._target = target
        self._memory = target.memory
        self._code = code
        self._cpu = code.cpu
        self._pointers = pointers
        #: Follows values to their origins.
        self.origins = OriginReader(target, code, pointers)
        self._instruction_faults = InstructionFaults(target, code, self.origins)

    def read(self, site: FaultSite) -> SeenFault:
        """Explain a fault."""
        info = site.info
        registers = site.registers
        name = CORE_SIGNALS.get(info.number, f"signal {info.number}")
        known = Fault(name, code_name(info.number, info.code), "unknown", because("stopped-by-signal", signal=name),
                      registers=registers, pc=registers[self._cpu.PROGRAM_COUNTER], in_handler=site.in_handler)
        if info.address is None and info.code != SI_KERNEL:
            again = self._faults_again(site) if info.pid == self._target.pid else None
            return self._sent(site, known) if again is None else self._sent_again(replace(site, info=again))
        faults = self._instruction_faults
        explain: dict[int, Callable[[FaultSite, Fault], SeenFault]] = {
            SIGSEGV: self._memory_fault, SIGBUS: self._bus_error, SIGFPE: faults.arithmetic, SIGILL: faults.illegal,
            SIGTRAP: faults.trap, SIGSYS: faults.forbidden_call,
            SIGXCPU: lambda _, known: SeenFault(replace(known, kind="limit", text=because("cpu-time-limit")))}
        explained = explain.get(info.number)
        return explained(site, known) if explained is not None else SeenFault(known)

    # -- signals that were sent ------------------------------------------------------------------------------

    def _sent(self, site: FaultSite, known: Fault) -> SeenFault:
        info = site.info
        if info.number == SIGABRT and info.code == SI_TKILL and not site.by_others:
            return SeenFault(replace(known, kind="abort", text=because("called-abort")))
        if not info.pid:
            return SeenFault(replace(known, kind="sent", text=because("sender-unknown", signal=known.signal)))
        is_own = info.pid == self._target.pid
        if is_own and info.number == SIGXFSZ and site.registers[self._cpu.RESULT] == -EFBIG % (1 << 64):
            # the kernel sends it in the name of the process; Linux 6.1 mm/filemap.c (generic_write_check_limits)
            return SeenFault(replace(known, kind="limit", text=because("file-size-limit")))
        if is_own and not site.by_others and not site.in_handler:
            text = because("sent-by-itself", signal=known.signal)
        elif is_own and (info.code == SI_TKILL or not site.in_handler):
            text = because("sent-by-own-thread", signal=known.signal)
        else:
            text = because("sent-by-process", signal=known.signal, pid=info.pid)
        return SeenFault(replace(known, kind="sent", sender=(info.pid, info.uid or 0), text=text))

    def _sent_again(self, site: FaultSite) -> SeenFault:
        """The fault whose handler sent the signal again and returned: the kernel recorded only what was sent."""
        seen = self.read(site)
        return replace(seen, fault=replace(seen.fault, evidence=DERIVED, why=because("faults-again")))

    def _faults_again(self, site: FaultSite) -> SignalInfo | None:
        """The signal that the instruction at the program counter causes, if it is the one that was sent."""
        number, registers = site.info.number, site.registers
        pc = registers[self._cpu.PROGRAM_COUNTER]
        if number not in (SIGSEGV, SIGFPE, SIGILL) or self._cpu.is_at_system_call(self._memory, pc):
            return None
        if number == SIGSEGV and self._pointers.describe(pc).kind in BAD:
            return SignalInfo(number, SEGV_MAPERR, pc)
        code = self._instructions(site)
        if code is None:
            return None
        if number == SIGILL:
            return SignalInfo(number, ILL_ILLOPN, pc) if code.here.kind in ("trap", "undefined") else None
        if number == SIGFPE:
            divisor = self._instruction_faults.divisor(code, registers)[0] if "division" in code.here.kind else None
            is_zero = divisor is not None and divisor.value == 0
            return SignalInfo(number, FPE_INTDIV, pc) if is_zero else None
        for access in code.here.accesses():
            address = access.operand.address(registers, code.here.next_address)
            cause = self._cause(address, access.kind) if address is not None else None
            if cause is not None and address is not None:
                return SignalInfo(number, cause, 0 if cause == SI_KERNEL else address)
        return None

    def _cause(self, address: int, access: str) -> int | None:
        """The `si_code` of an access that faults; None for one that does not."""
        pointer, region = self._pointers.describe(address), self._pointers.space.find(address)
        if pointer.kind == NON_CANONICAL or pointer.kind == PATTERN and not self._cpu.is_canonical(address):
            return SI_KERNEL
        if region is None:
            return SEGV_MAPERR if pointer.kind in BAD else None
        return SEGV_ACCERR if region.allows(_NEEDED.get(access, "r")) is False else None

    # -- code ------------------------------------------------------------------------------------------------

    def _instructions(self, site: FaultSite) -> FunctionCode | None:
        return function_at(self._target, self._code, site.registers[self._cpu.PROGRAM_COUNTER])

    def _chain(self, code: FunctionCode, site: FaultSite, register: str) -> list[Link]:
        return self.origins.chain_with_callers(code, site.registers, register, site.thread, site.frames, site.offset)

    def _operands(self, code: FunctionCode, site: FaultSite,
                  access: Access | None) -> tuple[tuple[Operand, ...], tuple[Link, ...]]:
        """The values that an instruction used, that of its bad address first, and their origins."""
        if access is None:
            return (), ()
        instruction, registers, operand = code.here, site.registers, access.operand
        operands: list[Operand] = []
        links: list[Link] = []
        used = [name for name in operand.address_registers if name in registers]
        address = operand.address(registers, instruction.next_address)
        if address is not None and [address] != [registers[name] for name in used]:
            # the description of the base register says what is wrong with it
            base = registers.get(operand.base_register or "") if operand.base is not None else None
            is_bad = base is not None and self._pointers.describe(base).kind in BAD
            what = None if is_bad else self._pointers.describe(address).what
            if instruction.kind == "call":
                try:
                    what = because("memory-holding", what=what, value=read_u64(self._memory, address))
                except GdbextError:
                    pass
            operands.append(Operand(operand.text, address, what))
        index = _index_register(operand)
        for name in used:
            chain = self._chain(code, site, name) if name != self._cpu.STACK_POINTER else []
            links += chain
            made = self._register(name, registers[name], chain)
            # an index is small: it is not an address
            is_small = self._pointers.describe(made.value).kind in (NULL, SMALL)
            is_index = name == index and (operand.scale > 1 or is_small)
            operands.append(replace(made, what=None) if is_index and len(used) > 1 and made.value else made)
        return tuple(operands), tuple(links)

    def _register(self, name: str, value: int, chain: Sequence[Link]) -> Operand:
        return Operand(self._cpu.REGISTER_PREFIX + name, value, self._pointers.describe(value).what,
                       tuple(link.origin for link in chain))

    # -- SIGSEGV ---------------------------------------------------------------------------------------------

    def _memory_fault(self, site: FaultSite, known: Fault) -> SeenFault:
        registers, info = site.registers, site.info
        pc = registers[self._cpu.PROGRAM_COUNTER]
        if self._has_no_code(pc, info):
            return self._called_without_code(site, known)
        code = self._instructions(site)
        if code is None:
            return SeenFault(self._without_code(site, known))
        target = self._refused_target(code.here, site) if info.code == SI_KERNEL else None
        if target is not None:
            return self._called_from(code, site, self._called(known, target, code.here.kind == "return"), target)
        access, address = self._access(code.here, site)
        operands, links = self._operands(code, site, access)
        kind = site.access or (access.kind if access is not None else None)
        size = access.size if access is not None else None
        known = replace(known, instruction=code.here.text, address=address, access=kind, size=size, operands=operands)
        bad = registers.get(access.operand.base_register or "", 0) if access is not None else 0
        explained = self._of_other_object(self._explained(site, known, code, access), links, (bad,))
        objects = [registers[name] for name in sorted(access.operand.address_registers if access is not None else ())
                   if name in registers and name not in self._cpu.NOT_DATA]
        objects += [link.base for link in links if link.base is not None]
        return SeenFault(explained, links, tuple(dict.fromkeys(objects)), pc)

    def _of_other_object(self, fault: Fault, links: Sequence[Link], values: Sequence[int],
                         bases: Sequence[int] = ()) -> Fault:
        """The fault, with a statement about its pointer if it was read from freed memory or None, or is a null result.

        :param values: the bad pointers themselves.
        :param bases: addresses from which the code read what it called.
        """
        offset = next((link.offset for link in links if link.base is not None and link.offset is not None
                       and self._pointers.is_member_of_none(link.base, link.offset)), None)
        if offset is not None:
            return replace(fault, text=because("read-from-none", fault=fault.text, offset=offset))
        bases = [*bases, *(link.base for link in links if link.base is not None)]
        freed = next((base for base in bases if self._pointers.describe(base).what.code == "freed-memory"), None)
        if freed is None:
            return self._of_bad_value(fault, links, values)
        return replace(fault, text=because("read-from-freed", fault=fault.text, address=freed), evidence=DERIVED,
                       why=because("link-of-malloc"))

    def _of_bad_value(self, fault: Fault, links: Sequence[Link], values: Sequence[int]) -> Fault:
        """The fault, with the function that returned its null pointer, or if its pointer is a link of free blocks."""
        if any(map(self._pointers.is_free_link, values)):
            return replace(fault, text=because("link-used", fault=fault.text), evidence=INFERRED,
                           why=because("links-are-combined"))
        copies = [link.origin for link in itertools.takewhile(lambda link: link.value == 0, links)]
        result = next((each for origin in copies for each in find_reasons(origin, "result")), None)
        is_certain = not any(list(find_reasons(origin, "uncertain-origin")) for origin in copies)
        if result is None or not is_certain or not fault.kind.startswith("null"):
            return fault
        return replace(fault, text=because("returned-null", fault=fault.text,
                                           function=dict(result.arguments)["function"]))

    def _without_code(self, site: FaultSite, known: Fault) -> Fault:
        """Explain a fault whose code cannot be read by its address."""
        address = site.info.address if site.info.code != SI_KERNEL else None
        known = replace(known, address=address, access=site.access)
        if address is None:
            return _accessed(known, "general-protection")
        if address < LOWEST:
            kind, text = ("null-pointer", because("null-pointer")) if address == 0 else (
                "null-member", because("null-member", offset=address))
            return replace(_accessed(known, kind, text), evidence=INFERRED, why=because("only-null-is-so-low"))
        return self._overflow(site, known, address) or self._by_mapping(site, known, address)

    def _access(self, instruction: Instruction, site: FaultSite) -> tuple[Access | None, int | None]:
        """The access of an instruction that faulted, and the address."""
        accesses = [(access, access.operand.address(site.registers, instruction.next_address))
                    for access in instruction.accesses()]
        fault = site.info.address if site.info.code != SI_KERNEL else None
        if fault is not None:
            near = [(access, at) for access, at in accesses
                    if at is not None and at <= self._cpu.without_tag(fault) < at + max(access.size or 1, 1) + 63]
            near.sort(key=lambda pair: (site.access not in (None, pair[0].kind), pair[0].kind != "write"))
            return near[0][0] if near else None, fault
        # a general protection fault has no recorded address
        for access, at in accesses:
            if at is not None and (self._pointers.describe(at).kind in (NON_CANONICAL, PATTERN)
                                   or instruction.alignment and at % instruction.alignment):
                return access, at
        return None, None

    def _explained(self, site: FaultSite, known: Fault, code: FunctionCode, access: Access | None) -> Fault:
        address, instruction = known.address, code.here
        if address is None:
            return replace(known, kind="general-protection",
                           text=because("refused-instruction", instruction=instruction.text))
        overflow = self._overflow(site, known, address) or self._large_frame(site, known, code)
        if overflow is not None:
            return overflow
        name = access.operand.base_register if access is not None else None
        value = site.registers.get(name or "", 0)
        whole = self._pointers.whole_pointer(value)
        if whole is not None:
            text = because("truncated-pointer", register=name, value=value, offset=address - value, whole=whole.value,
                           what=whole.what)
            return replace(_accessed(known, "truncated-pointer", text), evidence=INFERRED,
                           why=because("whole-pointer-fits"))
        bad = self._bad_base(access.operand, site.registers, address) if access is not None else None
        if bad is not None:
            return _accessed(known, *bad)
        if instruction.alignment and address % instruction.alignment and site.info.code == SI_KERNEL:
            return _accessed(known, "misaligned", because("misaligned-for", mnemonic=instruction.mnemonic,
                                                          alignment=instruction.alignment))
        index = _index_register(access.operand) if access is not None and access.operand.scale > 1 else None
        if site.info.code == SEGV_MAPERR and index in site.registers and self._pointers.describe(value).kind not in BAD:
            number = site.registers[index or ""]
            text = because("index-out", register=name, index=index, value=number - (number >> 63 << 64),
                           what=self._pointers.describe(value).what)
            return _accessed(known, "unmapped", text)
        if site.info.code == SEGV_MAPERR and self._pointers.is_unmapped_block(value):
            return replace(_accessed(known, "unmapped", because("freed-large-block")), evidence=INFERRED,
                           why=because("block-at-page"))
        return self._by_mapping(site, known, address)

    def _bad_base(self, operand: MemoryOperand, registers: Mapping[str, int],
                  address: int) -> tuple[str, Reason] | None:
        """The kind of fault and its reason, if the base register of an address has a bad value."""
        name = operand.base_register
        if name is None or name not in registers:
            is_null = operand.segment is None and address < LOWEST
            return ("null-pointer", because("null-pointer")) if is_null else None
        base, index = registers[name], _index_register(operand)
        if index is not None and 0 in (base, registers.get(index)):
            element = self._null_element(operand, name, index, registers)
            if element is not None:
                return element
        what = self._pointers.describe(base)
        offset = self._cpu.without_tag(address) - self._cpu.without_tag(base)
        if what.kind == NULL and 0 <= offset < LOWEST:
            if offset == 0:
                return "null-pointer", because("null-pointer", register=name)
            return "null-member", because("null-member", offset=offset, register=name)
        described, kind = what.what, {NON_CANONICAL: "non-canonical", SMALL: "small-pointer"}.get(what.kind)
        if described.code == "fill-pattern":  # the operand names the allocator
            kind, described = "pattern", because("fill-pattern", byte=base >> 56)
        if kind is not None:
            return kind, because("bad-register", register=name, value=base, offset=offset, what=described)
        if self._pointers.describe(address).kind == NON_CANONICAL:
            return "non-canonical", because("not-canonical-sum", register=name, value=base)
        return None

    def _null_element(self, operand: MemoryOperand, base: str, index: str,
                      registers: Mapping[str, int]) -> tuple[str, Reason] | None:
        """The element of a null array, if one of the two registers of an address is null and the other an index."""
        null, other = (base, index) if registers[base] == 0 else (index, base)
        # without a scale the compiler chooses which of them comes first
        is_index = other == index if operand.scale > 1 else registers[other] < LOWEST
        if not is_index or not registers[other]:
            return None
        return "null-element", because("null-element", register=null, index=other, value=registers[other])

    def _overflow(self, site: FaultSite, known: Fault, address: int) -> Fault | None:
        """The fault, if its address is just beyond the end of the stack in use."""
        size = self._used_up(site, address)
        if size is None:
            return None
        return replace(_accessed(known, "stack-overflow", because("stack-used-up", kib=size >> 10)), evidence=DERIVED,
                       why=because("just-below-stack"))

    def _large_frame(self, site: FaultSite, known: Fault, code: FunctionCode) -> Fault | None:
        """The fault, if the frame of the function is so large that it begins below the stack."""
        registers, space = site.registers, self._pointers.space
        sp, address = registers[self._cpu.STACK_POINTER], known.address or 0
        here, stack = space.find(sp), self._pointers.stack_at(site.thread.number)
        if stack is None or not stack.start - _MAX_FRAME <= sp < stack.start or not (
                sp - _NEAR_STACK <= address < stack.end) or here is not None and here.allows("w"):
            return None
        # the frame reaches into the stack: by its base, or by the size that the code makes room for
        sizes = [-made.offset for each in code.instructions[:code.at + 1] for made in each.assignments() or ()
                 if made.target == made.source == self._cpu.STACK_POINTER and not made.is_address]
        callers = [high for _, high in site.frames[1:2]]
        if not any(stack.start <= high <= stack.end for high in (*callers, sp + sum(sizes))):
            return None
        text = because("frame-too-large", function=self.origins.name(code.here.address), kib=stack.start - sp >> 10,
                       stack=stack.end - stack.start >> 10)
        return replace(_accessed(known, "stack-overflow", text), evidence=DERIVED, why=because("frame-below-stack"))

    def _used_up(self, site: FaultSite, address: int) -> int | None:
        """Size of the stack that is used up, in bytes, if an address is just beyond its end."""
        sp, space = site.registers[self._cpu.STACK_POINTER], self._pointers.space
        if abs(address - sp) > _NEAR_STACK + _MAX_OVERRUN:
            return None
        here = space.find(address)
        if (here is not None and here.allows("w") and site.info.code == SEGV_MAPERR and here.start <= sp < here.end
                and address - here.start < _NEAR_STACK):
            # not mapped at the fault: a debugger that reads below a stack makes the kernel let it grow
            return here.end - address
        # a guard page is inaccessible; cores that GDB makes call it readable
        stack = space.above(address) if here is None or not here.allows("w") else None
        while stack is not None and not stack.allows("w") and stack.start - address <= _MAX_OVERRUN:
            stack = space.above(stack.start)
        if stack is None or not stack.allows("w") or stack.start - address > _MAX_OVERRUN:
            return None
        guard = space.above(sp)
        if (guard is not None and not guard.allows("w") and guard.end <= stack.start
                and not any(stack.start <= caller <= stack.end for _, caller in site.frames[1:2])):
            return None  # beyond the guard page there may be another stack that is not mapped
        is_in_use = stack.start - _MAX_OVERRUN <= sp < stack.end and sp - stack.start <= _NEAR_STACK
        return stack.end - stack.start if is_in_use else None

    def _by_mapping(self, site: FaultSite, known: Fault, address: int) -> Fault:
        region, code = self._pointers.space.find(address), site.info.code
        pointer = self._pointers.describe(address)
        if code == SEGV_MAPERR and region is not None:
            return _accessed(known, "unmapped", because("mapped-since", what=pointer.what))
        permissions = region.permissions if region is not None else None
        if code not in (SEGV_PKUERR, SEGV_ACCERR) and permissions is None:
            return _accessed(known, "unmapped", pointer.what if pointer.kind in BAD else because("nothing-mapped"))
        if code == SEGV_PKUERR:
            problem = because("protection-key")
        elif region is not None and known.access in _NEEDED and region.allows(_NEEDED[known.access]):
            problem = because("forbidden-then", what=pointer.what)
        elif permissions is not None:
            problem = because("allowed-only", permissions=permissions, what=pointer.what)
        else:
            problem = because("forbidden", what=pointer.what)
        return _accessed(known, "no-permission", problem)

    # -- calls of addresses without code -----------------------------------------------------------------------

    def _has_no_code(self, pc: int, info: SignalInfo) -> bool:
        region = self._pointers.space.find(pc)
        if region is not None and region.permissions is not None:
            return "x" not in region.permissions
        return info.address == pc or self._pointers.describe(pc).kind in BAD

    def _refused_target(self, instruction: Instruction, site: FaultSite) -> int | None:
        """The address that is not canonical to which a call, a jump or a return was to go."""
        if instruction.kind not in ("call", "jump", "return"):
            return None
        for access in instruction.accesses():
            at = access.operand.address(site.registers, instruction.next_address)
            if access.kind == "read" and at is not None:
                try:
                    at = read_u64(self._memory, at)
                except GdbextError:
                    at = None
            if access.kind != "write" and at is not None and not self._cpu.is_canonical(at):
                return at
        return None

    def _called(self, known: Fault, pc: int, has_returned: bool = False) -> Fault:
        """The fault as a call of an address without code, or as a return to it."""
        pointer = self._pointers.describe(pc)
        kind = {NULL: "null-call", PATTERN: "pattern"}.get(pointer.kind, "execute-data")
        text = because("called-null") if pointer.kind == NULL and not has_returned else because(
            "ran-data" if pointer.kind not in BAD else "returned-to-bad-address" if has_returned
            else "called-bad-address", address=pc, what=pointer.what)
        return replace(known, kind=kind, text=text, address=pc, access="execute")

    def _called_without_code(self, site: FaultSite, known: Fault) -> SeenFault:
        pc, sp = (site.registers[name] for name in (self._cpu.PROGRAM_COUNTER, self._cpu.STACK_POINTER))
        caller = self._code.caller(site.registers)
        code = self.origins.code_at_call(caller[self._cpu.PROGRAM_COUNTER]) if caller is not None else None
        if code is not None:
            return self._called_from(code, site, self._called(known, pc), pc)
        try:  # a return has just read it from there
            has_returned = caller is None and read_u64(self._memory, sp - 8) == pc
        except GdbextError:
            has_returned = False
        known = self._called(known, pc, has_returned)
        is_gone = self._pointers.describe(pc).kind == UNMAPPED and self._pointers.has_started_at(
            pc, site.thread.number)
        return SeenFault(_unloaded(known, because("thread-started-there")) if is_gone else known)

    def _called_from(self, code: FunctionCode, site: FaultSite, known: Fault, pc: int) -> SeenFault:
        """The fault of a call, jump or return to an address without code, with the origin of that address."""
        registers = site.registers
        accesses = {access.kind: access for access in code.here.accesses()}
        operands, links = self._operands(code, site, accesses.get("read"))
        called = accesses["execute"].operand.base_register if "execute" in accesses else None
        if called is not None and called in registers:
            links = tuple(self._chain(code, site, called))
            operands = (self._register(called, pc, links),) if links else ()
        objects = tuple(link.base for link in links if link.base is not None)
        if self._pointers.describe(pc).kind == UNMAPPED and self._pointers.is_in_c_library(
                code.here.address) and any(map(self._pointers.is_in_c_library, objects)):
            known = _unloaded(known, because("registered-there"))
        bases = [each.value for each in operands if each.text != f"%{called}" and each.text.startswith("%")]
        known = replace(known, instruction=code.here.text, operands=operands)
        known = self._of_other_object(known, links, (pc,), bases)
        return SeenFault(known, links, objects,
                         code.here.address)

    # -- the other signals ---------------------------------------------------------------------------------------

    def _bus_error(self, site: FaultSite, known: Fault) -> SeenFault:
        seen = self._memory_fault(site, known)
        address = site.info.address
        fault = replace(seen.fault, address=address)
        region = self._pointers.space.find(address) if address is not None else None
        if site.info.code == BUS_ADRALN:
            return replace(seen, fault=_accessed(fault, "misaligned", because("misaligned")))
        # mappings without a file have a name in brackets or, of huge pages, this one
        if (site.info.code == BUS_ADRERR and address is not None and region is not None and region.path
                and region.path.startswith("/") and not region.path.startswith("/anon_hugepage")):
            return replace(seen, fault=self._no_page(fault, address - region.start + region.offset, region.path))
        if site.info.code == BUS_ADRERR:
            return replace(seen, fault=_accessed(fault, "no-memory-behind", because("no-memory-behind")))
        if known.code in ("BUS_MCEERR_AR", "BUS_MCEERR_AO"):
            return replace(seen, fault=_accessed(fault, "hardware", because("faulty-memory")))
        return seen

    def _no_page(self, fault: Fault, offset: int, path: str) -> Fault:
        """The fault of a mapped file that the kernel had no page for: its length says why, if the file is still there.

        Source: Linux 6.1 mm/filemap.c (filemap_fault: beyond the end), mm/shmem.c (shmem_fault: no space left).
        """
        reaches = self._target.reaches(path, offset & -PAGE)
        if reaches is False:
            return _accessed(fault, "truncated-file", because("file-too-short", offset=offset, path=path))
        is_long = reaches is True
        return replace(_accessed(fault, "no-memory-behind", because(
            "no-page" if is_long else "no-page-or-end", offset=offset, path=path)),
            evidence=INFERRED if is_long else fault.evidence, why=because("file-is-longer") if is_long else fault.why)


def _index_register(operand: MemoryOperand) -> str | None:
    """The general register of an address's index; None if it has none."""
    names = list(operand.address_registers)
    return names[1] if len(names) == 2 and operand.index is not None else None


def _unloaded(known: Fault, why: Reason) -> Fault:
    """The fault as one of code that is not mapped any more."""
    return replace(known, text=because("unloaded-code", fault=known.text), evidence=INFERRED, why=why)


def _accessed(known: Fault, kind: str, problem: Reason | None = None) -> Fault:
    """The fault as a bad access to its address."""
    is_readable = known.instruction is not None or known.access == "execute"
    return replace(known, kind=kind, text=because("accessed", access=known.access, size=known.size,
                                                  address=known.address, is_readable=int(is_readable), problem=problem))
