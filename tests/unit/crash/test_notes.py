"""What else is known of a crash."""

from __future__ import annotations

import struct

import pytest

from gdbext.crash.heap import DamagedHeader
from gdbext.crash.notes import NoteReader
from gdbext.crash.pointers import Pointers
from gdbext.inferior.address_space import Region
from gdbext.inferior.protocol import SignalInfo
from gdbext.inferior.signals import SIGSEGV
from gdbext.model import Crash, Fault, NativeFrame, PyFrame
from gdbext.model.reasons import because
from gdbext.narrate.reasons import explain
from gdbext.threads.code import read_code
from gdbext.threads.findings import Findings
from gdbext.threads.gone import GoneOwners
from gdbext.threads.python_side import read_python_side
from gdbext.threads.site import Sites
from gdbext.threads.threads import read_threads
from tests.support.crash_rules import Rules
from tests.support.crash_scene import FUNCTION, HEAP, MAPERR, Scene, crash_of
from tests.support.fake_signal_frame import fault_info, signal_frame
from tests.support.fake_target import APP_DATA, APP_TEXT, DRIVER_TEXT, LIBC_TEXT

RESTORER = LIBC_TEXT + 0x4000


def notes(crash: Crash) -> list[str]:
    return list(map(explain, crash.notes))


@pytest.fixture
def scene() -> Scene:
    made = Scene()
    made.target.name(FUNCTION, "count_request")
    made.target.name(APP_TEXT + 0x600, "on_crash")
    return made


def in_handler_that_faults(scene: Scene) -> None:
    """The handler of a fault in `FUNCTION` reads a null pointer itself."""
    thread = scene.thread
    pc, own = scene.code("mov %rdx,0x8(%rbx)"), scene.code("mov (%rax),%rdx", at=APP_TEXT + 0x600)
    at = thread.stack + 0x200
    scene.target.ram.write(RESTORER, b"\x48\xc7\xc0\x0f\0\0\0\x0f\x05")
    info = fault_info(SIGSEGV, MAPERR, 8)
    scene.target.ram.map(at, signal_frame(info, 14, 6, rip=pc, rsp=thread.stack + 0x800, rbx=0, rdx=7))
    thread.frames = [(own, thread.stack + 0x80), (RESTORER, at), (pc, thread.stack + 0x800),
                     (APP_TEXT + 0x80, thread.stack + 0x900)]
    thread.registers.update(scene.registers, rip=own, rsp=thread.stack + 0x80, rax=0, orig_rax=(1 << 64) - 1)
    scene.target.signals[1] = SignalInfo(SIGSEGV, MAPERR, 0)


def test_fault_whose_handler_faults_is_the_first_one(scene: Scene) -> None:
    in_handler_that_faults(scene)
    assert notes(crash_of(scene.target)) == [
        "the handler ran because of an earlier fault: SIGSEGV in count_request(), wrote 8 bytes at 0x8: the member at "
        "offset 0x8 of a null pointer (%rbx)"]


def test_fault_without_a_handler_has_no_earlier_one(scene: Scene) -> None:
    pc = scene.code("mov (%rax),%rdx")
    scene.thread.frames = [(pc, scene.stack), (APP_TEXT + 0x80, scene.stack + 0x100)]
    scene.thread.registers.update(scene.registers, rip=pc, rsp=scene.stack)
    scene.target.signals[1] = SignalInfo(SIGSEGV, MAPERR, 0)
    assert crash_of(scene.target).notes == ()


def reader_of(scene: Scene) -> NoteReader:
    target, findings = scene.target, Findings()
    code = read_code(target, findings)
    threads = read_threads(target, None, findings)
    side = read_python_side(target, code, threads, GoneOwners(target, None, threads), findings)
    return NoteReader(target.memory, code, threads, side, Sites(target.memory, code, target.loaded[2:3]),
                      Pointers(target, code, threads, side.pythons))


@pytest.mark.parametrize(("text", "said"), [
    ("rows of all", "was probably written beyond its end"), (None, "ends where the damaged header begins")])
def test_blocks_beside_a_damaged_header(scene: Scene, text: str | None, said: str) -> None:
    memory, block = scene.target.ram, HEAP + 0x110
    memory.write(HEAP, struct.pack("<2Q", 0, 0x101))
    memory.write(HEAP + 16, b"names of all\0")
    memory.u64(APP_DATA + 0x20, HEAP + 16)
    memory.u64(scene.stack + 0x40, block)
    assert list(map(explain, reader_of(scene).damaged_block(DamagedHeader(block, 0x6E6E6E6E, text)))) == [
        f"the block before it, {HEAP + 16:#x} of 248 bytes, which begins with 'names of all', {said}; pointers to "
        "it are data: in server", f"pointers to block {block:#x} are on the stack of thread 1"]


def test_block_whose_heap_cannot_be_read_has_no_notes(scene: Scene) -> None:
    scene.target.mappings.append(Region(0x7000_0000, 0x7000_1000, "rw", None))
    assert reader_of(scene).damaged_block(DamagedHeader(0x7000_0100, 0, None)) == ()


@pytest.mark.parametrize(("kind", "at", "is_found"), [
    ("non-canonical", 0x200, True), ("null-member", 0x200, False), ("non-canonical", None, False)])
def test_bad_pointer_in_data_that_only_the_interpreter_uses(kind: str, at: int | None, is_found: bool) -> None:
    """A null pointer may be a bug of the interpreter; code of an extension may pass anything."""
    rules = Rules()
    native = NativeFrame("f", "libpython3.13.so.1.0", (rules.text if at is not None else DRIVER_TEXT) + 0x200)
    fault = Fault("SIGSEGV", None, kind, because("called-abort"))
    scene = Scene(rules.target)
    frames = (native, PyFrame("sweep", "sweep", "/app/job.py", 3))
    assert bool(list(reader_of(scene).earlier_damage(fault, frames))) == is_found
    foreign = NativeFrame("fill", "libdrv.so", DRIVER_TEXT + 0x40)
    assert not list(reader_of(scene).earlier_damage(fault, (native, foreign, frames[1])))
