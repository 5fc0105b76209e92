from __future__ import annotations

import pytest

from gdbext.arch.x86_64.signals import is_signal_return, read_interrupted, read_signal_frame
from gdbext.errors import MemoryUnreadable
from gdbext.inferior.protocol import SignalInfo
from gdbext.inferior.signals import (
    SI_KERNEL,
    SI_TKILL,
    SIGABRT,
    SIGBUS,
    SIGFPE,
    SIGILL,
    SIGQUIT,
    SIGSEGV,
)
from tests.support.fake_memory import FakeMemory, NoiseMemory
from tests.support.fake_signal_frame import SAVED, fault_info, sent_info, signal_frame

CODE, SP = 0x7E00_0000_1000, 0x7FFF_0000_0000


@pytest.mark.parametrize("code", [b"\x48\xc7\xc0\x0f\0\0\0\x0f\x05", b"\xb8\x0f\0\0\0\x0f\x05\x90\x90"])
def test_is_signal_return_at_the_restorer(code: bytes) -> None:
    assert is_signal_return(FakeMemory({CODE: code}), CODE)
    assert not is_signal_return(FakeMemory({CODE: b"\x90" + code}), CODE)


def test_is_signal_return_at_other_code_is_false() -> None:
    # another system call: mov $0xe, %rax
    assert not is_signal_return(FakeMemory({CODE: b"\x48\xc7\xc0\x0e\0\0\0\x0f\x05"}), CODE)
    assert not is_signal_return(FakeMemory(), CODE)


def test_signal_frame_has_the_registers() -> None:
    memory = FakeMemory({SP: signal_frame(fault_info(SIGSEGV, 1, 0x10), rip=0x401234, rsp=0x7000, rax=99)})
    frame = read_signal_frame(memory, SP)
    assert frame is not None
    assert frame.info == SignalInfo(SIGSEGV, 1, 0x10)
    expected = {name: i + 1 for i, name in enumerate(SAVED)}
    assert frame.registers == {**expected, "rip": 0x401234, "rsp": 0x7000, "rax": 99}


@pytest.mark.parametrize(("trap", "error", "access"), [
    (14, 4, "read"), (14, 6, "write"), (14, 5, "read"), (14, 7, "write"), (14, 0x14, "execute"), (14, 0x15, "execute"),
    (13, 0, None), (0, 0, None), (3, 2, None)])
def test_signal_frame_of_a_page_fault_has_the_access(trap: int, error: int, access: str | None) -> None:
    memory = FakeMemory({SP: signal_frame(fault_info(SIGSEGV, 1, 0), trap, error)})
    frame = read_signal_frame(memory, SP)
    assert frame is not None
    assert frame.access == access


@pytest.mark.parametrize(("number", "trap", "error", "expected"), [
    (SIGSEGV, 14, 6, SignalInfo(SIGSEGV, 1, 0x50)), (SIGSEGV, 14, 7, SignalInfo(SIGSEGV, 2, 0x50)),
    (SIGBUS, 14, 6, SignalInfo(SIGBUS, 2, 0x50)), (SIGSEGV, 13, 0, SignalInfo(SIGSEGV, SI_KERNEL, 0)),
    (SIGBUS, 12, 0, SignalInfo(SIGBUS, SI_KERNEL, 0)), (SIGFPE, 0, 0, SignalInfo(SIGFPE, 1, 0x401234)),
    (SIGILL, 6, 0, SignalInfo(SIGILL, 2, 0x401234)),
    (SIGFPE, 14, 4, None), (SIGSEGV, 0, 0, None)])
@pytest.mark.parametrize("info", [bytes(128), fault_info(SIGBUS, 77, 5), b"\xff" * 128, sent_info(14, 0, 1, 1)])
def test_signal_frame_without_siginfo_has_the_signal(number: int, trap: int, error: int, expected: SignalInfo | None,
                                                     info: bytes) -> None:
    """The kernel then writes no siginfo; the processor's exception identifies the signal if its number is known."""
    memory = FakeMemory({SP: signal_frame(info, trap, error, 0x50, rip=0x401234)})
    frame = read_signal_frame(memory, SP, number)
    assert (frame.info if frame is not None else None) == expected
    assert read_signal_frame(memory, SP) is None


@pytest.mark.parametrize("number", [SIGABRT, SIGQUIT])
@pytest.mark.parametrize(("trap", "error"), [(14, 6), (13, 0), (0, 0)])
def test_signal_without_an_exception_was_sent(number: int, trap: int, error: int) -> None:
    """The sender is unknown, unless the siginfo is that of another signal."""
    for info in (bytes(128), fault_info(SIGBUS, 77, 5), b"\xff" * 128, sent_info(65, 0, 1, 1), sent_info(0, 0, 1, 1)):
        memory = FakeMemory({SP: signal_frame(info, trap, error, 0x50, rip=0x401234)})
        frame = read_signal_frame(memory, SP, number)
        assert frame is not None
        assert (frame.info, frame.access) == (SignalInfo(number, None, None), None)
        assert frame.registers["rip"] == 0x401234
        assert read_signal_frame(memory, SP) is None
    for info in (sent_info(14, 0, 1, 1), sent_info(64, SI_TKILL, 1, 1), fault_info(SIGSEGV, 1, 0)):
        assert read_signal_frame(FakeMemory({SP: signal_frame(info, trap, error)}), SP, number) is None
    memory = FakeMemory({SP: signal_frame(sent_info(number, 0, 4242, 5), trap, error)})
    frame = read_signal_frame(memory, SP, number)
    assert frame is not None
    assert frame.info == SignalInfo(number, 0, None, 4242, 5)


def test_siginfo_of_another_signal_is_not_used() -> None:
    memory = FakeMemory({SP: signal_frame(fault_info(SIGFPE, 1, 0x99), 14, 6, 0x50)})
    frame = read_signal_frame(memory, SP, SIGSEGV)
    assert frame is not None
    assert frame.info == SignalInfo(SIGSEGV, 1, 0x50)


def test_signal_that_was_sent_has_no_access() -> None:
    """The saved exception is an earlier one of the thread."""
    memory = FakeMemory({SP: signal_frame(sent_info(SIGSEGV, 0, 4242, 5))})
    frame = read_signal_frame(memory, SP, SIGSEGV)
    assert frame is not None
    assert (frame.info.pid, frame.access) == (4242, None)


def test_read_interrupted_returns_the_registers() -> None:
    """They do not depend on the siginfo, which may be unreadable."""
    expected = {**{name: i + 1 for i, name in enumerate(SAVED)}, "rip": 0x401234, "rsp": 0x7000}
    for info in (bytes(128), fault_info(SIGSEGV, 1, 0), b"\xff" * 128, b""):
        memory = FakeMemory({SP: signal_frame(info, rip=0x401234, rsp=0x7000)})
        assert read_interrupted(memory, SP) == expected


def test_signal_frame_when_unreadable_raises() -> None:
    with pytest.raises(MemoryUnreadable):
        read_signal_frame(FakeMemory({SP: bytes(400)}), SP)
    with pytest.raises(MemoryUnreadable):
        read_interrupted(FakeMemory({SP: bytes(200)}), SP)


def test_signal_frame_of_random_memory_is_decoded() -> None:
    for seed in range(20):
        memory = NoiseMemory(seed)
        for address in range(0x10000, 0x20000, 0x7F8):
            read_signal_frame(memory, address)
            is_signal_return(memory, address)
