"""Linux signals: their names and codes, and ``siginfo_t``. They are the same on every processor.

Source: Linux 6.1 include/uapi/asm-generic/signal.h and siginfo.h.
"""

from __future__ import annotations

import signal
import struct
from collections.abc import Mapping

from gdbext.inferior.protocol import SignalInfo

SIGQUIT, SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV = 3, 4, 5, 6, 7, 8, 11
SIGXCPU, SIGXFSZ, SIGSYS = 24, 25, 31
SIGRTMAX = 64

#: Signals that dump core by default, by number.
CORE_SIGNALS: Mapping[int, str] = {
    SIGQUIT: "SIGQUIT", SIGILL: "SIGILL", SIGTRAP: "SIGTRAP", SIGABRT: "SIGABRT", SIGBUS: "SIGBUS", SIGFPE: "SIGFPE",
    SIGSEGV: "SIGSEGV", SIGXCPU: "SIGXCPU", SIGXFSZ: "SIGXFSZ", SIGSYS: "SIGSYS",
}
#: Signals that an instruction causes; a positive `si_code` gives the cause.
FAULT_SIGNALS = frozenset((SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV, SIGSYS))

#: `si_code` of signals that no instruction caused: the origin.
SI_USER, SI_KERNEL, SI_QUEUE, SI_TKILL = 0, 0x80, -1, -6
_CODES = {SI_USER: "SI_USER", SI_KERNEL: "SI_KERNEL", SI_QUEUE: "SI_QUEUE", -2: "SI_TIMER", -3: "SI_MESGQ",
          -4: "SI_ASYNCIO", -5: "SI_SIGIO", SI_TKILL: "SI_TKILL"}
SEGV_MAPERR, SEGV_ACCERR, SEGV_PKUERR = 1, 2, 4
BUS_ADRALN, BUS_ADRERR = 1, 2
FPE_INTDIV = 1
EFBIG = 27
ILL_ILLOPN = 2
_FAULT_CODES: Mapping[int, tuple[str, ...]] = {
    SIGILL: ("ILL_ILLOPC", "ILL_ILLOPN", "ILL_ILLADR", "ILL_ILLTRP", "ILL_PRVOPC", "ILL_PRVREG", "ILL_COPROC",
             "ILL_BADSTK"),
    SIGTRAP: ("TRAP_BRKPT", "TRAP_TRACE", "TRAP_BRANCH", "TRAP_HWBKPT"),
    SIGBUS: ("BUS_ADRALN", "BUS_ADRERR", "BUS_OBJERR", "BUS_MCEERR_AR", "BUS_MCEERR_AO"),
    SIGFPE: ("FPE_INTDIV", "FPE_INTOVF", "FPE_FLTDIV", "FPE_FLTOVF", "FPE_FLTUND", "FPE_FLTRES", "FPE_FLTINV",
             "FPE_FLTSUB"),
    SIGSEGV: ("SEGV_MAPERR", "SEGV_ACCERR", "SEGV_BNDERR", "SEGV_PKUERR", "SEGV_ACCADI", "SEGV_ADIDERR",
              "SEGV_ADIPERR", "SEGV_MTEAERR", "SEGV_MTESERR", "SEGV_CPERR"),
    SIGSYS: ("SYS_SECCOMP", "SYS_USER_DISPATCH"),
}

_SIGINFO = struct.Struct("<iii4xQ")  # siginfo_t: si_signo, si_errno, si_code, then _sigfault.si_addr
_SENDER = struct.Struct("<iI")  # _kill: si_pid, si_uid
SIGINFO_SIZE = 128


def code_name(number: int, code: int | None) -> str | None:
    """The name of an `si_code`, or None if not known."""
    if code is None:
        return None
    if code in _CODES:
        return _CODES[code]
    names = _FAULT_CODES.get(number, ())
    return names[code - 1] if 1 <= code <= len(names) else None


def decode_siginfo(data: bytes) -> SignalInfo:
    """Decode a ``siginfo_t``.

    :param data: at least its first 24 bytes.
    """
    number, _, code, address = _SIGINFO.unpack_from(data)
    if number in FAULT_SIGNALS and code > 0:
        return SignalInfo(number, code, address)
    pid, uid = _SENDER.unpack_from(data, _SIGINFO.size - 8)
    return SignalInfo(number, code, None, pid, uid)


def signal_name(number: int) -> str:
    """``SIGKILL``; ``signal 34`` for one without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
