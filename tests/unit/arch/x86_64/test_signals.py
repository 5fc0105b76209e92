from __future__ import annotations

import signal

import pytest

from gdbext.arch.x86_64 import signals
from gdbext.arch.x86_64.signals import (
    CORE_SIGNALS,
    SI_KERNEL,
    SI_TKILL,
    SIGABRT,
    SIGBUS,
    SIGFPE,
    SIGSEGV,
    SIGTRAP,
    code_name,
    decode_siginfo,
    is_restorer,
    read_interrupted,
    read_signal_frame,
)
from gdbext.errors import MemoryUnreadable
from gdbext.inferior.protocol import SignalInfo
from tests.support.fake_memory import FakeMemory, NoiseMemory
from tests.support.fake_signal_frame import SAVED, fault_info, sent_info, signal_frame

CODE, SP = 0x7E00_0000_1000, 0x7FFF_0000_0000


def test_names_are_those_of_the_machine() -> None:
    assert all(signal.Signals[name] == number for number, name in CORE_SIGNALS.items())
    assert "SIGTERM" not in CORE_SIGNALS.values()
    assert "SIGINT" not in CORE_SIGNALS.values()


@pytest.mark.parametrize(("number", "code", "name"), [
    (SIGSEGV, 1, "SEGV_MAPERR"), (SIGSEGV, 2, "SEGV_ACCERR"), (SIGSEGV, 4, "SEGV_PKUERR"), (SIGSEGV, 10, "SEGV_CPERR"),
    (SIGBUS, 1, "BUS_ADRALN"), (SIGBUS, 2, "BUS_ADRERR"), (SIGBUS, 4, "BUS_MCEERR_AR"), (SIGFPE, 1, "FPE_INTDIV"),
    (SIGFPE, 8, "FPE_FLTSUB"), (SIGTRAP, 1, "TRAP_BRKPT"), (signals.SIGILL, 2, "ILL_ILLOPN"),
    (signals.SIGSYS, 1, "SYS_SECCOMP"), (SIGSEGV, SI_KERNEL, "SI_KERNEL"), (SIGABRT, SI_TKILL, "SI_TKILL"),
    (SIGSEGV, 0, "SI_USER"), (SIGSEGV, -1, "SI_QUEUE"),
])
def test_names_of_codes(number: int, code: int, name: str) -> None:
    assert code_name(number, code) == name


@pytest.mark.parametrize(("number", "code"), [
    (SIGSEGV, 11), (SIGFPE, 9), (SIGTRAP, 77), (SIGABRT, 1), (SIGSEGV, -60), (40, 1), (SIGBUS, 1 << 30)])
def test_codes_that_are_not_known(number: int, code: int) -> None:
    assert code_name(number, code) is None


def test_code_that_was_not_recorded() -> None:
    assert code_name(SIGABRT, None) is None
    assert code_name(SIGSEGV, None) is None


def test_faults_have_an_address() -> None:
    assert decode_siginfo(fault_info(SIGSEGV, 1, 0xDEAD)) == SignalInfo(SIGSEGV, 1, 0xDEAD)
    assert decode_siginfo(fault_info(SIGBUS, 2, (1 << 64) - 1)) == SignalInfo(SIGBUS, 2, (1 << 64) - 1)
    # of a general protection fault it says nothing: that is for who reads it to know
    assert decode_siginfo(fault_info(SIGSEGV, SI_KERNEL, 0)) == SignalInfo(SIGSEGV, SI_KERNEL, 0)


@pytest.mark.parametrize(("number", "code"), [(SIGSEGV, 0), (SIGSEGV, SI_TKILL), (SIGABRT, SI_TKILL), (SIGBUS, -1)])
def test_signals_that_were_sent_have_a_sender(number: int, code: int) -> None:
    assert decode_siginfo(sent_info(number, code, 4242, 1000)) == SignalInfo(number, code, None, 4242, 1000)


def test_info_may_be_as_short_as_its_known_part() -> None:
    assert decode_siginfo(fault_info(SIGSEGV, 1, 5)[:24]) == SignalInfo(SIGSEGV, 1, 5)


@pytest.mark.parametrize("code", [b"\x48\xc7\xc0\x0f\0\0\0\x0f\x05", b"\xb8\x0f\0\0\0\x0f\x05\x90\x90"])
def test_restorer(code: bytes) -> None:
    assert is_restorer(FakeMemory({CODE: code}), CODE)
    assert not is_restorer(FakeMemory({CODE: b"\x90" + code}), CODE)


def test_what_is_no_restorer() -> None:
    # another system call: mov $0xe, %rax
    assert not is_restorer(FakeMemory({CODE: b"\x48\xc7\xc0\x0e\0\0\0\x0f\x05"}), CODE)
    assert not is_restorer(FakeMemory(), CODE)


def test_registers_of_a_signal_frame() -> None:
    memory = FakeMemory({SP: signal_frame(fault_info(SIGSEGV, 1, 0x10), rip=0x401234, rsp=0x7000, rax=99)})
    frame = read_signal_frame(memory, SP)
    assert frame is not None
    assert frame.info == SignalInfo(SIGSEGV, 1, 0x10)
    expected = {name: i + 1 for i, name in enumerate(SAVED)}
    assert frame.registers == {**expected, "rip": 0x401234, "rsp": 0x7000, "rax": 99}


@pytest.mark.parametrize(("trap", "error", "access"), [
    (14, 4, "read"), (14, 6, "write"), (14, 5, "read"), (14, 7, "write"), (14, 0x14, "execute"), (14, 0x15, "execute"),
    (13, 0, None), (0, 0, None), (3, 2, None)])
def test_how_memory_was_touched(trap: int, error: int, access: str | None) -> None:
    memory = FakeMemory({SP: signal_frame(fault_info(SIGSEGV, 1, 0), trap, error)})
    frame = read_signal_frame(memory, SP)
    assert frame is not None
    assert frame.access == access


@pytest.mark.parametrize(("number", "trap", "error", "expected"), [
    (SIGSEGV, 14, 6, SignalInfo(SIGSEGV, 1, 0x50)), (SIGSEGV, 14, 7, SignalInfo(SIGSEGV, 2, 0x50)),
    (SIGBUS, 14, 6, SignalInfo(SIGBUS, 2, 0x50)), (SIGSEGV, 13, 0, SignalInfo(SIGSEGV, SI_KERNEL, 0)),
    (SIGBUS, 12, 0, SignalInfo(SIGBUS, SI_KERNEL, 0)), (SIGFPE, 0, 0, SignalInfo(SIGFPE, 1, 0x401234)),
    (signals.SIGILL, 6, 0, SignalInfo(signals.SIGILL, 2, 0x401234)),
    (SIGFPE, 14, 4, None), (SIGSEGV, 0, 0, None)])
@pytest.mark.parametrize("info", [bytes(128), fault_info(SIGBUS, 77, 5), b"\xff" * 128, sent_info(14, 0, 1, 1)])
def test_a_handler_that_did_not_ask_for_the_info(number: int, trap: int, error: int, expected: SignalInfo | None,
                                                 info: bytes) -> None:
    """Then the kernel leaves what was there before; the processor's exception tells, if the signal is known."""
    memory = FakeMemory({SP: signal_frame(info, trap, error, 0x50, rip=0x401234)})
    frame = read_signal_frame(memory, SP, number)
    assert (frame.info if frame is not None else None) == expected
    assert read_signal_frame(memory, SP) is None


@pytest.mark.parametrize("number", [SIGABRT, signals.SIGQUIT])
@pytest.mark.parametrize(("trap", "error"), [(14, 6), (13, 0), (0, 0)])
def test_a_signal_that_no_exception_makes_was_sent(number: int, trap: int, error: int) -> None:
    """Who sent it is not known, unless the info says that the handler is one of another signal."""
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


def test_the_info_of_another_signal_is_not_believed() -> None:
    memory = FakeMemory({SP: signal_frame(fault_info(SIGFPE, 1, 0x99), 14, 6, 0x50)})
    frame = read_signal_frame(memory, SP, SIGSEGV)
    assert frame is not None
    assert frame.info == SignalInfo(SIGSEGV, 1, 0x50)


def test_a_signal_that_was_sent_touched_nothing() -> None:
    """The exception that a thread had last is long past."""
    memory = FakeMemory({SP: signal_frame(sent_info(SIGSEGV, 0, 4242, 5))})
    frame = read_signal_frame(memory, SP, SIGSEGV)
    assert frame is not None
    assert (frame.info.pid, frame.access) == (4242, None)


def test_registers_that_were_interrupted() -> None:
    """They are there whatever the info says, or where it is not readable."""
    expected = {**{name: i + 1 for i, name in enumerate(SAVED)}, "rip": 0x401234, "rsp": 0x7000}
    for info in (bytes(128), fault_info(SIGSEGV, 1, 0), b"\xff" * 128, b""):
        memory = FakeMemory({SP: signal_frame(info, rip=0x401234, rsp=0x7000)})
        assert read_interrupted(memory, SP) == expected


def test_frame_that_is_not_there() -> None:
    with pytest.raises(MemoryUnreadable):
        read_signal_frame(FakeMemory({SP: bytes(400)}), SP)
    with pytest.raises(MemoryUnreadable):
        read_interrupted(FakeMemory({SP: bytes(200)}), SP)


def test_any_memory_can_be_decoded() -> None:
    for seed in range(20):
        memory = NoiseMemory(seed)
        for address in range(0x10000, 0x20000, 0x7F8):
            read_signal_frame(memory, address)
            is_restorer(memory, address)
