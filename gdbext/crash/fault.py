"""What a fault was: which instruction touched which address, what that address is, and where it came from.

Everything is told from registers, memory, mappings and the code itself; no symbols are needed. Sources: Linux 6.1
arch/x86/mm/fault.c, kernel/traps.c (which signal and code a fault has), Intel SDM volume 3 chapter 6.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from gdbext.arch.protocol import Access, Instruction, MemoryOperand, Origin
from gdbext.crash.pointers import BAD, LOWEST, NON_CANONICAL, NULL, PATTERN, SMALL, UNMAPPED, Pointers
from gdbext.errors import GdbextError
from gdbext.inferior.cache import read_u64
from gdbext.inferior.protocol import SignalInfo, Target, ThreadRef
from gdbext.inferior.signals import (
    BUS_ADRALN,
    BUS_ADRERR,
    CORE_SIGNALS,
    FPE_INTDIV,
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
    code_name,
)
from gdbext.model import DERIVED, INFERRED, Fault, Operand
from gdbext.record import record
from gdbext.runtimes.names import short_name
from gdbext.threads.code import Code
from gdbext.threads.function_code import MAX_FUNCTION, code_up_to

#: How much code of one function is decoded, in bytes, and how far a stack may be overrun at once.
_MAX_OVERRUN = 1 << 20
#: How far from the stack pointer an instruction touches the stack.
_NEAR_STACK = 1 << 16
#: How many origins of a value are followed in one function, and through how many callers.
_MAX_ORIGINS, _MAX_CALLERS = 4, 4
_NEEDED = {"read": "r", "write": "w", "execute": "x"}
_VERBS = {"read": "read", "write": "wrote", "execute": "ran code"}


@record
class FaultSite:
    """Where a thread was when it was stopped: its registers then, and what the kernel says of the fault.

    `access` is how memory was touched, where the kernel recorded it; `in_handler` is true if `registers` were found
    below a handler of the signal. `by_others`: the thread did not send the signal to itself.
    """

    thread: ThreadRef
    info: SignalInfo
    registers: Mapping[str, int]
    access: str | None = None
    in_handler: bool = False
    by_others: bool = False
    #: (program counter, stack pointer) of its frames from the fault on, and how many of the debugger's come before
    frames: Sequence[tuple[int, int]] = ()
    offset: int = 0


@record
class Link:
    """A pointer in the chain that led to a fault: the `value` of `register` was read from `offset` of object `base`."""

    register: str
    value: int
    base: int | None
    offset: int | None
    text: str
    argument: int | None = None


@record
class SeenFault:
    """A fault, with what other questions need: the chain of pointers that led to it, innermost first.

    `code_at` is where the program was: for a call to no code, the call. `objects` are what the instruction used.
    """

    fault: Fault
    chain: tuple[Link, ...] = ()
    objects: tuple[int, ...] = ()
    code_at: int = 0


class FaultReader:
    """Explains the fault of one thread."""

    def __init__(self, target: Target, code: Code, pointers: Pointers) -> None:
        self._target = target
        self._memory = target.memory
        self._disassemble = target.disassemble
        self._frame_registers = target.frame_registers
        self._code = code
        self._cpu = code.cpu
        self._pointers = pointers

    def read(self, site: FaultSite) -> SeenFault:
        """Explain a fault."""
        info = site.info
        registers = site.registers
        name = CORE_SIGNALS.get(info.number, f"signal {info.number}")
        known = Fault(name, code_name(info.number, info.code), "unknown", f"{name} stopped the program",
                      registers=registers, pc=registers[self._cpu.PROGRAM_COUNTER], in_handler=site.in_handler)
        if info.address is None and info.code != SI_KERNEL:
            return self._sent(site, known)
        explain: dict[int, Callable[[FaultSite, Fault], SeenFault]] = {
            SIGSEGV: self._memory_fault, SIGBUS: self._bus_error, SIGFPE: self._arithmetic, SIGILL: self._illegal,
            SIGTRAP: self._trap, SIGSYS: self._forbidden_call}
        explained = explain.get(info.number)
        return explained(site, known) if explained is not None else SeenFault(known)

    # -- signals that were sent ------------------------------------------------------------------------------

    def _sent(self, site: FaultSite, known: Fault) -> SeenFault:
        info = site.info
        if info.number == SIGABRT and info.code == SI_TKILL and not site.by_others:
            return SeenFault(replace(known, kind="abort", text="the program called abort()"))
        if not info.pid:
            return SeenFault(replace(known, kind="sent", text=f"{known.signal} was sent; by whom is not recorded"))
        own = info.code == SI_TKILL and info.pid == self._target.pid
        sender = "another thread of the program" if own else f"process {info.pid}"
        return SeenFault(replace(known, kind="sent", sender=(info.pid, info.uid or 0),
                                 text=f"{known.signal} was sent by {sender}: the code that ran is not at fault"))

    # -- code ------------------------------------------------------------------------------------------------

    def instructions(self, pc: int) -> list[Instruction]:
        """See `code_up_to`."""
        return code_up_to(self._target, self._code, pc)

    def _from_callers(self, site: FaultSite, chain: list[Link]) -> list[Link]:
        """How a bad value came about that was an argument, and of whom: what the callers had it from.

        Of a caller only the registers are known that calls keep, so a value is followed only where memory confirms it.
        """
        links = list(chain)
        for depth in range(1, _MAX_CALLERS + 1):
            last = links[-1] if links else None
            if last is None or last.argument is None or depth >= len(site.frames):
                break
            after, sp = site.frames[depth]
            registers = self._frame_registers(site.thread, depth + site.offset)
            if (registers.get(self._cpu.PROGRAM_COUNTER), registers.get(self._cpu.STACK_POINTER)) != (after, sp):
                break  # the debugger unwinds otherwise
            call = self._call_ending_at(after)
            code = self.instructions(call) if call is not None else []
            if not code:
                break
            register = self._cpu.ARGUMENTS[last.argument - 1]
            more = self._chain(code, {**registers, register: last.value}, register)
            name = self._name(after - 1)
            links += [replace(link, text=f"in {name}: {link.text}") for link in more]
            if not more:
                break
        return links

    def _name(self, address: int) -> str:
        function = self._code.symbol(address).function
        module = self._code.module(address)
        return short_name(function) if function else f"a function of {module.name if module else 'no file'}"

    def _operands(self, code: Sequence[Instruction], site: FaultSite,
                  access: Access | None) -> tuple[tuple[Operand, ...], tuple[Link, ...]]:
        """The values that an instruction used, that of its bad address first, and how these came about."""
        instruction, registers = code[-1], site.registers
        sp = self._cpu.STACK_POINTER
        operands: list[Operand] = []
        links: list[Link] = []
        if access is not None:
            operand = access.operand
            used = [name for name in operand.address_registers if name in registers]
            address = operand.address(registers, instruction.next_address)
            if address is not None and [address] != [registers[name] for name in used]:
                # what is wrong with it is told of the register that it was made of
                base = registers.get(operand.base_register or "") if operand.base is not None else None
                bad = base is not None and self._pointers.describe(base).kind in BAD
                parts = [None if bad else self._pointers.describe(address).text,
                         self._held(address) if instruction.is_call else None]
                operands.append(Operand(operand.text, address, ", which ".join(filter(None, parts)) or None))
            for name in used:
                chain = self._from_callers(site, self._chain(code, registers, name)) if name != sp else []
                links += chain
                operands.append(Operand(f"%{name}", registers[name], self._pointers.describe(registers[name]).text,
                                        "; ".join(link.text for link in chain) or None))
        return tuple(operands), tuple(links)

    def _held(self, address: int) -> str | None:
        try:
            return f"holds {read_u64(self._memory, address):#x}"
        except GdbextError:
            return None

    def _chain(self, code: Sequence[Instruction], registers: Mapping[str, int], register: str) -> list[Link]:
        """How a register got its value: from memory, and how that pointer came about, and so on."""
        links: list[Link] = []
        index, value = len(code) - 1, registers.get(register, 0)
        while len(links) < _MAX_ORIGINS:
            found = self._cpu.origin(code, index, register)
            if found is None:
                break
            link = self._link(found, code, registers, register, value)
            if link is None:
                break
            links.append(link)
            if found.kind != "loaded" or found.instruction is None or found.operand is None:
                break
            base = found.operand.base_register if found.operand.base else None
            if base is None or link.base is None or base == self._cpu.STACK_POINTER:
                break
            index, register, value = code.index(found.instruction), base, link.base
        return links

    def _link(self, found: Origin, code: Sequence[Instruction], registers: Mapping[str, int], register: str,
              value: int) -> Link | None:
        surely = "" if found.certain else ", as far as the code before it tells"
        if found.kind == "argument" and found.argument is not None:
            name = self._name(code[-1].address)
            this = "`this`, " if found.argument == 1 and "::" in name else ""
            text = f"%{register} is {this}argument {found.argument} of {name}{surely}"
            return Link(register, value, None, None, text, found.argument if found.certain else None)
        instruction = found.instruction
        if instruction is None:
            return None
        if found.kind == "constant":
            return Link(register, value, None, None, f"%{register} was set by `{instruction.text}`{surely}")
        if found.kind == "result":
            return Link(register, value, None, None, f"%{register} was returned by {self._callee(instruction)}{surely}")
        if found.kind == "loaded" and found.operand is not None:
            return self._loaded(found, found.operand, instruction, registers, register, value, surely)
        return Link(register, value, None, None, f"%{register} was computed by `{instruction.text}`{surely}")

    def _loaded(self, found: Origin, operand: MemoryOperand, instruction: Instruction, registers: Mapping[str, int],
                register: str, value: int, surely: str) -> Link | None:
        text = f"%{register} was read from {operand.text}"
        address = operand.address(registers, instruction.next_address) if found.operand_unchanged else None
        if address is None:
            return Link(register, value, None, None, text + surely)
        # a part of a register may be all that was read
        size = next((access.size for access in instruction.accesses() if access.kind == "read"), None) or 8
        try:
            now = int.from_bytes(self._memory.read(address, min(size, 8)), "little")
        except GdbextError:
            return Link(register, value, None, None, text + surely)
        if now == value & (1 << 8 * size) - 1:
            surely = ""  # memory itself confirms it
        else:
            text += f" (where {now:#x} is now)"
        base = registers.get(operand.base_register or "") if operand.base else None
        if base is None or operand.index is not None or operand.segment is not None:
            where = self._pointers.describe(address)
            return Link(register, value, None, None, f"{text}, {where.text}{surely}")
        what = self._pointers.describe(base)
        return Link(register, value, base, operand.displacement,
                    f"{text}: %{operand.base} is {base:#x}, {what.text}{surely}")

    def _callee(self, instruction: Instruction) -> str:
        target = instruction.call_target
        if target is not None:
            name = self._code.symbol(target).function
            if name:
                return f"{short_name(name.partition('@')[0])}()"
        return f"`{instruction.text}`"

    # -- SIGSEGV ---------------------------------------------------------------------------------------------

    def _memory_fault(self, site: FaultSite, known: Fault) -> SeenFault:
        registers, info = site.registers, site.info
        pc = registers[self._cpu.PROGRAM_COUNTER]
        if self._is_no_code(pc, info):
            return self._ran_no_code(site, known)
        code = self.instructions(pc)
        if not code:
            return SeenFault(self._without_code(site, known))
        access, address = self._access(code[-1], registers, site)
        operands, links = self._operands(code, site, access)
        kind = site.access or (access.kind if access is not None else None)
        size = access.size if access is not None else None
        known = replace(known, instruction=code[-1].text, address=address, access=kind, size=size, operands=operands)
        explained = self._explained(site, known, code[-1], access, address)
        objects = [registers[name] for name in sorted(access.operand.registers if access is not None else ())
                   if name in registers and name not in self._cpu.NOT_DATA]
        objects += [link.base for link in links if link.base is not None]
        return SeenFault(explained, links, tuple(dict.fromkeys(objects)), pc)

    def _without_code(self, site: FaultSite, known: Fault) -> Fault:
        """What can be told where the code is not there: by the address alone."""
        address = site.info.address if site.info.code != SI_KERNEL else None
        known = replace(known, address=address, access=site.access)
        touched = f"{self._touched(address, site.access, None)} (the instruction is not there to be read)"
        if address is None:
            return replace(known, kind="general-protection", text=touched)
        if address < LOWEST:
            kind, what = ("null-pointer", "a null pointer") if address == 0 else (
                "null-member", f"the member at offset {address:#x} of a null pointer")
            return replace(known, kind=kind, text=f"{touched}: {what}", evidence=INFERRED,
                           why="nothing else makes so low an address")
        overflow = self._overflow(site.registers, address, site.info.code)
        if overflow is not None:
            return replace(known, kind="stack-overflow", text=f"{touched}: {overflow}", evidence=DERIVED,
                           why="the address lies just below the stack that the thread uses")
        return self._by_mapping(site.info, known, address, touched)

    def _access(self, instruction: Instruction, registers: Mapping[str, int],
                site: FaultSite) -> tuple[Access | None, int | None]:
        """Which of its operands an instruction faulted on, and the address."""
        accesses = [(access, access.operand.address(registers, instruction.next_address))
                    for access in instruction.accesses()]
        fault = site.info.address if site.info.code != SI_KERNEL else None
        if fault is not None:
            near = [(access, at) for access, at in accesses
                    if at is not None and at <= fault < at + max(access.size or 1, 1) + 63]
            near.sort(key=lambda pair: (site.access not in (None, pair[0].kind), pair[0].kind != "write"))
            return (near[0][0], fault) if near else (None, fault)
        # the processor does not tell the address of a general protection fault
        for access, at in accesses:
            if at is not None and (self._pointers.describe(at).kind in (NON_CANONICAL, PATTERN)
                                   or instruction.aligned and at % instruction.aligned):
                return access, at
        return None, None

    def _explained(self, site: FaultSite, known: Fault, instruction: Instruction, access: Access | None,
                   address: int | None) -> Fault:
        registers = site.registers
        if address is None:
            return replace(known, kind="general-protection", text="the processor refused the instruction "
                           f"`{instruction.text}` (general protection)")
        touched = self._touched(address, known.access, known.size)
        overflow = self._overflow(registers, address, site.info.code)
        if overflow is not None:
            return replace(known, kind="stack-overflow", text=f"{touched}: {overflow}", evidence=DERIVED,
                           why="the address lies just below the stack that the thread uses")
        if access is not None:
            bad = self._bad_base(access.operand, registers, address)
            if bad is not None:
                kind, text = bad
                return replace(known, kind=kind, text=f"{touched}: {text}")
        if instruction.aligned and address % instruction.aligned and site.info.code == SI_KERNEL:
            return replace(known, kind="misaligned", text=f"{touched}: `{instruction.mnemonic}` needs an address that "
                           f"{instruction.aligned} divides")
        return self._by_mapping(site.info, known, address, touched)

    def _touched(self, address: int | None, access: str | None, size: int | None) -> str:
        verb = _VERBS.get(access or "", "touched memory")
        count = f" {size} byte{'s' if size != 1 else ''}" if size and access in ("read", "write") else (
            " memory" if access in ("read", "write") else "")
        return f"{verb}{count} at {address:#x}" if address is not None else f"{verb}{count}"

    def _bad_base(self, operand: MemoryOperand, registers: Mapping[str, int], address: int) -> tuple[str, str] | None:
        """What is wrong with the register that an address was made of."""
        name = operand.base_register
        base = registers.get(name) if name else None
        if name is None or base is None:
            if operand.segment is None and address < LOWEST:
                return "null-pointer", "a null pointer"
            return None
        what = self._pointers.describe(base)
        offset = address - base
        place = f"at offset {offset:#x} of " if offset else ""
        if what.kind == NULL and 0 <= offset < LOWEST:
            if offset == 0:
                return "null-pointer", f"a null pointer (%{name})"
            return "null-member", f"the member at offset {offset:#x} of a null pointer (%{name})"
        if what.kind in (PATTERN,) or what.kind == UNMAPPED and "filled" in what.text:
            return "pattern", f"{place}%{name} = {base:#x}, {what.text.partition(' (')[0]}"
        if what.kind == NON_CANONICAL:
            return "non-canonical", f"{place}%{name} = {base:#x}, {what.text}"
        if what.kind == SMALL:
            return "small-pointer", f"{place}%{name} = {base:#x}, {what.text}"
        if self._pointers.describe(address).kind == NON_CANONICAL:
            return "non-canonical", f"no address of {self._cpu.TITLE} (not canonical), made of %{name} = {base:#x}"
        return None

    def _overflow(self, registers: Mapping[str, int], address: int, code: int | None) -> str | None:
        """Whether an address is what lies beyond the end of the stack in use."""
        sp, space = registers[self._cpu.STACK_POINTER], self._pointers.space
        if abs(address - sp) > _NEAR_STACK + _MAX_OVERRUN:
            return None
        here = space.find(address)
        if (here is not None and here.allows("w") and code == SEGV_MAPERR and here.start <= sp < here.end
                and address - here.start < _NEAR_STACK):
            # nothing was mapped at the time: a debugger that reads below a stack makes the kernel let it grow
            return f"the stack is used up, {here.end - address >> 10} KiB of it"
        # a guard page may not be touched; cores that GDB makes call it readable
        stack = space.above(address) if here is None or not here.allows("w") else None
        while stack is not None and not stack.allows("w") and stack.start - address <= _MAX_OVERRUN:
            stack = space.above(stack.start)
        if stack is None or not stack.allows("w") or stack.start - address > _MAX_OVERRUN:
            return None
        if not (stack.start - _MAX_OVERRUN <= sp < stack.end) or sp - stack.start > _NEAR_STACK:
            return None
        size = stack.end - stack.start
        return f"the stack is used up, {size >> 10} KiB of it"

    def _by_mapping(self, info: SignalInfo, known: Fault, address: int, touched: str) -> Fault:
        region = self._pointers.space.find(address)
        what = self._pointers.describe(address)
        if info.code == SEGV_PKUERR:
            return replace(known, kind="no-permission", text=f"{touched}: a protection key forbids it")
        if info.code == SEGV_MAPERR and region is not None:
            return replace(known, kind="unmapped", text=f"{touched}: nothing was mapped there at that time, though now "
                           f"it is {what.text}")
        if info.code == SEGV_ACCERR or region is not None and region.permissions is not None:
            allowed = "its mapping does not allow it"
            if region is not None and known.access in _NEEDED and region.allows(_NEEDED[known.access]):
                allowed = "its mapping did not allow it at that time"
            elif region is not None and region.permissions is not None:
                allowed = f"its mapping allows {region.permissions or 'no access'}"
            return replace(known, kind="no-permission", text=f"{touched}: {allowed} ({what.text})")
        if what.kind in BAD:
            return replace(known, kind="unmapped", text=f"{touched}: {what.text}")
        return replace(known, kind="unmapped", text=f"{touched}: nothing was mapped there")

    # -- calls to what is no code ------------------------------------------------------------------------------

    def _is_no_code(self, pc: int, info: SignalInfo) -> bool:
        region = self._pointers.space.find(pc)
        if region is not None and region.permissions is not None:
            return "x" not in region.permissions
        return info.address == pc or self._pointers.describe(pc).kind in BAD

    def _ran_no_code(self, site: FaultSite, known: Fault) -> SeenFault:
        registers = site.registers
        pc = registers[self._cpu.PROGRAM_COUNTER]
        what = self._pointers.describe(pc)
        kind = {NULL: "null-call", PATTERN: "pattern"}.get(what.kind, "execute-data")
        text = "called a null function pointer" if what.kind == NULL else (
            f"ran code at {pc:#x}: {what.text}, which is not executable" if what.kind not in BAD else
            f"called a function at {pc:#x}: {what.text}")
        known = replace(known, kind=kind, text=text, address=pc, access="execute")
        after = self._code.return_address(registers[self._cpu.STACK_POINTER])
        call = self._call_ending_at(after) if after is not None else None
        if call is None:
            return SeenFault(known)
        code = self.instructions(call)
        if not code or not code[-1].is_call:
            return SeenFault(known)
        access = next((each for each in code[-1].accesses() if each.kind == "read"), None)
        operands, links = self._operands(code, site, access)
        called = code[-1].operands[0] if code[-1].operands else None
        if access is None and isinstance(called, str):
            register, _ = code[-1].part(called) or (called, 0)
            chain = self._chain(code, registers, register) if register in registers else []
            links = tuple(self._from_callers(site, chain))
            if links:
                operands = (Operand(f"%{register}", registers[register], what.text,
                                    "; ".join(link.text for link in links)),)
        objects = [link.base for link in links if link.base is not None]
        return SeenFault(replace(known, instruction=code[-1].text, operands=operands), links, tuple(objects), call)

    def _call_ending_at(self, after: int) -> int | None:
        """The call before a return address."""
        found = self._code.function_range(after)
        if found is None:
            return None
        for address, size, text in self._disassemble(max(found[0], after - MAX_FUNCTION), after):
            if address + size == after and self._cpu.parse(address, size, text).is_call:
                return address
        return None

    # -- the other signals ---------------------------------------------------------------------------------------

    def _bus_error(self, site: FaultSite, known: Fault) -> SeenFault:
        seen = self._memory_fault(site, known)
        fault, address = seen.fault, site.info.address
        touched = self._touched(address, fault.access, fault.size)
        if site.info.code == BUS_ADRALN:
            return replace(seen, fault=replace(fault, kind="misaligned", text=f"{touched}: it is not aligned"))
        region = self._pointers.space.find(address) if address is not None else None
        # what is no file has a name in brackets, and the kernel calls memory of huge pages so
        if (site.info.code == BUS_ADRERR and address is not None and region is not None and region.path
                and region.path.startswith("/") and not region.path.startswith("/anon_hugepage")):
            at = address - region.start + region.offset
            return replace(seen, fault=replace(
                fault, kind="truncated-file", text=f"{touched}: byte {at:#x} of {region.path}, which is mapped but the "
                "file ends before it (it was truncated, or its disk is full)"))
        if site.info.code == BUS_ADRERR:
            return replace(seen, fault=replace(fault, kind="no-memory-behind", text=f"{touched}: a mapping that has no "
                           "memory behind it (a file that ends before it, or huge pages that ran out)"))
        if known.code in ("BUS_MCEERR_AR", "BUS_MCEERR_AO"):
            return replace(seen, fault=replace(fault, kind="hardware", text=f"{touched}: memory is faulty (hardware)"))
        return seen

    def _arithmetic(self, site: FaultSite, known: Fault) -> SeenFault:
        code = self.instructions(site.registers[self._cpu.PROGRAM_COUNTER])
        if not code:
            return SeenFault(replace(known, kind="arithmetic", text="an arithmetic error"))
        known = replace(known, instruction=code[-1].text, kind="arithmetic",
                        text=f"an arithmetic error in `{code[-1].text}`")
        if site.info.code != FPE_INTDIV:
            return SeenFault(known)
        value, operands, links = self._divisor(code, site.registers)
        if value == 0:
            return SeenFault(replace(known, kind="division", text="an integer was divided by 0", operands=operands),
                             links)
        if value is not None and code[-1].is_signed_division:
            part = code[-1].part(code[-1].operands[0])
            size = part[1] // 8 if part else next((access.size for access in code[-1].accesses()), None) or 8
            value -= value >> 8 * size - 1 << 8 * size
        what = "an integer was divided by 0, or the quotient is too large"
        return SeenFault(replace(known, kind="division", text=what if value is None else
                                 f"the quotient of a division by {value} is too large for its register",
                                 operands=operands), links)

    def _divisor(self, code: Sequence[Instruction], registers: Mapping[str, int],
                 ) -> tuple[int | None, tuple[Operand, ...], tuple[Link, ...]]:
        instruction = code[-1]
        access = next(iter(instruction.accesses()), None)
        if access is not None:
            address = access.operand.address(registers, instruction.next_address)
            try:
                data = self._memory.read(address or 0, access.size or 8)
            except GdbextError:
                return None, (), ()
            value = int.from_bytes(data, "little")
            return value, (Operand(access.operand.text, value),), ()
        part = instruction.operands[0] if instruction.operands else None
        whole = instruction.part(part) if part is not None else None
        if whole is None or whole[0] not in registers:
            return None, (), ()
        name, bits, text = *whole, f"%{part}"
        links = tuple(self._chain(code, registers, name))
        value = registers[name] & (1 << bits) - 1
        return value, (Operand(text, value, None, "; ".join(link.text for link in links) or None),), links

    def _illegal(self, site: FaultSite, known: Fault) -> SeenFault:
        code = self.instructions(site.registers[self._cpu.PROGRAM_COUNTER])
        text = code[-1].text if code else None
        known = replace(known, kind="illegal-instruction", instruction=text, address=site.info.address)
        if code and code[-1].is_trap:
            return SeenFault(replace(known, kind="trap", text="the program stopped itself (`ud2`): a compiler puts it "
                                     "where code must not get to, as for __builtin_trap() or a missing return"))
        if text is None:
            return SeenFault(replace(known, text="the processor refused an instruction, which is not there to be read"))
        if code[-1].is_undefined:
            return SeenFault(replace(known, text="ran what is no instruction: it jumped into data or between "
                                     "instructions"))
        return SeenFault(replace(known, text=f"the processor does not have the instruction `{text}`: the code was "
                                 "built for another"))

    def _trap(self, site: FaultSite, known: Fault) -> SeenFault:
        return SeenFault(replace(known, kind="trap", text="a breakpoint instruction (`int3`) that no debugger waited "
                                 "for: __builtin_debugtrap() or an assertion"))

    def _forbidden_call(self, site: FaultSite, known: Fault) -> SeenFault:
        number = site.registers[self._cpu.RESULT]
        return SeenFault(replace(known, kind="seccomp", text=f"system call {number} is forbidden by a seccomp filter"))
