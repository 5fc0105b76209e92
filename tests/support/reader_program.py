"""A thread in functions in assembler text, which call exported functions that acquire and release locks."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace

from gdbext.holders.proven import ProvenHolders
from gdbext.inferior.protocol import Section
from gdbext.model.kinds import LockKind
from gdbext.proofs.known_code import KnownCode
from gdbext.proofs.rules import Sought
from gdbext.threads.code import read_code
from gdbext.threads.findings import Findings
from gdbext.threads.threads import read_threads
from tests.support.fake_eh_frame import describe_functions
from tests.support.fake_elf import fake_elf
from tests.support.fake_target import APP_DATA, APP_TEXT, DRIVER_TEXT, FakeTarget, FakeThread

FUNCTION, WORK, LIBC = DRIVER_TEXT + 0x200, DRIVER_TEXT + 0x600, DRIVER_TEXT + 0x10_0000
LINKS = DRIVER_TEXT + 0x800
FUNCTIONS = {"pthread_rwlock_rdlock": 0x800, "pthread_rwlock_unlock": 0x900, "pthread_mutex_unlock": 0xA00}
#: Another library, with functions of Abseil as Debian 12 names them, and one of Boost.
ABSL = DRIVER_TEXT + 0x20_0000
LOCK_ABSL, UNLOCK_ABSL = "_ZN4absl7debian35Mutex4LockEv", "_ZN4absl7debian35Mutex6UnlockEv"
WAIT_ABSL, LOCK_BOOST = "_ZN4absl7debian37CondVar4WaitEPNS0_5MutexE", "_ZN5boost12shared_mutex4lockEv"
ABSL_FUNCTIONS = {LOCK_ABSL: 0x800, UNLOCK_ABSL: 0x900, WAIT_ABSL: 0xA00, LOCK_BOOST: 0xB00}
ADDRESSES = {**{name: LIBC + offset for name, offset in FUNCTIONS.items()},
             **{name: ABSL + offset for name, offset in ABSL_FUNCTIONS.items()}}
LOCK, STEP = 0x40_4100, 8
#: A lock in the data of the program.
VARIABLE = APP_DATA + 0x40
READING = ("push %rbx", "mov %rdi,%rbx", "call pthread_rwlock_rdlock", "call work", "mov %rbx,%rdi",
           "call pthread_rwlock_unlock", "call work", "pop %rbx", "ret")
KEEP = ("push %rbx", "mov %rdi,%rbx")
#: Indices of the calls of `work`: while the lock is held, and after its release.
HOLDING, RELEASED = 3, 6


class Reader:
    """A thread in a function of the driver, which has called another one; and the C library with its read locks."""

    def __init__(self, *lines: str, is_linked: bool = True, work: Sequence[str] = ()) -> None:
        self.target = FakeTarget()
        _, libc = fake_elf(LIBC, {name: (offset, 16) for name, offset in FUNCTIONS.items()}, "/lib/libc.so.6",
                           (Section(".text", LIBC + 0x800, LIBC + 0x1000),), memory=self.target.ram)
        _, absl = fake_elf(ABSL, {name: (offset, 16) for name, offset in ABSL_FUNCTIONS.items()}, "/lib/libabsl.so",
                           (Section(".text", ABSL + 0x800, ABSL + 0x1000),), memory=self.target.ram)
        driver = self.target.loaded[1]
        links = (Section(".got", LINKS, LINKS + 24),)
        self.target.loaded[1:3] = [replace(driver, sections=(*driver.sections, *links)), libc, absl]
        self.target.ram.ensure(DRIVER_TEXT, 0x1000)
        if is_linked:
            self.target.ram.u64(LINKS, 0, *(LIBC + FUNCTIONS[name] for name in (
                "pthread_rwlock_rdlock", "pthread_rwlock_unlock")))
        describe_functions(self.target, driver.path, FUNCTION, WORK)
        for at, line in [*((FUNCTION + STEP * i, line) for i, line in enumerate(lines or READING)),
                         *((WORK + STEP * i, line) for i, line in enumerate(work))]:
            name = line.partition("call ")[2]
            if name in ("work", *ADDRESSES):
                function = WORK if name == "work" else ADDRESSES[name]
                self.target.ram.write(at, b"\xe8" + struct.pack("<i", function - (at + 5)))
                line = f"call {function:#x}"
            elif "xchg" in line:
                self.target.ram.write(at, b"\x87\x00")
            self.target.instructions.append((at, STEP, line))
        self.thread: FakeThread = self.target.thread()

    def holds(self, index: int, lock: int = LOCK, inside: int = 0, kind: LockKind = "rwlock",
              namespace: str | None = None, **registers: int) -> bool:
        """Whether the thread holds the lock while the call of a line goes on; `registers` are those of that frame.

        :param inside: the line of `work` in which the thread is.
        """
        sp, pc = self.thread.stack + 0x100, FUNCTION + STEP * (index + 1)
        inner = WORK + STEP * inside
        self.thread.frames = [(inner, self.thread.stack), (pc, sp), (APP_TEXT + 0x80, self.thread.stack + 0x200)]
        self.thread.registers.update(rip=inner, rsp=self.thread.stack)
        self.target.older_registers[1, 1] = {"rip": pc, "rsp": sp, "rbx": LOCK, **registers}
        findings = Findings()
        code = read_code(self.target, findings)
        seen = read_threads(self.target, None, findings)[1]
        proven = ProvenHolders(self.target, code, self.target.loaded[2:3], KnownCode())
        return proven.find(seen, kind, Sought(lock), namespace) is not None
