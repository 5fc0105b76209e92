from __future__ import annotations

import struct

import pytest

from gdbext.arch.aarch64.signals import handled_signal, is_signal_return, read_interrupted, read_signal_frame
from gdbext.errors import MemoryUnreadable
from gdbext.inferior.protocol import SignalInfo
from gdbext.inferior.signals import SIGABRT, SIGSEGV
from tests.support.fake_memory import FakeMemory
from tests.support.fake_signal_frame import fault_info

CODE, SP = 0xFFFF_8000_1000, 0xFFFF_F000_0000
READ, WRITE, FETCH = 0x92000006, 0x92000046, 0x82000006  # translation faults
PERMISSION = 0x9200004F


def frame(info: bytes, syndrome: int | None = None, fault: int = 0x10) -> FakeMemory:
    context = struct.pack("<Q31QQQQ", fault, *range(100, 131), 0x7000, 0x401234, 0).ljust(288, b"\0")
    records = struct.pack("<II", 0x46508001, 528).ljust(528, b"\0")
    if syndrome is not None:
        records += struct.pack("<IIQ", 0x45535201, 16, syndrome)
    return FakeMemory({SP: info.ljust(128, b"\0") + bytes(176) + context + records + bytes(16)})


def test_is_signal_return_at_the_kernels_code() -> None:
    # mov x8, #139; svc #0
    memory = FakeMemory({CODE: struct.pack("<3I", 0xD503201F, 0xD2801168, 0xD4000001)})
    assert [is_signal_return(memory, at) for at in (CODE, CODE + 4, 0)] == [False, True, False]


def test_signal_frame_has_the_registers() -> None:
    found = read_signal_frame(frame(fault_info(SIGSEGV, 1, 0x10)), SP)
    assert found is not None
    assert found.info == SignalInfo(SIGSEGV, 1, 0x10)
    assert [found.registers[name] for name in ("x0", "x30", "sp", "pc")] == [100, 130, 0x7000, 0x401234]
    assert found.access is None
    assert read_interrupted(frame(b""), SP)["pc"] == 0x401234
    assert handled_signal(frame(fault_info(SIGSEGV, 1, 0x10)), SP) == SIGSEGV
    assert handled_signal(frame(b""), SP) is None


@pytest.mark.parametrize(("syndrome", "access"), [(READ, "read"), (WRITE, "write"), (FETCH, "execute"), (None, None)])
def test_signal_frame_of_a_fault_has_the_access(syndrome: int | None, access: str | None) -> None:
    found = read_signal_frame(frame(fault_info(SIGSEGV, 1, 0x10), syndrome), SP)
    assert found is not None
    assert found.access == access


@pytest.mark.parametrize(("number", "syndrome", "expected"), [
    (SIGSEGV, READ, SignalInfo(SIGSEGV, 1, 0x10)), (SIGSEGV, PERMISSION, SignalInfo(SIGSEGV, 2, 0x10)),
    (SIGSEGV, None, None), (SIGABRT, None, SignalInfo(SIGABRT, None, None))])
def test_signal_of_a_handler_without_information(number: int, syndrome: int | None,
                                                 expected: SignalInfo | None) -> None:
    found = read_signal_frame(frame(b"", syndrome), SP, number)
    assert (found.info if found is not None else None) == expected


def test_stack_that_is_not_there() -> None:
    with pytest.raises(MemoryUnreadable):
        read_signal_frame(FakeMemory(), SP)
