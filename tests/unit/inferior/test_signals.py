from __future__ import annotations

import signal

import pytest

from gdbext.inferior.protocol import SignalInfo
from gdbext.inferior.signals import (
    CORE_SIGNALS,
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
    decode_siginfo,
)
from tests.support.fake_signal_frame import fault_info, sent_info


def test_core_signals_match_the_signal_module() -> None:
    assert all(signal.Signals[name] == number for number, name in CORE_SIGNALS.items())
    assert "SIGTERM" not in CORE_SIGNALS.values()
    assert "SIGINT" not in CORE_SIGNALS.values()


@pytest.mark.parametrize(("number", "code", "name"), [
    (SIGSEGV, 1, "SEGV_MAPERR"), (SIGSEGV, 2, "SEGV_ACCERR"), (SIGSEGV, 4, "SEGV_PKUERR"), (SIGSEGV, 10, "SEGV_CPERR"),
    (SIGBUS, 1, "BUS_ADRALN"), (SIGBUS, 2, "BUS_ADRERR"), (SIGBUS, 4, "BUS_MCEERR_AR"), (SIGFPE, 1, "FPE_INTDIV"),
    (SIGFPE, 8, "FPE_FLTSUB"), (SIGTRAP, 1, "TRAP_BRKPT"), (SIGILL, 2, "ILL_ILLOPN"),
    (SIGSYS, 1, "SYS_SECCOMP"), (SIGSEGV, SI_KERNEL, "SI_KERNEL"), (SIGABRT, SI_TKILL, "SI_TKILL"),
    (SIGSEGV, 0, "SI_USER"), (SIGSEGV, -1, "SI_QUEUE"),
])
def test_code_name(number: int, code: int, name: str) -> None:
    assert code_name(number, code) == name


@pytest.mark.parametrize(("number", "code"), [
    (SIGSEGV, 11), (SIGFPE, 9), (SIGTRAP, 77), (SIGABRT, 1), (SIGSEGV, -60), (40, 1), (SIGBUS, 1 << 30)])
def test_code_name_when_code_is_unknown_is_none(number: int, code: int) -> None:
    assert code_name(number, code) is None


def test_code_name_when_code_is_missing_is_none() -> None:
    assert code_name(SIGABRT, None) is None
    assert code_name(SIGSEGV, None) is None


def test_decode_siginfo_of_a_fault_has_an_address() -> None:
    assert decode_siginfo(fault_info(SIGSEGV, 1, 0xDEAD)) == SignalInfo(SIGSEGV, 1, 0xDEAD)
    assert decode_siginfo(fault_info(SIGBUS, 2, (1 << 64) - 1)) == SignalInfo(SIGBUS, 2, (1 << 64) - 1)
    # a general protection fault has the address 0, which callers must not trust
    assert decode_siginfo(fault_info(SIGSEGV, SI_KERNEL, 0)) == SignalInfo(SIGSEGV, SI_KERNEL, 0)


@pytest.mark.parametrize(("number", "code"), [(SIGSEGV, 0), (SIGSEGV, SI_TKILL), (SIGABRT, SI_TKILL), (SIGBUS, -1)])
def test_decode_siginfo_of_a_sent_signal_has_a_sender(number: int, code: int) -> None:
    assert decode_siginfo(sent_info(number, code, 4242, 1000)) == SignalInfo(number, code, None, 4242, 1000)


def test_decode_siginfo_needs_24_bytes() -> None:
    assert decode_siginfo(fault_info(SIGSEGV, 1, 5)[:24]) == SignalInfo(SIGSEGV, 1, 5)
