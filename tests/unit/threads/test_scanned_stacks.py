from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any, cast

from gdbext.errors import GdbextError
from gdbext.inferior.protocol import Module, Section
from gdbext.threads.scanned_stacks import ScannedStacks
from tests.support.fake_memory import FakeMemory

LIBRARY, STACK = 0x7000, 0x10_0000
WORK, HELPER, MAIN_CALL, START_CALL = 0x1100, 0x1200, 0x1150, 0x7350
LOCK, UNLOCK = 0x7100, 0x7180


class Cpu:
    PROGRAM_COUNTER, STACK_POINTER = "rip", "rsp"
    #: return address -> function called
    calls = {WORK + 0x20: LOCK, HELPER + 0x20: UNLOCK, WORK + 0x40: HELPER}

    def called(self, _: object, after: int) -> int | None:
        return self.calls.get(after)


class Unwinder:
    """Functions of the program have a frame of 16 bytes, above which is the return address."""

    def __init__(self, memory: FakeMemory) -> None:
        self._memory = memory

    def function_range(self, pc: int) -> tuple[int, int] | None:
        return (pc & ~0xFF, (pc & ~0xFF) + 0x100) if pc < LIBRARY else None

    def walk(self, registers: Mapping[str, int],
             limit: int) -> tuple[list[tuple[int, int]], GdbextError | None]:
        pc, sp = registers["rip"], registers["rsp"]
        frames = [(pc, sp)]
        while self.function_range(pc - 1) is not None and len(frames) < limit:
            pc, sp = struct.unpack("<Q", self._memory.read(sp + 16, 8))[0], sp + 24
            frames.append((pc, sp))
        return frames, None


def continued(words: Sequence[int]) -> list[int]:
    memory = FakeMemory({STACK: struct.pack(f"<{len(words)}Q", *words).ljust(4096, b"\0")})
    module = Module("/lib/ld-musl.so.1", (Section(".text", LIBRARY, LIBRARY + 0x1000),))
    stacks = ScannedStacks(memory, cast("Any", Cpu()), cast("Any", Unwinder(memory)), module)
    return [pc for pc, _ in stacks.continued([(LIBRARY + 0x500, STACK)], 100)]


def test_caller_is_found_by_its_call_of_the_library() -> None:
    assert continued([0, 1, WORK + 0x20, 7, 7, START_CALL, 0]) == [LIBRARY + 0x500, WORK + 0x20, START_CALL]


def test_left_over_return_address_of_another_call_is_no_caller() -> None:
    # HELPER has called UNLOCK and returned; then WORK called LOCK: the word above HELPER's frame is of another call
    words = [0, HELPER + 0x20, 7, 7, WORK + 0x20, 7, 7, START_CALL, 0]
    assert continued(words) == [LIBRARY + 0x500, WORK + 0x20, START_CALL]


def test_caller_that_was_called_by_the_program_is_one() -> None:
    words = [0, HELPER + 0x20, 7, 7, WORK + 0x40, 7, 7, START_CALL, 0]
    assert continued(words) == [LIBRARY + 0x500, HELPER + 0x20, WORK + 0x40, START_CALL]


def test_stack_that_does_not_lead_back_to_the_library_is_not_continued() -> None:
    assert continued([0, WORK + 0x20, 7, 7, 0x20, 7, 7, 0x20, 0]) == [LIBRARY + 0x500]
    assert continued([0, 1, 2, 3]) == [LIBRARY + 0x500]
