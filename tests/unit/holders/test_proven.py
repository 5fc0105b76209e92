from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from gdbext.holders.known_code import KnownCode
from gdbext.holders.proven import ProvenHolders
from gdbext.inferior.protocol import Section
from gdbext.model.kinds import LockKind
from gdbext.threads.code import Code, read_code
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
        return proven.find(seen, kind, lock, namespace=namespace) is not None


@pytest.mark.parametrize(("index", "is_held"), [(2, False), (HOLDING, True), (RELEASED, False)])
def test_lock_is_held_between_acquisition_and_release(index: int, is_held: bool) -> None:
    assert Reader().holds(index) == is_held


def test_lock_at_another_address_is_not_held() -> None:
    assert not Reader().holds(HOLDING, LOCK + 0x40)
    assert not Reader().holds(HOLDING, rbx=LOCK + 0x40)


def test_registers_of_another_frame_prove_nothing() -> None:
    """The debugger unwinds the stack in another way than the frame descriptions do."""
    assert not Reader().holds(HOLDING, rsp=0x7000)


def test_address_on_the_stack_proves_it_too() -> None:
    lines = ("sub $0x20,%rsp", "mov %rdi,0x8(%rsp)", "call pthread_rwlock_rdlock", "call work", "ret")
    reader = Reader(*lines)
    reader.target.ram.u64(reader.thread.stack + 0x108, LOCK)
    assert reader.holds(HOLDING, rbx=0)
    reader.target.ram.u64(reader.thread.stack + 0x108, LOCK + 8)
    assert not reader.holds(HOLDING, rbx=0)


def test_address_that_nothing_keeps_proves_nothing() -> None:
    assert not Reader("push %rbx", "nop", "call pthread_rwlock_rdlock", "call work", "ret").holds(HOLDING)


def test_file_without_a_link_to_read_locks_is_not_examined() -> None:
    assert not Reader(is_linked=False).holds(HOLDING)


def test_lock_that_is_being_released_is_not_held() -> None:
    assert READING[5] == "call pthread_rwlock_unlock"
    assert not Reader().holds(5)


RELEASING = ("push %rbx", "mov %rdi,%rbx", "call pthread_rwlock_unlock", "nop", "call pthread_rwlock_rdlock", "ret")


@pytest.mark.parametrize(("inside", "is_held"), [(1, True), (3, False), (5, False)])
def test_lock_that_the_called_function_releases_is_not_held(inside: int, is_held: bool) -> None:
    """As a wait for a condition does, which takes the lock again later."""
    assert Reader(work=RELEASING).holds(HOLDING, inside=inside) == is_held


def test_lock_that_the_called_function_takes_once_more_is_held() -> None:
    work = (*KEEP, "call pthread_rwlock_rdlock", "mov %rbx,%rdi", "call pthread_rwlock_unlock", "nop")
    assert Reader(work=work).holds(HOLDING, inside=5)


def test_proof_names_the_function_that_acquired() -> None:
    reader = Reader()
    reader.holds(HOLDING)
    findings = Findings()
    code = read_code(reader.target, findings)
    seen = read_threads(reader.target, None, findings)[1]
    proof = ProvenHolders(reader.target, code, reader.target.loaded[2:3], KnownCode()).find(seen, "rwlock", LOCK)
    assert proof is not None
    assert (proof.call, proof.module) == ("pthread_rwlock_rdlock", "libdrv.so")


#: Acquires a mutex of Rust, and calls with its address in a register.
LOCKING = ("push %rbx", "mov %rdi,%rbx", "xor %eax,%eax", "mov $0x1,%ecx", "lock cmpxchg %ecx,(%rdi)",
           f"jne {FUNCTION + 8 * STEP:#x}")


@pytest.mark.parametrize(("argument", "work", "inside", "is_held"), [
    ("xor %edi,%edi", ("call *%rdx", "nop", "ret"), 1, True),  # the function does not get the address
    ("nop", ("nop", "nop", "ret"), 1, True),
    ("nop", ("call *%rdx", "nop", "ret"), 1, False),  # it may have passed it on
    ("nop", ("nop", "call *%rdx", "ret"), 1, True),  # it has not returned yet
])
def test_lock_that_a_callee_may_have_passed_on_is_not_held(
        argument: str, work: tuple[str, ...], inside: int, is_held: bool) -> None:
    reader = Reader(*LOCKING, argument, "call work", "ret", work=work)
    assert reader.holds(7, inside=inside, kind="rust-mutex") == is_held


@pytest.mark.parametrize(("rbx", "is_held"), [(LOCK, False), (LOCK + 0x40, True), (None, False)])
def test_callee_may_have_released_another_lock(rbx: int | None, is_held: bool) -> None:
    work = ("push %rbx", "mov %rsi,%rbx", "xor %eax,%eax", "xchg %eax,(%rbx)", "nop", "ret")
    reader = Reader(*LOCKING, "xor %edi,%edi", "call work", "ret", work=work)
    if rbx is not None:
        reader.thread.registers["rbx"] = rbx
    else:
        reader.thread.registers.pop("rbx", None)
    assert reader.holds(7, inside=4, kind="rust-mutex") == is_held


def test_lock_that_was_passed_to_a_function_that_is_not_known_is_not_held() -> None:
    """The function may have released it, and then jumped to the one in which the thread is."""
    assert not Reader(*LOCKING, "nop", "call *%rdx", "ret", work=("nop", "ret")).holds(7, kind="rust-mutex")


#: Acquires a mutex of Qt 6, and calls with its address in a register.
LOCKING_QT = ("push %rbx", "mov %rdi,%rbx", "xor %eax,%eax", "mov $0x1,%ecx", "lock cmpxchg %rcx,(%rdi)",
              f"jne {FUNCTION + 10 * STEP:#x}")


@pytest.mark.parametrize(("lines", "is_held"), [
    (("nop", "xor %edi,%edi"), True),
    (("xor %edi,%edi", "xchg %rdi,(%rbx)"), False),  # as Qt 6.8 and later release it
    (("mov $0x1,%eax", "lock cmpxchg %rdi,(%rbx)"), False),  # as earlier ones do
])
def test_mutex_of_qt_is_held_until_an_exchange_releases_it(lines: tuple[str, str], is_held: bool) -> None:
    reader = Reader(*LOCKING_QT, *lines, "call work", "ret", "ret", work=("nop", "nop", "ret"))
    assert reader.holds(8, inside=1, kind="qt-mutex") == is_held


@pytest.mark.parametrize("is_linked", [True, False])
def test_lock_of_another_file_is_held_only_by_code_of_files_that_are_linked_to_it(
        is_linked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The code has the address of the lock, as a constant that is in neither a register nor the stack."""
    def frame_registers(code: Code, registers: Mapping[str, int], index: int) -> Mapping[str, int]:
        pc, sp = reader.thread.frames[index]
        return {"rip": pc, "rsp": sp, **dict.fromkeys(code.cpu.CALLEE_SAVED, 0)}

    monkeypatch.setattr(Code, "frame_registers", frame_registers)
    lines = ("push %rbx", f"mov ${VARIABLE:#x},%edi", *LOCKING_QT[2:])
    reader = Reader(*lines, "nop", "nop", "call work", "ret", "ret", work=("nop", "nop", "ret"))
    reader.target.ram.u64(LINKS, 16, VARIABLE + 8 if is_linked else 0)
    assert reader.holds(8, VARIABLE, inside=1, kind="qt-mutex", rbx=0) == is_linked


LOCKING_PY = tuple(line.replace("%rcx", "%cl") for line in LOCKING_QT)


@pytest.mark.parametrize(("lines", "is_held"), [
    (("nop", "nop"), True),
    (("nop", "lock cmpxchg %dl,(%rbx)"), False),  # of 1 for 0, as `PyMutex_Unlock` does
    (("nop", "lock andb $0xfe,(%rbx)"), False),
    (("nop", "lock cmpxchg %edx,(%rbx)"), True),  # of another size
    (("mov %rbx,%rdi", "call release"), False),
])
def test_mutex_of_python_is_held_until_its_byte_is_exchanged(lines: tuple[str, str], is_held: bool) -> None:
    reader = Reader(*LOCKING_PY, *lines, "call work", "ret", "ret", work=("nop", "nop", "ret"))
    assert reader.holds(8, inside=1, kind="py-mutex") == is_held


def test_mutex_of_qt_that_was_not_free_is_not_held() -> None:
    """The path on which the exchange has failed goes on as the other one does."""
    lines = (*LOCKING_QT[:-1], f"jne {FUNCTION + 6 * STEP:#x}")
    reader = Reader(*lines, "nop", "xor %edi,%edi", "call work", "ret", work=("nop", "nop", "ret"))
    assert not reader.holds(8, inside=1, kind="qt-mutex")


LOCKING_ABSL = (*KEEP, f"call {LOCK_ABSL}", "call work", "mov %rbx,%rdi", f"call {UNLOCK_ABSL}", "call work", "ret")


@pytest.mark.parametrize(("index", "namespace", "is_held"), [
    (HOLDING, "debian3", True),
    (RELEASED, "debian3", False),
    (HOLDING, None, False),  # no function has such a name
    (HOLDING, "lts_20250814", False),
])
def test_functions_have_the_names_of_the_namespace(index: int, namespace: str | None, is_held: bool) -> None:
    reader = Reader(*LOCKING_ABSL, work=("nop", "nop", "ret"))
    assert reader.holds(index, inside=1, kind="absl-mutex", namespace=namespace) == is_held


@pytest.mark.parametrize(("waiting", "index", "is_held"), [
    (f"call {WAIT_ABSL}", 6, True),  # it has acquired the mutex again
    (f"call {WAIT_ABSL}", 5, False),  # the thread waits in it
    ("lock cmpxchg %rcx,(%rbx)", 6, False),  # a release that the compiler has inlined
])
def test_mutex_of_absl_is_held_after_a_wait(waiting: str, index: int, is_held: bool) -> None:
    lines = (*KEEP, f"call {LOCK_ABSL}", "mov %rbx,%rsi", "xor %edi,%edi", waiting, "call work", "ret")
    reader = Reader(*lines, work=("nop", "nop", "ret"))
    assert reader.holds(index, inside=1, kind="absl-mutex", namespace="debian3") == is_held


#: A function without a name.
WAITING_ABSL = ABSL + 0xC00
#: Waits inside of `work` in order to acquire the mutex of its argument.
WAITING = (*KEEP, "sub $0x10,%rsp", f"call {WAITING_ABSL:#x}")


@pytest.mark.parametrize(("after", "is_found"), [
    (("add $0x10,%rsp", "pop %rbx", "ret"), True),
    (("lock cmpxchg %rcx,(%rbx)", "add $0x10,%rsp", "pop %rbx", "ret"), False),
])
def test_function_that_a_thread_waits_in_is_found_if_it_returns_with_the_mutex(
        after: Sequence[str], is_found: bool) -> None:
    reader = Reader(*KEEP, "call work", "ret", work=(*WAITING, *after))
    stack = reader.thread.stack
    reader.thread.frames = [(LIBC + 0x800, stack), (WAITING_ABSL + STEP, stack + 0x40), (WORK + 4 * STEP, stack + 0x80),
                            (FUNCTION + 3 * STEP, stack + 0xA0), (APP_TEXT + 0x80, stack + 0x200)]
    reader.thread.registers.update(rip=LIBC + 0x800, rsp=stack)
    for level, (pc, sp) in enumerate(reader.thread.frames):
        reader.target.older_registers[1, level] = {"rip": pc, "rsp": sp, "rbx": LOCK}
    describe_functions(reader.target, "/lib/libabsl.so", WAITING_ABSL)
    reader.target.instructions += [(WAITING_ABSL, STEP, "nop"), (WAITING_ABSL + STEP, STEP, "ret")]
    seen, known = read_threads(reader.target, None, Findings())[1], KnownCode()
    proven = ProvenHolders(reader.target, read_code(reader.target, Findings()), (), known)
    proven.find_hidden("absl-mutex", seen, LOCK, inside=stack + 0x88)
    assert (WORK in known.hidden) is is_found
    # the structure is in the frame of another function, or the function waits for another mutex
    other = KnownCode()
    proven = ProvenHolders(reader.target, read_code(reader.target, Findings()), (), other)
    proven.find_hidden("absl-mutex", seen, LOCK, inside=stack + 0x48)
    proven.find_hidden("absl-mutex", seen, LOCK + 8, inside=stack + 0x88)
    assert not other.hidden


@pytest.mark.parametrize(("names", "namespace"), [
    (("absl::debian3::synchronization_internal::Waiter::Wait", "absl::debian3::Mutex::Block"), "debian3"),
    ((None, "absl::lts_20250814::CondVar::WaitCommon"), "lts_20250814"),
    (("absl::Mutex::Block",), None),
    (("app::absl::Mutex::Block",), None),
])
def test_namespace_is_that_of_a_function_in_which_the_thread_waits(
        names: Sequence[str | None], namespace: str | None) -> None:
    reader = Reader()
    pcs = [FUNCTION + 0x40 * i for i in range(len(names))]
    for pc, name in zip(pcs, names):
        if name is not None:
            reader.target.name(pc, name)
    proven = ProvenHolders(reader.target, read_code(reader.target, Findings()), (), KnownCode())
    native = [(pc, 0) for pc in pcs]
    assert proven.namespace_of("absl-mutex", native) == namespace
    assert proven.namespace_of("rwlock", native) is None


@pytest.mark.parametrize(("argument", "is_held"), [
    ("lea 0x8(%rbx),%rdi", False),  # a release that the compiler has inlined unlocks the mutex inside
    ("lea 0x138(%rbx),%rdi", True),  # a mutex in the same object
    (f"mov ${VARIABLE:#x},%edi", True),
    (f"mov ${LOCK + 8:#x},%edi", False),
    ("mov %rsi,%rdi", False),
])
def test_shared_mutex_of_boost_is_held_until_its_inner_mutex_is_unlocked(argument: str, is_held: bool) -> None:
    lines = (*KEEP, "mov %rdx,%rsi", f"call {LOCK_BOOST}", argument, "call pthread_mutex_unlock", "call work", "ret")
    reader = Reader(*lines, work=("nop", "nop", "ret"))
    assert reader.holds(6, inside=1, kind="boost-shared-mutex") == is_held
