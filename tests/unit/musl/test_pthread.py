from __future__ import annotations

import struct

from gdbext import arch
from gdbext.inferior.address_space import AddressSpace, Region
from gdbext.inferior.protocol import Module, Section
from gdbext.musl.pthread import Descriptors, pthread_of_join
from tests.support.fake_memory import FakeMemory

DATA, FIRST, MAP, SECOND = 0x7F00_0000_0000, 0x7F00_0000_0100, 0x7F10_0000_0000, 0x7F10_0002_0B38
MUSL = Module("/lib/ld-musl-x86_64.so.1", (Section(".bss", DATA, DATA + 0x400),))
SPACE = AddressSpace([Region(MAP, MAP + 0x21000, "rw", None),
                      Region(0x7FFE_0000_0000, 0x7FFE_0002_0000, "rw", "[stack]")])
CPU = arch.of("x86_64")


def descriptor(own: int, other: int, tid: int) -> bytes:
    return struct.pack("<6QiIIi", own, 0, other, other, 0, 0x1122334455667788, tid, 0, 2, 0)


def memory() -> FakeMemory:
    data = bytearray(0x400)
    data[0x100:0x140] = descriptor(FIRST, SECOND, 100)
    stack = bytearray(0x21000)
    stack[SECOND - MAP:SECOND - MAP + 64] = descriptor(SECOND, FIRST, 101)
    # a pointer to itself that no list leads to
    stack[SECOND - MAP + 0x100:SECOND - MAP + 0x108] = struct.pack("<Q", SECOND + 0x100)
    return FakeMemory({DATA: bytes(data), MAP: bytes(stack)})


def test_descriptor_is_at_the_thread_pointer_or_at_the_end_of_the_stack() -> None:
    found = Descriptors(memory(), CPU, MUSL, SPACE)
    assert found.pthread_self({"fs_base": SECOND, "rsp": 0}) == SECOND
    assert found.pthread_self({"rsp": MAP + 0x1000}) == SECOND
    assert found.pthread_self({"rsp": 0x7FFE_0000_1000}) == FIRST
    assert found.pthread_self({"rsp": 0x1000}) == 0
    assert found.pthread_self({"fs_base": SECOND + 0x100, "rsp": 0}) == 0


def test_tid_is_read_from_the_descriptor() -> None:
    found = Descriptors(memory(), CPU, MUSL, SPACE)
    assert (found.read_tid(FIRST, 100), found.read_tid(SECOND, 4711)) == (100, 101)
    assert found.read_tid(0x10, 1) is None


def test_join_waits_for_the_state_in_a_descriptor() -> None:
    ram = memory()
    assert pthread_of_join(ram, CPU, SECOND + 56, 2, {FIRST, SECOND}) == SECOND
    assert pthread_of_join(ram, CPU, SECOND + 56, 2, {FIRST}) is None
    assert pthread_of_join(ram, CPU, SECOND + 56, 7, {SECOND}) is None
