"""A stopped process in fake memory: threads with registers and stacks, a C library, locks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gdbext import arch
from gdbext.arch import x86_64
from gdbext.arch.aarch64.system_calls import at_stop
from gdbext.errors import GdbextError, ThreadUnavailable
from gdbext.inferior.address_space import Region
from gdbext.inferior.proc.process import Proc
from gdbext.inferior.protocol import Memory, Module, Origin, Section, SignalInfo, Symbol, ThreadRef
from gdbext.layout.select import glibc_layouts
from gdbext.layout.table import Struct
from gdbext.model import ProblemKind, TargetKind
from tests.support.fake_memory import Builder, FakeMemory

FUTEX, READ, POLL, RESTART_SYSCALL = 202, 0, 7, 219
ERESTARTSYS, ERESTART_RESTARTBLOCK = (1 << 64) - 512, (1 << 64) - 516
NOT_IN_A_CALL = (1 << 64) - 1

#: The futex operations of glibc, named after the lock.
WAIT_PRIVATE, WAIT_BITSET_REALTIME, WAIT_BITSET_SHARED, LOCK_PI = 0x80, 0x189, 0x109, 0x86

STACKS = 0x7F00_0000_0000
STACK_STEP = 0x10_0000
STACK_SIZE = 0x2000

#: arm64: the code of the C library's system call (svc #0), and the numbers there of the calls above.
SVC = b"\x01\0\0\xd4"
ARM64_CALLS = {FUTEX: 98, READ: 63, POLL: 73, RESTART_SYSCALL: 128}

LIBC_TEXT, APP_TEXT, DRIVER_TEXT = 0x7E00_0001_0000, 0x40_1000, 0x7D00_0001_0000
APP_DATA = 0x40_4000


@dataclass
class FakeThread:
    """A thread; its registers and frames can be changed before a snapshot is taken."""

    ref: ThreadRef
    pthread: int
    stack: int
    registers: dict[str, int] = field(default_factory=dict)
    frames: list[tuple[int, int]] = field(default_factory=list)
    available: bool = True
    #: an error that the debugger's unwinder raises
    unwind_error: GdbextError | None = None


class FakeTarget:
    """A `Target` of fake threads in fake memory, with glibc 2.36."""

    def __init__(self, kind: TargetKind = "live", glibc: str = "2.36", machine: str = "x86_64") -> None:
        self.kind = kind
        self.pid = 100
        self.executable: str | None = "/app/server"
        self.architecture = machine
        self.ram = FakeMemory()
        self.memory: Memory = self.ram
        self.proc: Proc | None = None
        self.build = Builder(self.ram, glibc_layouts(glibc, machine), 0x6000_0000_0000)
        self.fakes: list[FakeThread] = []
        self.files: dict[str, bytes] = {}
        self.symbols: dict[int, Symbol] = {}
        self.told: list[tuple[str, ProblemKind, str]] = []
        self.locals: dict[tuple[int, int], list[tuple[str, str, str]]] = {}
        self.loaded: list[Module] = []
        self.mapped: list[tuple[int, str]] = []
        self.build_ids: dict[str, str] = {}
        self.variables_by_name: dict[str, int] = {}
        self.shown: int | None = 1
        self.signals: dict[int, SignalInfo] = {}
        self.older_registers: dict[tuple[int, int], dict[str, int]] = {}
        self.mappings: list[Region] = []
        self.kept: tuple[int, int] | None = None
        self.since: Mapping[int, float] = {}
        self.instructions: list[tuple[int, int, str]] = []
        self.demangled: dict[str, str] = {}
        self.robust_lists: dict[int, int] = {}
        self._add_modules(glibc)

    def _add_modules(self, glibc: str) -> None:
        banner = self.build.cstring(b"GNU C Library (Debian GLIBC) stable release version " + glibc.encode() + b".\n")
        self.ram.map(APP_DATA, bytes(0x1000))
        self.loaded += [
            Module("/app/server", (Section(".text", APP_TEXT, APP_TEXT + 0x1000),
                                   Section(".data", APP_DATA, APP_DATA + 0x1000)), is_main=True),
            Module("/app/libdrv.so", (Section(".text", DRIVER_TEXT, DRIVER_TEXT + 0x1000),)),
            Module("/lib/x86_64-linux-gnu/libc.so.6", (Section(".text", LIBC_TEXT, LIBC_TEXT + 0x10000),
                                                       Section(".rodata", banner, banner + 64))),
        ]

    # -- building --------------------------------------------------------------------------------------------

    def thread(self, tid: int | None = None, name: str | None = None) -> FakeThread:
        """Add a thread that runs in the main program; its TID is its LWP id unless one is given."""
        number = len(self.fakes) + 1
        lwp = self.pid + number - 1
        stack = STACKS + number * STACK_STEP
        self.ram.map(stack, bytes(STACK_SIZE))
        pthread = self.build.alloc(self.build.layouts["struct pthread"].size)
        made = FakeThread(ThreadRef(number, lwp, name), pthread, stack)
        if self.architecture == "x86_64":
            self.build.put("struct pthread", pthread, self=pthread, tid=lwp if tid is None else tid)
            made.registers = {"rip": APP_TEXT + 0x10, "rsp": stack, "rbp": 0, "rax": 0, "orig_rax": NOT_IN_A_CALL,
                              "fs_base": pthread}
        else:
            layout = self.build.layouts["struct pthread"]
            self.build.put("struct pthread", pthread, tid=lwp if tid is None else tid)
            self.ram.u64(pthread + layout.offset("robust_head") + 8, (1 << 64) - 32)
            made.registers = {"pc": APP_TEXT + 0x10, "sp": stack, "x29": 0, "x30": 0, "x8": 0,
                              "tpidr": pthread + layout.size}
        made.frames = [(APP_TEXT + 0x10, stack), (APP_TEXT + 0x80, stack + 0x800)]
        self.fakes.append(made)
        return made

    def blocked(self, thread: FakeThread, call: int, *arguments: int, rax: int = ERESTARTSYS) -> FakeThread:
        """Put a thread into a system call of the C library, called by the driver."""
        thread.frames = [(LIBC_TEXT + 0x100, thread.stack), (DRIVER_TEXT + 0x40, thread.stack + 0x100),
                         (APP_TEXT + 0x80, thread.stack + 0x800)]
        if self.architecture == "aarch64":
            self.ram.map(LIBC_TEXT + 0x100, SVC)
            thread.registers.update({f"x{index}": 0 for index in range(5)}, x5=0xFFFFFFFF, x8=ARM64_CALLS[call],
                                    pc=LIBC_TEXT + 0x100)
            thread.registers.update({f"x{index}": value for index, value in enumerate(arguments)})
            thread.registers = {**at_stop(self.ram, thread.registers)}
            return thread
        names = ("rdi", "rsi", "rdx", "r10", "r8", "r9")
        thread.registers.update(dict.fromkeys(names, 0))
        thread.registers.update(r9=0xFFFFFFFF)  # glibc's bit set for FUTEX_WAIT_BITSET
        thread.registers.update(zip(names, arguments))
        thread.registers.update(rip=LIBC_TEXT + 0x100, orig_rax=call, rax=rax)
        return thread

    def waits(self, thread: FakeThread, address: int, expected: int, op: int = WAIT_PRIVATE,
              timeout: int = 0) -> FakeThread:
        """Make a thread wait on a futex word."""
        rax = ERESTART_RESTARTBLOCK if timeout else ERESTARTSYS
        return self.blocked(thread, FUTEX, address, op, expected, timeout, rax=rax)

    def waits_for_mutex(self, thread: FakeThread, mutex: int, timeout: int = 0) -> FakeThread:
        """Make a thread wait in `pthread_mutex_lock`."""
        return self.waits(thread, mutex, 2, timeout=timeout)

    def mutex(self, owner: int | None, **more: int) -> int:
        """A mutex with waiters that a TID owns, or a free one."""
        at = self.build.alloc(self.build.layouts["pthread_mutex_t"].size)
        state = {"__lock": 2, "__owner": owner, "__nusers": 1} if owner is not None else {}
        return self.build.put("pthread_mutex_t", at, **{**state, **more})

    def rwlock(self, **members: int) -> int:
        """A read-write lock with these words."""
        # keep the next structure at a distance, so that they do not look like members of one structure
        return self.build.put("pthread_rwlock_t", self.build.alloc(1 << 13), **members)

    def remember(self, thread: FakeThread, address: int, at: int = 0x200) -> None:
        """Store an address on a thread's stack."""
        self.ram.u64(thread.stack + at, address)

    def name(self, address: int, function: str) -> None:
        """Define a symbol that covers an address."""
        self.symbols[address] = Symbol(function)

    # -- Target ----------------------------------------------------------------------------------------------

    def _fake(self, thread: ThreadRef) -> FakeThread:
        return next(fake for fake in self.fakes if fake.ref == thread)

    def threads(self) -> Sequence[ThreadRef]:
        """All threads."""
        return [fake.ref for fake in self.fakes]

    def registers(self, thread: ThreadRef, names: Sequence[str] = ()) -> Mapping[str, int]:
        """The thread's registers."""
        fake = self._fake(thread)
        cpu = arch.of(self.architecture) if self.architecture in ("x86_64", "aarch64") else x86_64
        if not fake.available or not {cpu.PROGRAM_COUNTER, cpu.STACK_POINTER} <= set(fake.registers):
            raise ThreadUnavailable(f"thread {thread.number} has no registers")
        return {name: value for name, value in fake.registers.items() if not names or name in names}

    def known_registers(self, thread: ThreadRef) -> Mapping[str, int]:
        """The thread's registers."""
        return self.registers(thread)

    def robust_list(self, thread: ThreadRef) -> int | None:
        return self.robust_lists.get(thread.number)

    def unwind(self, thread: ThreadRef, limit: int) -> list[tuple[int, int]]:
        """The thread's frames."""
        fake = self._fake(thread)
        if fake.unwind_error is not None:
            raise fake.unwind_error
        return fake.frames[:limit]

    def modules(self) -> Sequence[Module]:
        """All loaded modules."""
        return self.loaded

    def mapped_files(self) -> Sequence[tuple[int, str]]:
        """The mapped files."""
        return self.mapped

    def variable(self, module: Module, name: str) -> int | None:
        """The address set for the symbol."""
        return self.variables_by_name.get(name)

    def file_build_id(self, module: Module) -> str | None:
        """The build id set for the module's path."""
        return self.build_ids.get(module.path)

    def debug_structs(self, module: Module) -> Mapping[str, Struct]:
        """No debug information."""
        return {}

    def symbol(self, address: int) -> Symbol:
        """The symbol defined for the address or the next one, because callers look up the call instruction."""
        return self.symbols.get(address) or self.symbols.get(address + 1) or Symbol(None)

    def frame_symbol(self, address: int) -> Symbol:
        """As `symbol`."""
        return self.symbol(address)

    def source_file(self, address: int) -> str | None:
        """As `symbol`."""
        return self.symbol(address).file

    def variables(self, thread: ThreadRef, index: int) -> list[tuple[str, str, str]]:
        """See `Target.variables`."""
        return self.locals.get((thread.number, index), [])

    def selected(self) -> int | None:
        """See `Target.selected`."""
        return self.shown

    def signal(self, thread: ThreadRef) -> SignalInfo | None:
        """See `Target.signal`."""
        return self.signals.get(thread.number)

    def frame_registers(self, thread: ThreadRef, index: int) -> Mapping[str, int]:
        """See `Target.frame_registers`."""
        return self.older_registers.get((thread.number, index), {})

    def regions(self) -> Sequence[Region]:
        """See `Target.regions`."""
        return self.mappings

    def seconds_since_run(self, threads: Sequence[ThreadRef]) -> Mapping[int, float]:
        """See `Target.seconds_since_run`."""
        return self.since

    def core_kept(self) -> tuple[int, int] | None:
        """See `Target.core_kept`."""
        return self.kept

    def disassemble(self, low: int, high: int) -> Sequence[tuple[int, int, str]]:
        """See `Target.disassemble`."""
        return [each for each in self.instructions if low <= each[0] < high]

    def demangle(self, name: str) -> str:
        """See `Target.demangle`."""
        return self.demangled.get(name, name)

    def read_host_file(self, path: str, limit: int) -> bytes | None:
        """The contents of a file that was set."""
        data = self.files.get(path)
        return None if data is None else data[:limit]

    def has_file(self, path: str) -> bool:
        """Whether the file was set."""
        return path in self.files

    def reaches(self, path: str, offset: int) -> bool | None:
        """Whether the file that was set is long enough."""
        return offset < len(self.files[path]) if path in self.files else None

    def origin(self) -> Origin:
        """Nothing is known."""
        return Origin()

    def problems(self) -> Iterable[tuple[str, ProblemKind, str]]:
        """The problems that were set."""
        return self.told
