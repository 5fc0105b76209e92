"""What a thread did when a signal came, of threads that died in its handler, as fakes."""

from __future__ import annotations

import random
import struct
from dataclasses import replace

import pytest

from gdbext.inferior.protocol import SignalInfo
from gdbext.inferior.signals import SI_TKILL, SI_USER, SIGABRT, SIGSEGV
from gdbext.layout.select import glibc_layouts
from gdbext.threads.code import Code, read_code
from gdbext.threads.findings import Findings
from gdbext.threads.interrupted import MAX_HANDLER, Interrupted, find_interrupted, restore_interrupted, was_sending
from gdbext.threads.threads import SeenThread, Threads, read_threads
from tests.support.fake_target import APP_TEXT, DRIVER_TEXT, ERESTARTSYS, LIBC_TEXT, NOT_IN_A_CALL, FakeTarget

READ, MPROTECT, FUTEX, TGKILL, SIGPROCMASK = 0, 10, 202, 234, 14
EINTR = (1 << 64) - 4
#: In the C library: where the handler returns to, and the end of a system call that was interrupted.
RESTORER, RETURN = LIBC_TEXT + 0x800, LIBC_TEXT + 0x100
RESTORER_CODE, SYSCALL = b"\x48\xc7\xc0\x0f\0\0\0\x0f\x05", b"\x0f\x05"
#: In the order of ``struct sigcontext_64``.
SAVED = ("r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "rdi", "rsi", "rbp", "rbx", "rdx", "rax", "rcx", "rsp",
         "rip")


class Scene:
    """A thread whose handler of SIGABRT, called in `RETURN`, sends the signal again."""

    def __init__(self) -> None:
        self.target = FakeTarget("core")
        self.thread = self.target.thread()
        self.context = self.thread.stack + 0x400
        self.saved = {name: i + 0x100 for i, name in enumerate(SAVED)}
        self.saved.update(rip=RETURN, rsp=self.thread.stack + 0x900, rax=EINTR, rdi=0x7000, rsi=0x80, rdx=2, r10=0)
        self.target.ram.ensure(LIBC_TEXT, 0x1000)
        self.target.ram.write(RESTORER, RESTORER_CODE)
        self.target.ram.write(RETURN - 2, SYSCALL)
        self.target.blocked(self.thread, TGKILL, 100, 100, SIGABRT, rax=0)
        self.thread.frames = [(LIBC_TEXT + 0x40, self.thread.stack), (DRIVER_TEXT + 0x40, self.thread.stack + 0x100),
                              (RESTORER, self.context), (RETURN, self.saved["rsp"]),
                              (LIBC_TEXT + 0x200, self.saved["rsp"] + 0x20),
                              (APP_TEXT + 0x80, self.saved["rsp"] + 0x40)]
        self.thread.registers["rip"] = LIBC_TEXT + 0x40
        self.target.signals[1] = SignalInfo(SIGABRT, SI_TKILL, None, 100, 0)

    def code(self, *texts: str) -> None:
        """The function up to the instruction after which it was interrupted, of which the last is ``syscall``."""
        start = RETURN - 2 - 5 * (len(texts) - 1)
        sizes = [5] * (len(texts) - 1) + [2]
        self.target.instructions = [(start + 5 * i, size, text) for i, (size, text) in enumerate(zip(sizes, texts))]

    def find(self) -> Interrupted | None:
        seen = self.seen()[0]
        return find_interrupted(self.target, read_code(self.target, Findings()), seen)

    def seen(self) -> tuple[SeenThread, Threads]:
        self.target.ram.ensure(self.context, 304)
        saved = struct.pack("<17Q", *(self.saved[name] for name in SAVED))
        self.target.ram.write(self.context + 40, saved)
        threads = read_threads(self.target, glibc_layouts("2.36", "x86_64"), Findings())
        return threads[1], threads


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    monkeypatch.setattr(Code, "function_range", lambda _self, _pc: (RETURN - 0x40, RETURN + 0x40))
    return Scene()


def call(found: Interrupted | None) -> int:
    """The number of the reported system call."""
    assert found is not None
    return found.registers["orig_rax"]


def test_call_that_ends_with_eintr(scene: Scene) -> None:
    scene.code("mov $0xca,%eax", "syscall")
    found = scene.find()
    assert found is not None
    assert (found.handler, found.signal) == (3, SIGABRT)
    expected = {**scene.saved, "fs_base": scene.thread.pthread, "orig_rax": FUTEX}
    assert found.registers == expected


def test_call_that_is_begun_anew(scene: Scene) -> None:
    scene.target.ram.write(RETURN - 2, b"\x90\x90" + SYSCALL)
    scene.saved["rax"] = FUTEX
    found = scene.find()
    assert call(found) == FUTEX
    assert found is not None
    assert found.registers["rax"] == ERESTARTSYS


def test_call_to_come_that_has_no_number(scene: Scene) -> None:
    scene.target.ram.write(RETURN - 2, b"\x90\x90" + SYSCALL)
    scene.saved["rax"] = 1 << 40
    found = scene.find()
    assert call(found) == NOT_IN_A_CALL
    assert found is not None
    assert found.registers["rax"] == 1 << 40


def test_thread_that_computed(scene: Scene) -> None:
    scene.target.ram.write(RETURN - 2, b"\x90\x90")
    scene.code("mov $0xca,%eax", "nop")
    assert call(scene.find()) == NOT_IN_A_CALL


@pytest.mark.parametrize("texts", [
    ("syscall",),  # nothing is known of the register
    ("mov (%rdi),%eax", "syscall"),
    ("mov %ebx,%eax", "syscall"),  # an argument of the function, or older
    ("mov $0x7fffffff,%eax", "syscall"),  # there is no such call
    (f"je {RETURN - 2:#x}", "mov $0xca,%eax", "syscall"),  # there is another way to the instruction
])
def test_number_that_is_not_known(scene: Scene, texts: tuple[str, ...]) -> None:
    scene.code(*texts)
    assert call(scene.find()) == NOT_IN_A_CALL


def test_number_of_a_call_that_can_be_cancelled(scene: Scene) -> None:
    """It is the seventh argument of the caller of glibc's __syscall_cancel_arch."""
    scene.target.ram.write(RETURN - 7, b"\x4c\x89\x5c\x24\x08" + SYSCALL)
    scene.code("mov %rsi,%rax", "mov %r11,0x8(%rsp)", "syscall")
    after = scene.thread.frames[5][1]
    scene.target.ram.u64(after, FUTEX)
    assert call(scene.find()) == FUTEX
    scene.target.ram.u64(after, READ)
    assert call(scene.find()) == READ
    for garbage in (0x7FFF_1234_5678, 100_000):
        scene.target.ram.u64(after, garbage)
        assert call(scene.find()) == NOT_IN_A_CALL
    scene.thread.frames[5] = (APP_TEXT + 0x80, 0x10)
    assert call(scene.find()) == NOT_IN_A_CALL
    del scene.thread.frames[5]
    assert call(scene.find()) == NOT_IN_A_CALL


def test_number_of_the_same_call_in_a_single_thread(scene: Scene) -> None:
    scene.target.ram.write(RETURN - 7, b"\x48\x8b\x44\x24\x20" + SYSCALL)
    scene.target.ram.u64(scene.saved["rsp"] + 0x20, FUTEX)
    assert call(scene.find()) == FUTEX
    scene.saved["rsp"] = 0x10
    assert call(scene.find()) == NOT_IN_A_CALL


def test_code_that_is_not_readable(scene: Scene) -> None:
    scene.saved["rip"] = 0x1000
    assert call(scene.find()) == NOT_IN_A_CALL


def test_registers_that_are_not_readable(scene: Scene) -> None:
    scene.code("mov $0xca,%eax", "syscall")
    scene.thread.frames[2] = (RESTORER, 0x10)
    assert scene.find() is None


def test_handler_without_a_restorer_is_not_found(scene: Scene) -> None:
    scene.target.ram.write(RESTORER, b"\x90")
    assert scene.find() is None


def test_restorer_that_is_too_far_out(scene: Scene) -> None:
    scene.thread.frames[:0] = [(DRIVER_TEXT + 0x40, scene.thread.stack)] * MAX_HANDLER
    assert scene.find() is None


@pytest.mark.parametrize(("number", "is_found"), [
    (TGKILL, True), (200, True), (62, True), (129, True), (297, True), (SIGPROCMASK, True), (FUTEX, False),
    (READ, False), (MPROTECT, False), (999, False)])
def test_signal_is_read_only_of_a_thread_that_sends_one(scene: Scene, number: int, is_found: bool) -> None:
    """A handler that waits is a wait of its own; one that lets blocked signals in may have sent one (glibc 2.31)."""
    scene.thread.registers["orig_rax"] = number
    assert (scene.find() is not None) == is_found


@pytest.mark.parametrize("info", [None, SignalInfo(19, SI_TKILL, None, 100, 0), SignalInfo(15, SI_USER, None, 1, 0)])
def test_only_a_signal_that_makes_a_core(scene: Scene, info: SignalInfo | None) -> None:
    del scene.target.signals[1]
    if info is not None:
        scene.target.signals[1] = info
    assert scene.find() is None


def test_signal_that_was_sent_again_may_be_another(scene: Scene) -> None:
    scene.target.signals[1] = SignalInfo(SIGSEGV, SI_TKILL, None, 100, 0)
    found = scene.find()
    assert found is not None
    assert found.signal == SIGSEGV


def test_handler_that_had_returned(scene: Scene) -> None:
    """The signal was blocked in it, as it is by default; then the thread died where it had been."""
    scene.code("mov $0xca,%eax", "syscall")
    own = scene.thread.registers
    own.update(rip=RETURN, rsp=scene.saved["rsp"], rax=EINTR, orig_rax=NOT_IN_A_CALL)
    scene.thread.frames = scene.thread.frames[3:]
    found = scene.find()
    assert found is not None
    assert (found.handler, call(found), found.registers["rip"]) == (0, FUTEX, RETURN)
    # one that came from elsewhere would have made it end its call
    scene.target.signals[1] = SignalInfo(SIGABRT, SI_USER, None, 4242, 0)
    assert scene.find() is None
    # one that computed is where it was
    scene.target.signals[1] = SignalInfo(SIGABRT, SI_TKILL, None, 100, 0)
    scene.target.ram.write(RETURN - 2, b"\x90\x90")
    assert scene.find() is None


def test_interrupted_thread_is_restored(scene: Scene) -> None:
    scene.code("mov $0xca,%eax", "syscall")
    seen, threads = scene.seen()
    code = read_code(scene.target, Findings())
    found = find_interrupted(scene.target, code, seen)
    assert found is not None
    assert seen.futex is None
    frames = list(scene.thread.frames)
    findings = Findings()
    threads = restore_interrupted(scene.target, code, threads, findings)
    seen = threads[1]
    assert len(findings.notes) == 1
    assert (seen.handler, seen.native(code), seen.whole(code)) == (frames[:3], frames[3:], frames)
    call, futex = threads[1].call, threads[1].futex
    assert call is not None
    assert (call.name, call.blocked) == ("futex", True)
    assert futex is not None
    assert (futex.address, futex.expected) == (0x7000, 2)
    # elsewhere on the stack the handler is not included
    assert replace(seen, registers={}, frames=frames[4:], handler=()).whole(code) == frames[4:]


@pytest.mark.parametrize(("number", "sends"), [
    (TGKILL, True), (SIGPROCMASK, True), (FUTEX, False), (READ, False)])
def test_program_that_sent_the_signal_itself(scene: Scene, number: int, sends: bool) -> None:
    scene.code(f"mov ${number:#x},%eax", "syscall")
    assert was_sending(scene.target, read_code(scene.target, Findings()), scene.saved) == sends


def test_program_that_computed_did_not_send_it(scene: Scene) -> None:
    scene.target.ram.write(RETURN - 2, b"\x90\x90")
    assert not was_sending(scene.target, read_code(scene.target, Findings()), scene.saved)


def test_garbage(scene: Scene) -> None:
    scene.code("mov $0xca,%eax", "syscall")
    for seed in range(50):
        noise = random.Random(seed)
        scene.saved = {name: noise.choice((0, noise.getrandbits(64), (1 << 64) - 1, RETURN)) for name in SAVED}
        found = scene.find()
        assert found is not None
        assert {name: found.registers[name] for name in SAVED if name != "rax"} == {
            name: value for name, value in scene.saved.items() if name != "rax"}
