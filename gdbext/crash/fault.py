"""What a fault was: which instruction accessed which address, what that address is, and where it came from.

Everything is found by registers, memory, mappings and the code itself; no symbols are needed. Sources: Linux 6.1
arch/x86/mm/fault.c, kernel/traps.c (which signal and code a fault has), Intel SDM volume 3 chapter 6.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from gdbext.arch.protocol import Access, Instruction, MemoryOperand, Origin
from gdbext.crash.pointers import BAD, LOWEST, NON_CANONICAL, NULL, PATTERN, SMALL, Pointers, function_name
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
from gdbext.model.reasons import Reason, because
from gdbext.record import record
from gdbext.threads.code import Code
from gdbext.threads.function_code import MAX_FUNCTION, code_up_to

#: How much code of one function is decoded, in bytes, and how far a stack may be overrun at once.
_MAX_OVERRUN = 1 << 20
#: How far from the stack pointer an instruction touches the stack.
_NEAR_STACK = 1 << 16
#: How many origins of a value are followed in one function, and through how many callers.
_MAX_ORIGINS, _MAX_CALLERS = 4, 4
_NEEDED = {"read": "r", "write": "w", "execute": "x"}


@record
class FaultSite:
    """Where a thread was when it was stopped: its registers then, and what the kernel recorded about the fault.

    `access` is how memory was accessed, where the kernel recorded it; `in_handler` is true if `registers` were found
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
    origin: Reason
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
        known = Fault(name, code_name(info.number, info.code), "unknown", because("stopped-by-signal", signal=name),
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
            return SeenFault(replace(known, kind="abort", text=because("called-abort")))
        if not info.pid:
            return SeenFault(replace(known, kind="sent", text=because("sender-unknown", signal=known.signal)))
        text = because("sent-by-process", signal=known.signal, pid=info.pid)
        if info.code == SI_TKILL and info.pid == self._target.pid:
            text = because("sent-by-own-thread", signal=known.signal)
        return SeenFault(replace(known, kind="sent", sender=(info.pid, info.uid or 0), text=text))

    # -- code ------------------------------------------------------------------------------------------------

    def instructions(self, pc: int) -> list[Instruction]:
        """See `code_up_to`."""
        return code_up_to(self._target, self._code, pc)

    def _from_callers(self, site: FaultSite, chain: list[Link]) -> list[Link]:
        """Follow a bad value that was an argument through the callers.

        Only the registers that calls preserve are known of a caller, so a value is followed only where memory confirms
        it.
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
            links += [replace(link, origin=because("in-caller", function=name, origin=link.origin)) for link in more]
            if not more:
                break
        return links

    def _name(self, address: int) -> Reason:
        return function_name(self._code.symbol(address).function, self._code.module(address))

    def _operands(self, code: Sequence[Instruction], site: FaultSite,
                  access: Access | None) -> tuple[tuple[Operand, ...], tuple[Link, ...]]:
        """The values that an instruction used, that of its bad address first, and where these came from."""
        instruction, registers = code[-1], site.registers
        sp = self._cpu.STACK_POINTER
        operands: list[Operand] = []
        links: list[Link] = []
        if access is not None:
            operand = access.operand
            used = [name for name in operand.address_registers if name in registers]
            address = operand.address(registers, instruction.next_address)
            if address is not None and [address] != [registers[name] for name in used]:
                # the register that it was made of says what is wrong with it
                base = registers.get(operand.base_register or "") if operand.base is not None else None
                bad = base is not None and self._pointers.describe(base).kind in BAD
                what = None if bad else self._pointers.describe(address).what
                if instruction.kind == "call":
                    what = self._content(address, what)
                operands.append(Operand(operand.text, address, what))
            for name in used:
                chain = self._from_callers(site, self._chain(code, registers, name)) if name != sp else []
                links += chain
                operands.append(Operand(f"%{name}", registers[name], self._pointers.describe(registers[name]).what,
                                        tuple(link.origin for link in chain)))
        return tuple(operands), tuple(links)

    def _content(self, address: int, what: Reason | None) -> Reason | None:
        try:
            return because("memory-holding", what=what, value=read_u64(self._memory, address))
        except GdbextError:
            return what

    def _chain(self, code: Sequence[Instruction], registers: Mapping[str, int], register: str) -> list[Link]:
        """How a register got its value: from memory, and where that pointer came from, and so on."""
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
        if found.kind == "argument" and found.argument is not None:
            name = self._name(code[-1].address)
            is_this = found.argument == 1 and name.code == "function" and "::" in str(dict(name.arguments)["name"])
            return Link(register, value, None, None, _unless_sure(found, because(
                "argument", register=register, number=found.argument, function=name, is_this=int(is_this))),
                found.argument if found.certain else None)
        instruction = found.instruction
        if instruction is None:
            return None
        if found.kind == "loaded" and found.operand is not None:
            return self._loaded(found, found.operand, instruction, registers, register, value)
        if found.kind == "result":
            text = because("result", register=register, function=self._callee(instruction))
        else:
            text = because("constant" if found.kind == "constant" else "computed", register=register,
                           instruction=instruction.text)
        return Link(register, value, None, None, _unless_sure(found, text))

    def _loaded(self, found: Origin, operand: MemoryOperand, instruction: Instruction, registers: Mapping[str, int],
                register: str, value: int) -> Link | None:
        read = {"register": register, "operand": operand.text}
        address = operand.address(registers, instruction.next_address) if found.operand_unchanged else None
        if address is None:
            return Link(register, value, None, None, _unless_sure(found, because("loaded", **read)))
        # a part of a register may be all that was read
        size = next((access.size for access in instruction.accesses() if access.kind == "read"), None) or 8
        try:
            now = int.from_bytes(self._memory.read(address, min(size, 8)), "little")
        except GdbextError:
            return Link(register, value, None, None, _unless_sure(found, because("loaded", **read)))
        is_same = now == value & (1 << 8 * size) - 1  # then memory itself confirms the origin
        base = registers.get(operand.base_register or "") if operand.base else None
        if base is None or operand.index is not None or operand.segment is not None:
            base = offset = None
            text = because("loaded", now=None if is_same else now, what=self._pointers.describe(address).what, **read)
        else:
            offset = operand.displacement
            text = because("loaded", now=None if is_same else now, base=operand.base, value=base,
                           what=self._pointers.describe(base).what, **read)
        return Link(register, value, base, offset, text if is_same else _unless_sure(found, text))

    def _callee(self, instruction: Instruction) -> Reason | str:
        target = instruction.call_target
        name = self._code.symbol(target).function if target is not None else None
        return function_name(name.partition("@")[0], None) if name else f"`{instruction.text}`"

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
        objects = [registers[name] for name in sorted(access.operand.address_registers if access is not None else ())
                   if name in registers and name not in self._cpu.NOT_DATA]
        objects += [link.base for link in links if link.base is not None]
        return SeenFault(explained, links, tuple(dict.fromkeys(objects)), pc)

    def _without_code(self, site: FaultSite, known: Fault) -> Fault:
        """Explain a fault by the address alone, where the code cannot be read."""
        address = site.info.address if site.info.code != SI_KERNEL else None
        known = replace(known, address=address, access=site.access)
        if address is None:
            return _accessed(known, "general-protection")
        if address < LOWEST:
            kind, text = ("null-pointer", because("null-pointer")) if address == 0 else (
                "null-member", because("null-member", offset=address))
            return replace(_accessed(known, kind, text), evidence=INFERRED, why=because("only-null-is-so-low"))
        return self._overflow(site.registers, known, site.info.code) or self._by_mapping(site.info, known, address)

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
                                   or instruction.alignment and at % instruction.alignment):
                return access, at
        return None, None

    def _explained(self, site: FaultSite, known: Fault, instruction: Instruction, access: Access | None,
                   address: int | None) -> Fault:
        registers = site.registers
        if address is None:
            return replace(known, kind="general-protection",
                           text=because("refused-instruction", instruction=instruction.text))
        overflow = self._overflow(registers, known, site.info.code)
        if overflow is not None:
            return overflow
        if access is not None:
            bad = self._bad_base(access.operand, registers, address)
            if bad is not None:
                return _accessed(known, *bad)
        if instruction.alignment and address % instruction.alignment and site.info.code == SI_KERNEL:
            return _accessed(known, "misaligned", because("misaligned-for", mnemonic=instruction.mnemonic,
                                                          alignment=instruction.alignment))
        return self._by_mapping(site.info, known, address)

    def _bad_base(self, operand: MemoryOperand, registers: Mapping[str, int],
                  address: int) -> tuple[str, Reason] | None:
        """The kind of fault and its reason, if the register that an address was made of is bad."""
        name = operand.base_register
        base = registers.get(name) if name else None
        if name is None or base is None:
            if operand.segment is None and address < LOWEST:
                return "null-pointer", because("null-pointer")
            return None
        what = self._pointers.describe(base)
        offset = address - base
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

    def _overflow(self, registers: Mapping[str, int], known: Fault, code: int | None) -> Fault | None:
        """The fault, if its address is just beyond the end of the stack in use."""
        size = self._used_up(registers, known.address or 0, code)
        if size is None:
            return None
        return replace(_accessed(known, "stack-overflow", because("stack-used-up", kib=size >> 10)), evidence=DERIVED,
                       why=because("just-below-stack"))

    def _used_up(self, registers: Mapping[str, int], address: int, code: int | None) -> int | None:
        """Size of the stack that is used up, in bytes, if the address is just beyond its end."""
        sp, space = registers[self._cpu.STACK_POINTER], self._pointers.space
        if abs(address - sp) > _NEAR_STACK + _MAX_OVERRUN:
            return None
        here = space.find(address)
        if (here is not None and here.allows("w") and code == SEGV_MAPERR and here.start <= sp < here.end
                and address - here.start < _NEAR_STACK):
            # nothing was mapped at the time: a debugger that reads below a stack makes the kernel let it grow
            return here.end - address
        # a guard page may not be touched; cores that GDB makes call it readable
        stack = space.above(address) if here is None or not here.allows("w") else None
        while stack is not None and not stack.allows("w") and stack.start - address <= _MAX_OVERRUN:
            stack = space.above(stack.start)
        if stack is None or not stack.allows("w") or stack.start - address > _MAX_OVERRUN:
            return None
        if not (stack.start - _MAX_OVERRUN <= sp < stack.end) or sp - stack.start > _NEAR_STACK:
            return None
        return stack.end - stack.start

    def _by_mapping(self, info: SignalInfo, known: Fault, address: int) -> Fault:
        region = self._pointers.space.find(address)
        pointer = self._pointers.describe(address)
        if info.code == SEGV_PKUERR:
            return _accessed(known, "no-permission", because("protection-key"))
        if info.code == SEGV_MAPERR and region is not None:
            return _accessed(known, "unmapped", because("mapped-since", what=pointer.what))
        if info.code == SEGV_ACCERR or region is not None and region.permissions is not None:
            if region is not None and known.access in _NEEDED and region.allows(_NEEDED[known.access]):
                return _accessed(known, "no-permission", because("forbidden-then", what=pointer.what))
            if region is not None and region.permissions is not None:
                allowed = because("allowed-only", permissions=region.permissions, what=pointer.what)
                return _accessed(known, "no-permission", allowed)
            return _accessed(known, "no-permission", because("forbidden", what=pointer.what))
        return _accessed(known, "unmapped", pointer.what if pointer.kind in BAD else because("nothing-mapped"))

    # -- calls to what is no code ------------------------------------------------------------------------------

    def _is_no_code(self, pc: int, info: SignalInfo) -> bool:
        region = self._pointers.space.find(pc)
        if region is not None and region.permissions is not None:
            return "x" not in region.permissions
        return info.address == pc or self._pointers.describe(pc).kind in BAD

    def _ran_no_code(self, site: FaultSite, known: Fault) -> SeenFault:
        registers = site.registers
        pc = registers[self._cpu.PROGRAM_COUNTER]
        pointer = self._pointers.describe(pc)
        kind = {NULL: "null-call", PATTERN: "pattern"}.get(pointer.kind, "execute-data")
        text = because("called-null") if pointer.kind == NULL else because(
            "called-bad-address" if pointer.kind in BAD else "ran-data", address=pc, what=pointer.what)
        known = replace(known, kind=kind, text=text, address=pc, access="execute")
        after = self._code.return_address(registers[self._cpu.STACK_POINTER])
        call = self._call_ending_at(after) if after is not None else None
        if call is None:
            return SeenFault(known)
        code = self.instructions(call)
        if not code or code[-1].kind != "call":
            return SeenFault(known)
        access = next((each for each in code[-1].accesses() if each.kind == "read"), None)
        operands, links = self._operands(code, site, access)
        called = code[-1].operands[0] if code[-1].operands else None
        if access is None and isinstance(called, str):
            register, _ = code[-1].part(called) or (called, 0)
            chain = self._chain(code, registers, register) if register in registers else []
            links = tuple(self._from_callers(site, chain))
            if links:
                operands = (Operand(f"%{register}", registers[register], pointer.what,
                                    tuple(link.origin for link in links)),)
        objects = [link.base for link in links if link.base is not None]
        return SeenFault(replace(known, instruction=code[-1].text, operands=operands), links, tuple(objects), call)

    def _call_ending_at(self, after: int) -> int | None:
        """The call before a return address."""
        found = self._code.function_range(after)
        if found is None:
            return None
        for address, size, text in self._disassemble(max(found[0], after - MAX_FUNCTION), after):
            if address + size == after and self._cpu.parse(address, size, text).kind == "call":
                return address
        return None

    # -- the other signals ---------------------------------------------------------------------------------------

    def _bus_error(self, site: FaultSite, known: Fault) -> SeenFault:
        seen = self._memory_fault(site, known)
        address = site.info.address
        fault = replace(seen.fault, address=address)
        if site.info.code == BUS_ADRALN:
            return replace(seen, fault=_accessed(fault, "misaligned", because("misaligned")))
        region = self._pointers.space.find(address) if address is not None else None
        # what is no file has a name in brackets, and the kernel calls memory of huge pages so
        if (site.info.code == BUS_ADRERR and address is not None and region is not None and region.path
                and region.path.startswith("/") and not region.path.startswith("/anon_hugepage")):
            at = address - region.start + region.offset
            text = because("file-too-short", offset=at, path=region.path)
            return replace(seen, fault=_accessed(fault, "truncated-file", text))
        if site.info.code == BUS_ADRERR:
            return replace(seen, fault=_accessed(fault, "no-memory-behind", because("no-memory-behind")))
        if known.code in ("BUS_MCEERR_AR", "BUS_MCEERR_AO"):
            return replace(seen, fault=_accessed(fault, "hardware", because("faulty-memory")))
        return seen

    def _arithmetic(self, site: FaultSite, known: Fault) -> SeenFault:
        code = self.instructions(site.registers[self._cpu.PROGRAM_COUNTER])
        if not code:
            return SeenFault(replace(known, kind="arithmetic", text=because("arithmetic-error")))
        known = replace(known, instruction=code[-1].text, kind="arithmetic",
                        text=because("arithmetic-error-in", instruction=code[-1].text))
        if site.info.code != FPE_INTDIV:
            return SeenFault(known)
        value, operands, links = self._divisor(code, site.registers)
        if value == 0:
            return SeenFault(replace(known, kind="division", text=because("divided-by-zero"), operands=operands), links)
        if value is not None and code[-1].kind == "signed division":
            part = code[-1].part(code[-1].operands[0])
            size = part[1] // 8 if part else next((access.size for access in code[-1].accesses()), None) or 8
            value -= value >> 8 * size - 1 << 8 * size
        text = because("divided-by-zero-or-overflow") if value is None else because("quotient-too-large", divisor=value)
        return SeenFault(replace(known, kind="division", text=text, operands=operands), links)

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
        name, bits = whole
        links = tuple(self._chain(code, registers, name))
        value = registers[name] & (1 << bits) - 1
        return value, (Operand(f"%{part}", value, None, tuple(link.origin for link in links)),), links

    def _illegal(self, site: FaultSite, known: Fault) -> SeenFault:
        code = self.instructions(site.registers[self._cpu.PROGRAM_COUNTER])
        text = code[-1].text if code else None
        known = replace(known, kind="illegal-instruction", instruction=text, address=site.info.address)
        if code and code[-1].kind == "trap":
            return SeenFault(replace(known, kind="trap", text=because("stopped-itself")))
        if text is None:
            return SeenFault(replace(known, text=because("unreadable-instruction")))
        if code[-1].kind == "undefined":
            return SeenFault(replace(known, text=because("not-an-instruction")))
        return SeenFault(replace(known, text=because("unsupported-instruction", instruction=text)))

    def _trap(self, site: FaultSite, known: Fault) -> SeenFault:
        return SeenFault(replace(known, kind="trap", text=because("breakpoint-instruction")))

    def _forbidden_call(self, site: FaultSite, known: Fault) -> SeenFault:
        number = site.registers[self._cpu.RESULT]
        return SeenFault(replace(known, kind="seccomp", text=because("forbidden-system-call", number=number)))


def _accessed(known: Fault, kind: str, problem: Reason | None = None) -> Fault:
    """The fault as a bad access to its address."""
    is_readable = known.instruction is not None or known.access == "execute"
    return replace(known, kind=kind, text=because("accessed", access=known.access, size=known.size,
                                                  address=known.address, is_readable=int(is_readable), problem=problem))


def _unless_sure(found: Origin, text: Reason) -> Reason:
    return text if found.certain else because("uncertain-origin", origin=text)
