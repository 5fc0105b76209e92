from __future__ import annotations

import struct

import pytest

from gdbext.arch.aarch64.calls import (
    behind_stub,
    called,
    constant_arguments,
    is_after_call,
    iter_branches,
    iter_calls,
    iter_loads,
    loaded_arguments,
    may_return,
)
from gdbext.arch.aarch64.patterns import loaded_thread_local, members_behind_jump, returned_address
from tests.support.fake_memory import FakeMemory

BTI_C, AUTIA1716, NOP, RET = 0xD503245F, 0xD503219F, 0xD503201F, 0xD65F03C0


def code(*words: int) -> bytes:
    return struct.pack(f"<{len(words)}I", *words)


# Debian 12, libgomp.so.1: memcpy@plt
STUB, SLOT = 0x95E0, 0x60000
PLT = (0xF00002B0, 0xF9400211, 0x91000210, 0xD61F0220)


@pytest.mark.parametrize("words", [
    PLT, (BTI_C, *PLT), (*PLT[:3], AUTIA1716, PLT[3]), (BTI_C, *PLT[:3], AUTIA1716, PLT[3])])
def test_behind_stub_reads_its_slot(words: tuple[int, ...]) -> None:
    memory = FakeMemory({STUB: code(*words, *[NOP] * 4), SLOT: struct.pack("<Q", 0xFFFF_1234_5678)})
    assert behind_stub(memory, STUB) == 0xFFFF_1234_5678


def test_behind_other_code_is_that_code() -> None:
    # stp x29, x30, [sp, #-32]!; mov x29, sp
    memory = FakeMemory({STUB: code(0xA9BE7BFD, 0x910003FD, NOP, NOP, NOP, NOP)})
    assert behind_stub(memory, STUB) == STUB


def test_called_follows_direct_calls_and_their_stubs() -> None:
    # bl +0x20; the code there is a stub
    memory = FakeMemory({0x95C0: code(0x94000008, NOP, 0xD63F0020), STUB: code(*PLT, NOP, NOP),
                         SLOT: struct.pack("<Q", 0xFFFF_1234_5678)})
    assert called(memory, 0x95C4) == 0xFFFF_1234_5678
    assert called(memory, 0x95CC) is None  # blr x1
    assert called(memory, 0x95C8) is None  # nop
    assert called(memory, 0x10) is None
    assert [is_after_call(memory, at) for at in (0x95C4, 0x95C8, 0x95CC, 0)] == [True, False, True, False]


def test_iter_branches_reads_all_kinds() -> None:
    found = [*iter_branches(code(0x94000002, 0x17FFFFFF, 0x540002C0, 0xB4000041, 0x36000040, NOP), 0x1000)]
    assert found == [(0x1004, 0x1008, False, True), (0x1008, 0x1000, False, False), (0x100C, 0x1060, False, False),
                     (0x1010, 0x1014, False, False), (0x1014, 0x1018, False, False)]


def test_iter_calls_has_calls_only() -> None:
    memory = FakeMemory({0x1000: code(0x94000002, 0x17FFFFFF, NOP)})
    assert [*iter_calls(memory, 0x1000, 0x100C)] == [(0x1004, 0x1008)]


def test_constants_of_pairs_of_instructions() -> None:
    # adrp x0, +0x1000; add x0, x0, #0x480; adrp x1, +0x1000; ldr x1, [x1, #8]; bl
    words = (0xB0000000, 0x91120000, 0xB0000001, 0xF9400421, 0x94000000)
    memory = FakeMemory({0x4000: code(*words), 0x5000: bytes(0x10)})
    assert [*iter_loads(code(*words), 0x4000)] == [0x5008]
    assert constant_arguments(memory, 0x4000, 0x4014) == {0x5480}
    assert (0, 0x5480) in loaded_arguments(memory, 0x4000, 0x4010)
    assert all(index != 1 or address == 0x5000 for index, address in loaded_arguments(memory, 0x4000, 0x4010))


def test_call_makes_arguments_unknown() -> None:
    # adrp x0; add x0, x0, #0x480; bl; bl
    memory = FakeMemory({0x4000: code(0xB0000000, 0x91120000, 0x94000000, 0x94000000)})
    assert constant_arguments(memory, 0x4000, 0x400C) == {0x5480}
    assert constant_arguments(memory, 0x4000, 0x4010) == frozenset()


@pytest.mark.parametrize(("word", "expected"), [(RET, True), (0xD65F0BFF, True), (NOP, False), (0xD61F0220, False)])
def test_may_return(word: int, expected: bool) -> None:
    assert may_return(code(NOP, word)) is expected


def test_returned_address_of_an_address_and_of_a_variable() -> None:
    # gnu_get_libc_version of Debian 12: adrp x0, 0x153000; add x0, x0, #0x480; ret
    memory = FakeMemory({0x27920: code(0x90000960, 0x91120000, RET, NOP, NOP)})
    assert returned_address(memory, 0x27920) == 0x153480
    memory = FakeMemory({0x27920: code(BTI_C, 0x90000960, 0xF9400400, RET, NOP)})
    assert returned_address(memory, 0x27920) == 0x153008
    memory = FakeMemory({0x27920: code(0x90000960, NOP, NOP, NOP, NOP)})
    assert returned_address(memory, 0x27920) is None


def test_members_behind_jump() -> None:
    # Debian 12: cnd_destroy jumps to pthread_cond_destroy, which uses __wrefs at 36
    body = (0xA9BE7BFD, 0x910003FD, 0xF9000BF3, 0xAA0003F3, 0x91009273, 0x52800080, 0xAA1303E1, 0x9402DB5D)
    memory = FakeMemory({0x8AEE0: code(0x17FFD690, NOP), 0x80920: code(*body)})
    found = members_behind_jump(memory, 0x8AEE0)
    assert found is not None
    assert 36 in found
    assert not found & {40, 44}
    assert members_behind_jump(FakeMemory({0x8AEE0: code(0xA9BE7BFD, NOP)}), 0x8AEE0) is None


def test_loaded_thread_local() -> None:
    # Debian 12: omp_get_num_threads, omp_get_thread_num; 0x5FF90 has the distance
    first = (0x90000262, 0xF947C842, 0xD53BD041, 0x52800020, 0x8B020021, 0xF9400821, 0xB4000041, 0xB9400020)
    second = (0x90000261, 0xF947C821, 0xD53BD040, 0x8B010000, 0xB9402800, RET, NOP, NOP)
    memory = FakeMemory({0x139C4: code(*first), 0x139F0: code(*second), 0x5FF90: struct.pack("<Q", 0x50)})
    assert loaded_thread_local(memory, 0x139C4) == (0x50, 16, 8)
    assert loaded_thread_local(memory, 0x139F0) == (0x50, 40, 4)
    assert loaded_thread_local(FakeMemory({0x1000: code(*[NOP] * 8)}), 0x1000) is None
