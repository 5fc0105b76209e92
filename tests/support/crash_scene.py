"""A process in fake memory in which one thread dies of a signal."""

from __future__ import annotations

from gdbext.arch.x86_64.registers import FRAME
from gdbext.crash.fault import FaultReader
from gdbext.crash.pointers import Pointers
from gdbext.crash.seen import FaultSite, SeenFault
from gdbext.inferior.address_space import Region
from gdbext.inferior.protocol import SignalInfo
from gdbext.inferior.signals import SI_KERNEL, SI_TKILL, SIGABRT, SIGSEGV
from gdbext.model import Crash, Fault, Operand
from gdbext.narrate.reasons import explain
from gdbext.snapshot import take_snapshot
from gdbext.threads.code import read_code
from gdbext.threads.findings import Findings
from gdbext.threads.threads import read_threads
from tests.support.fake_eh_frame import describe_functions
from tests.support.fake_target import APP_DATA, APP_TEXT, DRIVER_TEXT, LIBC_TEXT, STACK_SIZE, FakeTarget, FakeThread

MAPERR, ACCERR, PKUERR = 1, 2, 4
HEAP, MAPPED_FILE = 0x50_0000_0000, 0x60_0000
#: The start addresses of functions, 0x100 apart in each file.
FUNCTION, CALLER, OUTERMOST = DRIVER_TEXT + 0x200, APP_TEXT + 0x200, APP_TEXT + 0x300
STEP = 4


class Scene:
    """A thread that dies in `FUNCTION` of the driver, called by `CALLER` of the program."""

    def __init__(self, target: FakeTarget | None = None) -> None:
        self.target = target = target or FakeTarget("core")
        self.thread: FakeThread = target.thread()
        self.stack = self.thread.stack
        for start, size in ((HEAP, 0x2000), (APP_TEXT, 0x1000), (DRIVER_TEXT, 0x1000), (LIBC_TEXT, 0x10000)):
            target.ram.ensure(start, size)
        target.mappings = [
            Region(APP_TEXT, APP_TEXT + 0x1000, "rx", "/app/server"),
            Region(APP_DATA, APP_DATA + 0x1000, "rw", "/app/server", 0x3000),
            Region(MAPPED_FILE, MAPPED_FILE + 0x4000, "rw", "/data/table", 0x1000),
            Region(HEAP, HEAP + 0x2000, "rw", "[heap]"),
            Region(HEAP + 0x3000, HEAP + 0x4000, "r", None),
            Region(DRIVER_TEXT, DRIVER_TEXT + 0x1000, "rx", "/app/libdrv.so"),
            Region(LIBC_TEXT, LIBC_TEXT + 0x10000, "rx", "/lib/x86_64-linux-gnu/libc.so.6"),
            Region(self.stack - 0x1000, self.stack, "", None),
            Region(self.stack, self.stack + STACK_SIZE, "rw", None)]
        describe_functions(target, "/app/libdrv.so", FUNCTION)
        describe_functions(target, "/app/server", CALLER, OUTERMOST)
        self.frames: list[tuple[int, int]] = []
        self.registers = {**dict.fromkeys(FRAME, 0), "rip": FUNCTION, "rsp": self.stack + 0x100, "rbp": HEAP}

    def code(self, *texts: str, at: int = FUNCTION) -> int:
        """Add instructions of 4 bytes each to a function; returns the address of the last one."""
        self.target.instructions += [(at + STEP * i, STEP, text) for i, text in enumerate(texts)]
        return at + STEP * (len(texts) - 1)

    def called_by(self, depth: int, function: int, *texts: str, **registers: int) -> None:
        """Add a caller with its registers; its last instruction is the call."""
        after = self.code(*texts, at=function) + STEP
        sp = self.stack + 0x200 * depth
        while len(self.frames) < depth:
            self.frames.append((self.registers["rip"], self.registers["rsp"]))
        self.frames.append((after, sp))
        self.target.older_registers[1, depth] = {"rip": after, "rsp": sp, **registers}

    def read(self, info: SignalInfo, access: str | None = None, **registers: int) -> SeenFault:
        findings = Findings()
        self.registers.update(registers)
        code = read_code(self.target, findings)
        threads = read_threads(self.target, None, findings)
        reader = FaultReader(self.target, code, Pointers(self.target, code, threads, ()))
        frames = [(self.registers["rip"], self.registers["rsp"]), *self.frames[1:]]
        return reader.read(FaultSite(self.target.fakes[0].ref, info, self.registers, access, frames=frames))

    def segv(self, *texts: str, address: int | None = None, code: int = MAPERR, access: str | None = None,
             **registers: int) -> Fault:
        """SIGSEGV in the last instruction; without `address` the kernel reports none."""
        info = SignalInfo(SIGSEGV, SI_KERNEL if address is None else code, address or 0)
        registers.setdefault("rip", self.code(*texts))
        return self.read(info, access, **registers).fault


def crash_of(target: FakeTarget) -> Crash:
    snapshot = take_snapshot(target)
    return snapshot.crash(snapshot.report(lambda thread: False))


def aborted(scene: Scene) -> FakeThread:
    """Let the thread call `abort` in `FUNCTION`."""
    thread = scene.thread
    pcs = (LIBC_TEXT + 0x100, LIBC_TEXT + 0x200, FUNCTION, APP_TEXT + 0x80)
    scene.target.name(LIBC_TEXT + 0x200, "abort")
    thread.frames = [(pc, thread.stack + 0x100 * i) for i, pc in enumerate(pcs)]
    thread.registers.update(scene.registers, rip=pcs[0], rsp=thread.stack, orig_rax=234, fs_base=thread.pthread)
    scene.target.signals[1] = SignalInfo(SIGABRT, SI_TKILL, None, 100, 5)
    return thread


def origins(fault: Fault, index: int | None = None) -> list[str]:
    """The origins of an operand; without an index, of the first register."""
    operand = (next(each for each in fault.operands if each.text.startswith("%")) if index is None
               else fault.operands[index])
    return [explain(each) for each in operand.came_from]


def described(operand: Operand) -> str | None:
    """The description of an operand's value as an address."""
    return None if operand.what is None else explain(operand.what)
