from __future__ import annotations

import itertools
import time

import pytest

from gdbext.arch import x86_64
from gdbext.arch.x86_64.calls import constant_arguments
from gdbext.errors import GdbextError, MemoryUnreadable, UnknownLayout
from gdbext.inferior.protocol import Module
from gdbext.layout.select import libgomp_layouts
from gdbext.libraries.openmp.libgomp import (
    BarrierState,
    TeamPlaces,
    find_barrier,
    find_team_places,
    is_libgomp,
    iter_teams,
    team_of_barrier,
)
from tests.support.fake_elf import fake_elf
from tests.support.fake_memory import Builder, FakeMemory, NoiseMemory

LAYOUTS = libgomp_layouts("x86_64")
AT = 0x5555_0000_1000
ENDBR64 = b"\xf3\x0f\x1e\xfa"


@pytest.mark.parametrize(("name", "expected"), [
    ("libgomp.so.1", True), ("libgomp.so.1.0.0", True), ("libgomp-a34b3233.so.1.0.0", True),
    ("libgomp-plugin-nvptx.so.1", False), ("libomp.so.5", False), ("libgompertz.so", False),
])
def test_is_libgomp(name: str, expected: bool) -> None:
    assert is_libgomp(Module(f"/usr/lib/{name}", ())) is expected


def test_layouts_for_another_machine_are_unknown() -> None:
    with pytest.raises(UnknownLayout, match="riscv64"):
        libgomp_layouts("riscv64")


# -- barriers -------------------------------------------------------------------------------------------------

def barrier(total: int, generation: int, awaited: int, final: int, expected: int) -> BarrierState | None:
    memory = FakeMemory()
    build = Builder(memory, LAYOUTS, AT)
    address = build.new("gomp_barrier_t", total=total, generation=generation, awaited=awaited, awaited_final=final)
    assert address == AT
    return find_barrier(memory, LAYOUTS, AT + 4, expected)


@pytest.mark.parametrize(("words", "expected", "state"), [
    ((4, 0, 1, 4), 0, BarrierState(AT, 4, 1, False, False)),
    ((4, 16, 3, 4), 16, BarrierState(AT, 4, 3, False, False)),
    ((4, 8, 4, 2), 8, BarrierState(AT, 4, 2, False, False)),  # at the end of a region
    ((4, 8, 1, 2), 8, BarrierState(AT, 4, 2, False, False)),  # there, after the region was cancelled
    ((4, 9, 1, 4), 8, BarrierState(AT, 4, 1, False, False)),  # tasks were added
    ((4, 8, 1, 4), 9, BarrierState(AT, 4, 1, False, False)),  # and have finished
    ((3, 10, 3, 3), 8, BarrierState(AT, 3, 0, True, False)),  # all have arrived, some run tasks
    ((3, 16, 3, 3), 8, BarrierState(AT, 3, 0, False, True)),
    ((3, 18, 3, 3), 8, BarrierState(AT, 3, 0, False, True)),
    ((3, 16, 2, 3), 8, BarrierState(AT, 3, 2, False, True)),  # the first has arrived at the next barrier
    ((3, 8, 3, 3), 8, BarrierState(AT, 3, 0, False, True)),  # the last thread is about to end it
])
def test_find_barrier(words: tuple[int, int, int, int], expected: int, state: BarrierState) -> None:
    assert barrier(*words, expected) == state


@pytest.mark.parametrize("words", [(0, 0, 0, 0), (4, 0, 5, 4), (4, 0, 4, 5), (0xFFFFFFFF, 0, 1, 1)])
def test_find_barrier_when_words_are_invalid_is_none(words: tuple[int, int, int, int]) -> None:
    assert barrier(*words, 0) is None


def test_find_barrier_when_unreadable_raises() -> None:
    with pytest.raises(MemoryUnreadable):
        find_barrier(FakeMemory({AT: bytes(16)}), LAYOUTS, AT + 4, 0)


# -- teams ----------------------------------------------------------------------------------------------------

BASE, CODE, SLOT = 0x7F00_0000_0000, 0x2000, 0x3F88
NUM_THREADS, THREAD_NUM = CODE, CODE + 0x100
DISTANCE = -0x88


def slot_load(at: int, opcode: bytes) -> bytes:
    """A load of the slot, relative to the program counter."""
    return b"\x48\x8b" + opcode + (SLOT - at - 7).to_bytes(4, "little", signed=True)


def library(num_threads: bytes, thread_num: bytes, slot: int = DISTANCE, opcode: bytes = b"\x05",
            prefix: bytes = b"") -> tuple[FakeMemory, Module]:
    memory, module = fake_elf(BASE, {"omp_get_num_threads": (NUM_THREADS, 32), "omp_get_thread_num": (THREAD_NUM, 16)},
                              "/lib/libgomp.so.1")
    for at, code in ((NUM_THREADS, num_threads), (THREAD_NUM, thread_num)):
        loaded = prefix + slot_load(at + len(prefix), opcode) + code
        memory.map(BASE + at, loaded.ljust(32, b"\x90"))
    memory.u64(BASE + SLOT, slot & (1 << 64) - 1)
    return memory, module


# the next instructions in the builds of GCC 10.2, 12.2, 14.2 and 16.2 of Debian, 4.5 and 8.5 of wheels
TO_RDX, TO_RAX, NUMBER = b"\x64\x48\x8b\x50\x10", b"\x64\x48\x8b\x40\x10\x48\x85\xc0", b"\x64\x8b\x40\x28\xc3"


@pytest.mark.parametrize("prefix", [b"", ENDBR64], ids=["plain", "endbr64"])
@pytest.mark.parametrize("team", [TO_RDX, TO_RAX], ids=["rdx", "rax"])
def test_find_team_places(team: bytes, prefix: bytes) -> None:
    memory, module = library(team, NUMBER, prefix=prefix)
    assert find_team_places(x86_64, memory, module) == TeamPlaces(DISTANCE + 0x10, DISTANCE + 0x28)


def test_find_team_places_with_other_registers_and_displacements() -> None:
    memory, module = library(b"\x64\x48\x8b\x91\x00\x01\x00\x00", b"\x64\x8b\x01", opcode=b"\x0d")
    assert find_team_places(x86_64, memory, module) == TeamPlaces(DISTANCE + 0x100, DISTANCE)


@pytest.mark.parametrize(("team", "number", "slot", "opcode"), [
    (b"\x64\x48\x8b\x51\x10", NUMBER, DISTANCE, b"\x05"),  # from another register
    (b"\x64\x8b\x50\x10", NUMBER, DISTANCE, b"\x05"),  # four bytes of a pointer
    (TO_RDX, b"\x64\x48\x8b\x40\x28", DISTANCE, b"\x05"),  # eight of a number
    (TO_RDX, NUMBER, 0x88, b"\x05"),  # above the thread pointer
    (TO_RDX, NUMBER, -(1 << 40), b"\x05"),
    (b"\x48\x8b\x50\x10", NUMBER, DISTANCE, b"\x05"),  # not thread-local
    (b"\xc3", NUMBER, DISTANCE, b"\x05"),
    (TO_RDX, NUMBER, DISTANCE, b"\x04"),
])
def test_find_team_places_when_code_is_unknown_is_none(team: bytes, number: bytes, slot: int, opcode: bytes) -> None:
    memory, module = library(team, number, slot, opcode)
    assert find_team_places(x86_64, memory, module) is None


def test_find_team_places_when_functions_are_not_exported_is_none() -> None:
    memory, module = fake_elf(BASE, {"GOMP_parallel": (CODE, 32)}, "/lib/libgomp.so.1")
    assert find_team_places(x86_64, memory, module) is None


def test_find_team_places_when_slot_is_unreadable_is_none() -> None:
    memory, module = library(TO_RDX, NUMBER)
    memory.write(BASE + NUM_THREADS + 3, b"\x00\x00\x00\x40")
    assert find_team_places(x86_64, memory, module) is None


PLACES = TeamPlaces(-0x78, -0x60)
POINTER = 0x7F11_0000_0000


def in_team(memory: FakeMemory, team: int, number: int) -> None:
    memory.u64(POINTER + PLACES.team, team)
    memory.u32(POINTER + PLACES.team_id, number)


def test_iter_teams() -> None:
    memory = FakeMemory()
    build = Builder(memory, LAYOUTS, AT)
    outermost = build.new("gomp_team", nthreads=2)
    outer = build.new("gomp_team", nthreads=4, prev_team=outermost, prev_team_id=1)
    inner = build.new("gomp_team", nthreads=2, prev_team=outer, prev_team_id=0)
    in_team(memory, inner, 0)
    assert list(iter_teams(memory, LAYOUTS, PLACES, POINTER)) == [inner, outer, outermost]
    # only the thread that started the region is also in the outer team
    in_team(memory, inner, 1)
    assert list(iter_teams(memory, LAYOUTS, PLACES, POINTER)) == [inner]
    in_team(memory, 0, 0)
    assert list(iter_teams(memory, LAYOUTS, PLACES, POINTER)) == []


def test_iter_teams_when_nesting_is_endless_is_bounded() -> None:
    memory = FakeMemory()
    team = Builder(memory, LAYOUTS, AT).new("gomp_team", nthreads=2, prev_team=AT)
    in_team(memory, team, 0)
    assert 1 < len(list(itertools.islice(iter_teams(memory, LAYOUTS, PLACES, POINTER), 10_000))) < 1000


def test_iter_teams_when_unreadable_raises() -> None:
    memory = FakeMemory()
    in_team(memory, AT, 0)
    with pytest.raises(MemoryUnreadable):
        list(iter_teams(memory, LAYOUTS, PLACES, POINTER))


def test_team_of_barrier() -> None:
    memory = FakeMemory()
    team = Builder(memory, LAYOUTS, AT).new("gomp_team", nthreads=3)
    address = team + LAYOUTS["gomp_team"].offset("barrier")
    assert team_of_barrier(memory, LAYOUTS, BarrierState(address, 3, 1, False, False)) == team
    assert team_of_barrier(memory, LAYOUTS, BarrierState(address, 4, 1, False, False)) is None
    with pytest.raises(MemoryUnreadable):
        team_of_barrier(memory, LAYOUTS, BarrierState(AT - 0x10_0000, 3, 1, False, False))


# -- the argument of a call -------------------------------------------------------------------------------------

TEXT, NAME, OTHER_NAME, TABLE = 0x40_1000, 0x40_8000, 0x40_8010, 0x40_7000
CALL = b"\xe8\x00\x00\x00\x00"


def rip(opcode: bytes, at: int, target: int) -> bytes:
    return opcode + (target - at - len(opcode) - 4).to_bytes(4, "little", signed=True)


def arguments(*pieces: bytes) -> frozenset[int]:
    code = b"".join(pieces)
    memory = FakeMemory({TEXT: code, TABLE: NAME.to_bytes(8, "little")})
    return constant_arguments(memory, TEXT, TEXT + len(code))


LEA_RDI, LEA_RBP, LEA_R13, MOV_RDI_SLOT = b"\x48\x8d\x3d", b"\x48\x8d\x2d", b"\x4c\x8d\x2d", b"\x48\x8b\x3d"
RDI_FROM_RBP, RDI_FROM_R13, RDI_FROM_RBX = b"\x48\x89\xef", b"\x4c\x89\xef", b"\x48\x89\xdf"


def test_argument_loaded_at_the_call() -> None:
    assert arguments(rip(LEA_RDI, TEXT, NAME), CALL) == {NAME}
    assert arguments(rip(MOV_RDI_SLOT, TEXT, TABLE), CALL) == {NAME}
    assert arguments(b"\xbf" + NAME.to_bytes(4, "little"), CALL) == {NAME}


def test_argument_kept_in_another_register() -> None:
    assert arguments(rip(LEA_RBP, TEXT, NAME), bytes(200), RDI_FROM_RBP, CALL) == {NAME}
    assert arguments(rip(LEA_R13, TEXT, NAME), RDI_FROM_R13, CALL) == {NAME}
    # mov ebp, imm32; mov r13d, imm32
    assert arguments(b"\xbd" + NAME.to_bytes(4, "little"), RDI_FROM_RBP, CALL) == {NAME}
    assert arguments(b"\x41\xbd" + NAME.to_bytes(4, "little"), RDI_FROM_R13, CALL) == {NAME}


def test_argument_of_the_last_of_several_loads() -> None:
    first = rip(LEA_RBP, TEXT, NAME)
    second = rip(LEA_R13, TEXT + 7, OTHER_NAME)
    assert arguments(first, second, RDI_FROM_RBP, CALL, RDI_FROM_R13, CALL) == {OTHER_NAME}
    assert arguments(first, second, RDI_FROM_R13, CALL, RDI_FROM_RBP, CALL) == {NAME}
    # a load after the move is for another call
    assert arguments(first, RDI_FROM_RBP, rip(LEA_RBP, TEXT + 10, OTHER_NAME), CALL) == {NAME}
    assert arguments(first, RDI_FROM_RBP, CALL, rip(LEA_RDI, TEXT + 15, OTHER_NAME), CALL) == {OTHER_NAME}


@pytest.mark.parametrize("code", [
    b"", bytes(64), RDI_FROM_RBX, LEA_RDI + bytes(4) + bytes(64), LEA_RBP + bytes(4),
    # the low half of a 64-bit constant, and of a constant for r15
    b"\x48\xbf" + bytes(8), b"\x41\xbf" + NAME.to_bytes(4, "little"),
], ids=["nothing", "zeros", "unknown", "too far", "other register", "movabs", "r15"])
def test_argument_when_code_is_unknown_is_none(code: bytes) -> None:
    assert arguments(code, CALL) == frozenset()


def test_argument_when_code_or_slot_is_unreadable() -> None:
    with pytest.raises(MemoryUnreadable):
        constant_arguments(FakeMemory(), TEXT, TEXT + 64)
    assert arguments(rip(MOV_RDI_SLOT, TEXT, 0x40_6000), CALL) == frozenset()


def test_argument_when_code_is_ambiguous() -> None:
    # the displacement itself looks like mov edi, imm32
    code = rip(LEA_RDI, TEXT, TEXT + 7 + 0x44BF)
    assert code[3:5] == b"\xbf\x44"
    assert arguments(code, CALL) == {TEXT + 7 + 0x44BF, 0xE8000044}


@pytest.mark.parametrize("seed", range(10))
def test_argument_when_code_is_random_raises_nothing(seed: int) -> None:
    memory = NoiseMemory(seed)
    start = time.process_time()
    for i in range(200):
        address = 0x10000 + 4 * 37 * i
        found = find_barrier(memory, LAYOUTS, address, i)
        assert found is None or 0 <= found.missing <= found.total
        try:
            assert sum(1 for _ in iter_teams(memory, LAYOUTS, PLACES, address)) < 1000
            constant_arguments(memory, address, address + 300)
        except GdbextError:
            continue
    assert time.process_time() - start < 10
