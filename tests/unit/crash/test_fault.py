from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence

import pytest

from gdbext.arch.x86_64.registers import FRAME
from gdbext.crash.seen import SeenFault
from gdbext.inferior.address_space import Region
from gdbext.inferior.protocol import SignalInfo
from gdbext.inferior.signals import (
    SI_KERNEL,
    SI_TKILL,
    SIGABRT,
    SIGBUS,
    SIGFPE,
    SIGILL,
    SIGSEGV,
)
from gdbext.model import DERIVED, INFERRED, RECORDED, Fault
from gdbext.narrate.reasons import explain
from tests.support.crash_scene import (
    ACCERR,
    CALLER,
    FUNCTION,
    HEAP,
    MAPERR,
    MAPPED_FILE,
    OUTERMOST,
    PKUERR,
    STEP,
    Scene,
    described,
    origins,
)
from tests.support.fake_memory import NoiseMemory
from tests.support.fake_target import DRIVER_TEXT, LIBC_TEXT, STACK_SIZE


@pytest.fixture
def scene() -> Scene:
    return Scene()


# -- what the address is -------------------------------------------------------------------------------------------

def test_null_pointer(scene: Scene) -> None:
    fault = scene.segv("mov (%rax),%rdx", address=0)
    assert (fault.kind, explain(fault.text)) == ("null-pointer", "read 8 bytes at 0x0: a null pointer (%rax)")
    assert (fault.signal, fault.code, fault.address, fault.access, fault.size) == (
        "SIGSEGV", "SEGV_MAPERR", 0, "read", 8)
    assert (fault.instruction, fault.pc, fault.evidence, fault.sender) == ("mov (%rax),%rdx", FUNCTION, RECORDED, None)
    assert [(each.text, each.value, described(each)) for each in fault.operands] == [("%rax", 0, "null")]


@pytest.mark.parametrize(("text", "address", "shown"), [
    ("mov %edx,0x18(%rbx)", 0x18, "wrote 4 bytes at 0x18: the member at offset 0x18 of a null pointer (%rbx)"),
    ("movb $0x1,0xfff8(%rbx)", 0xFFF8, "wrote 1 byte at 0xfff8: the member at offset 0xfff8 of a null pointer (%rbx)"),
])
def test_null_member(scene: Scene, text: str, address: int, shown: str) -> None:
    fault = scene.segv(text, address=address)
    assert (fault.kind, explain(fault.text)) == ("null-member", shown)


@pytest.mark.parametrize(("text", "registers", "address", "array"), [
    ("mov 0x8(%rbx,%rcx,8),%rax", {"rcx": 3}, 0x20, "(%rbx), at index %rcx = 0x3"),
    ("movsbq (%rbx,%rcx,1),%rax", {"rcx": 0x2300}, 0x2300, "(%rbx), at index %rcx = 0x2300"),
    ("movsbq (%rbx,%rcx,1),%rax", {"rbx": 0x2300}, 0x2300, "(%rcx), at index %rbx = 0x2300"),
    ("mov (%rbx,%rcx,8),%rax", {"rcx": 0x4000}, 0x20000, "(%rbx), at index %rcx = 0x4000")])
def test_element_of_a_null_array(scene: Scene, text: str, registers: dict[str, int], address: int, array: str) -> None:
    scene.registers.update(registers)
    fault = scene.segv(text, address=address)
    assert fault.kind == "null-element"
    assert explain(fault.text).endswith(f"an element of a null array {array}")
    index = next(each for each in fault.operands if each.value in registers.values())
    assert described(index) is None, "it is not an address"


def test_small_base_with_an_index_of_zero_is_no_null_array(scene: Scene) -> None:
    fault = scene.segv("mov (%rbx,%rcx,8),%rax", address=0x2300, rbx=0x2300)
    assert fault.kind == "small-pointer"


def test_null_without_a_register(scene: Scene) -> None:
    fault = scene.segv("mov 0x0,%eax", address=0)
    assert (fault.kind, explain(fault.text)) == ("null-pointer", "read 4 bytes at 0x0: a null pointer")


def test_address_far_from_null_is_not_a_member(scene: Scene) -> None:
    fault = scene.segv("mov 0x123456(%rbx),%rax", address=0x123456)
    assert fault.kind == "unmapped"


def test_small_pointer(scene: Scene) -> None:
    fault = scene.segv("mov 0x8(%rsi),%al", address=0x32, rsi=0x2A)
    assert (fault.kind, explain(fault.text)) == (
        "small-pointer", "read 1 byte at 0x32: at offset 0x8 of %rsi = 0x2a, not an address: 42 is too small")


@pytest.mark.parametrize(("value", "said"), [
    (0xDDDDDDDDDDDDDDDD, "Python's debug allocator leaves it in freed memory"),
    (0xDDDDDDDDDDDDDDDD + 0x20, "Python's debug allocator"), (0xA5A5A5A5A5A5A5A5, "jemalloc")])
def test_pattern(scene: Scene, value: int, said: str) -> None:
    fault = scene.segv("mov 0x10(%rdi),%rax", rdi=value)
    assert fault.kind == "pattern"
    assert fault.address == value + 0x10  # the processor does not record it
    assert explain(fault.text).startswith(f"read 8 bytes at {value + 0x10:#x}: at offset 0x10 of %rdi = {value:#x}, ")
    assert "eight times, a fill pattern" in explain(fault.text)
    register = next(each for each in fault.operands if each.text == "%rdi")
    assert register.what is not None
    assert said in explain(register.what)


def test_pattern_that_is_an_address(scene: Scene) -> None:
    """0x5a5a5a5a5a5a5a5a is not canonical, but the pattern of six bytes is: it is only unmapped."""
    fault = scene.segv("mov (%rdi),%rax", address=0x5A5A5A5A5A5A, rdi=0x5A5A5A5A5A5A)
    assert fault.kind == "unmapped"


def test_non_canonical(scene: Scene) -> None:
    fault = scene.segv("mov %rax,(%rdi)", rdi=0x1234_5678_9ABC_DEF0)
    assert (fault.kind, explain(fault.text)) == (
        "non-canonical", "wrote 8 bytes at 0x123456789abcdef0: %rdi = 0x123456789abcdef0, not a valid "
        "address (not canonical)")
    assert fault.code == "SI_KERNEL"


def test_pointer_overwritten_by_text_shows_the_text(scene: Scene) -> None:
    fault = scene.segv("mov (%rdi),%rax", rdi=int.from_bytes(b"/usr/lib", "little"))
    assert fault.kind == "non-canonical"
    assert "as text it reads '/usr/lib'" in explain(fault.text)


def test_non_canonical_sum_of_base_and_index(scene: Scene) -> None:
    fault = scene.segv("mov (%rdi,%rcx,8),%rax", rdi=HEAP, rcx=1 << 59)
    assert fault.kind == "non-canonical"
    assert f"made of %rdi = {HEAP:#x}" in explain(fault.text)


def test_unmapped(scene: Scene) -> None:
    fault = scene.segv("mov (%rdi),%rax", address=0x7000_1230, rdi=0x7000_1230)
    assert (fault.kind, explain(fault.text)) == ("unmapped", "read 8 bytes at 0x70001230: not mapped")


def test_unmapped_address_that_was_mapped_since(scene: Scene) -> None:
    """A mapping that another thread made later says nothing about the permissions at the fault."""
    fault = scene.segv("mov %rax,(%rdi)", address=HEAP + 0x20, rdi=HEAP + 0x20)
    assert (fault.kind, explain(fault.text)) == (
        "unmapped", f"wrote 8 bytes at {HEAP + 0x20:#x}: nothing was mapped there at that time, though now it is heap")


@pytest.mark.parametrize(("text", "address", "said"), [
    ("mov %rax,(%rdi)", DRIVER_TEXT + 8, "its mapping allows rx (code: in libdrv.so)"),
    ("mov %rax,(%rdi)", HEAP + 0x3008, "its mapping allows r (memory)"),
    ("mov %rax,(%rdi)", HEAP + 0x2800, "its mapping does not allow it (not mapped)"),
])
def test_no_permission(scene: Scene, text: str, address: int, said: str) -> None:
    fault = scene.segv(text, address=address, code=ACCERR, rdi=address)
    assert (fault.kind, explain(fault.text)) == ("no-permission", f"wrote 8 bytes at {address:#x}: {said}")


def test_no_permission_when_the_mapping_allows_it_now(scene: Scene) -> None:
    fault = scene.segv("mov %rax,(%rdi)", address=HEAP + 8, code=ACCERR, rdi=HEAP + 8)
    assert (fault.kind, explain(fault.text)) == (
        "no-permission", f"wrote 8 bytes at {HEAP + 8:#x}: its mapping did not allow it at that time (heap)")


def test_protection_key(scene: Scene) -> None:
    fault = scene.segv("mov (%rdi),%rax", address=HEAP + 8, code=PKUERR, rdi=HEAP + 8)
    assert (fault.kind, explain(fault.text)) == (
        "no-permission", f"read 8 bytes at {HEAP + 8:#x}: a protection key forbids it")


def test_misaligned(scene: Scene) -> None:
    fault = scene.segv("movaps %xmm0,0x8(%rsp)", rsp=scene.stack + 0x100)
    assert (fault.kind, fault.address, fault.size) == ("misaligned", scene.stack + 0x108, 16)
    assert explain(fault.text) == (
        f"wrote 16 bytes at {scene.stack + 0x108:#x}: `movaps` needs an address that is a multiple of 16")


def test_unmapped_address_is_not_misaligned(scene: Scene) -> None:
    fault = scene.segv("movaps %xmm0,(%rdi)", address=0x7000_0008, rdi=0x7000_0008)
    assert fault.kind == "unmapped"


def test_aligned_or_unaligned_access_is_not_misaligned(scene: Scene) -> None:
    for text in ("movaps %xmm0,(%rsp)", "movups %xmm0,0x8(%rsp)", "mov %rax,0x1(%rsp)"):
        fault = Scene().segv(text, rsp=scene.stack + 0x100)
        assert (fault.kind, fault.address) == ("general-protection", None)
        assert explain(fault.text) == f"the processor refused the instruction `{text}` (general protection)"


# -- stack overflow ------------------------------------------------------------------------------------------------

def test_stack_overflow_into_its_guard(scene: Scene) -> None:
    fault = scene.segv("push %rbx", address=scene.stack - 8, code=ACCERR, rsp=scene.stack)
    assert (fault.kind, fault.evidence) == ("stack-overflow", DERIVED)
    assert explain(fault.text) == f"wrote 8 bytes at {scene.stack - 8:#x}: the stack is used up, 8 KiB of it"
    assert fault.why is not None
    assert explain(fault.why) == "the address is just below the stack that the thread uses"


def test_stack_overflow_without_a_guard(scene: Scene) -> None:
    del scene.target.mappings[-2]
    fault = scene.segv("mov %rax,-0x2000(%rsp)", address=scene.stack - 0x2000 + 0x40, rsp=scene.stack + 0x40)
    assert fault.kind == "stack-overflow"


def test_stack_overflow_of_a_large_frame(scene: Scene) -> None:
    """The stack pointer itself may already be beyond the guard, if the frame ends in the stack."""
    text, below = "movq $0x0,0x10(%rsp)", scene.stack - 0x20000
    fault = scene.segv(text, address=below + 0x10, rsp=below)
    assert fault.kind == "unmapped", "another stack may have been there"
    scene.called_by(1, CALLER, f"call {FUNCTION:#x} <f>")
    fault = scene.segv(text, address=below + 0x10, rsp=below)
    assert fault.kind == "stack-overflow"


def test_stack_overflow_after_a_debugger_made_the_stack_grow(scene: Scene) -> None:
    """In a live process the kernel maps the pages below a stack that GDB reads."""
    fault = scene.segv("push %rbx", address=scene.stack + 0xFF8, code=MAPERR, rsp=scene.stack + 0x1000)
    assert (fault.kind, fault.evidence) == ("stack-overflow", DERIVED)
    assert explain(fault.text).endswith("the stack is used up, 4 KiB of it")


@pytest.mark.parametrize(("address", "rsp"), [
    (-0x18, 0x1_8000),  # the stack pointer is far from its end
    (-0x30_0000, 0x100),  # far below it
])
def test_fault_below_a_stack_far_from_its_end_is_not_an_overflow(address: int, rsp: int) -> None:
    scene = Scene()
    scene.target.mappings[-1] = Region(scene.stack, scene.stack + 0x4_0000, "rw", None)
    fault = scene.segv("mov (%rdi),%rax", address=scene.stack + address, rdi=scene.stack + address,
                       rsp=scene.stack + rsp)
    assert fault.kind != "stack-overflow"


def test_null_pointer_with_a_full_stack_is_not_an_overflow(scene: Scene) -> None:
    assert scene.segv("mov (%rdi),%rax", address=0, rsp=scene.stack + 8).kind == "null-pointer"


# -- calls of addresses without code -------------------------------------------------------------------------------

def called(scene: Scene, pc: int, *texts: str, code: int = MAPERR, **registers: int) -> SeenFault:
    """Fault at `pc` after the call that ends a function."""
    after = scene.code(*texts) + STEP
    scene.target.ram.u64(scene.registers["rsp"], after)
    return scene.read(SignalInfo(SIGSEGV, code, pc), "execute", rip=pc, **registers)


def test_null_call(scene: Scene) -> None:
    seen = called(scene, 0, "mov 0x28(%rbx),%rax", "call *%rax", rbx=HEAP)
    fault = seen.fault
    assert (fault.kind, explain(fault.text)) == ("null-call", "called a null function pointer")
    assert (fault.address, fault.access, fault.instruction, fault.pc) == (0, "execute", "call *%rax", 0)
    assert [(each.text, each.value) for each in fault.operands] == [("%rax", 0)]
    assert origins(fault) == ["%rax was read from 0x28(%rbx): %rbx is 0x5000000000, heap"]
    assert seen.code_at == FUNCTION + STEP
    assert seen.objects == (HEAP,)


def test_null_in_a_table_of_functions(scene: Scene) -> None:
    fault = called(scene, 0, "call *0x18(%rdi)", rdi=HEAP).fault
    assert fault.kind == "null-call"
    assert (fault.operands[0].text, fault.operands[0].value) == ("0x18(%rdi)", HEAP + 0x18)
    assert described(fault.operands[0]) == "heap, which contains 0x0"


@pytest.mark.parametrize(("pc", "kind", "text"), [
    (0xDDDDDDDDDDDDDDDD, "pattern", "called a function at 0xdddddddddddddddd: the byte 0xdd eight times, a fill"),
    (0x1234, "execute-data", "called a function at 0x1234: not an address: 4660 is too small"),
    (0x7000_0000, "execute-data", "called a function at 0x70000000: not mapped"),
    (HEAP + 0x10, "execute-data", "ran code at 0x5000000010: heap, which is not executable"),
])
def test_call_of_an_address_without_code(scene: Scene, pc: int, kind: str, text: str) -> None:
    code = SI_KERNEL if pc >> 47 else ACCERR if pc == HEAP + 0x10 else MAPERR
    fault = called(scene, pc, "call *%rax", code=code, rax=pc).fault
    assert fault.kind == kind
    assert explain(fault.text).startswith(text)
    assert fault.access == "execute"
    assert fault.instruction == "call *%rax"


def test_address_without_code_and_without_a_call(scene: Scene) -> None:
    """A jump, or a return to an overwritten address: its origin is unknown."""
    scene.target.ram.u64(scene.registers["rsp"], HEAP)
    fault = scene.read(SignalInfo(SIGSEGV, MAPERR, 0x1234), rip=0x1234).fault
    assert (fault.kind, fault.instruction, fault.operands) == ("execute-data", None, ())
    scene.target.ram.u64(scene.registers["rsp"], FUNCTION + 0x20)  # in a function, but not after a call
    fault = scene.read(SignalInfo(SIGSEGV, MAPERR, 0), rip=0).fault
    assert (fault.kind, fault.instruction) == ("null-call", None)


def test_unreadable_code_is_explained_by_the_address(scene: Scene) -> None:
    """The file is missing, or the bytes are not code: only the address explains the fault."""
    scene.target.mappings.append(Region(0x7D80_0000_0000, 0x7D80_0000_1000, "rx", "/app/lost.so"))

    def fault(address: int, code: int = MAPERR, access: str | None = None, rsp: int = scene.stack + 0x100) -> Fault:
        found = scene.read(SignalInfo(SIGSEGV, code, address), access, rip=0x7D80_0000_0100, rsp=rsp).fault
        assert (found.instruction, found.operands, found.access) == (None, (), access)
        assert "the instruction is not known" in explain(found.text)
        return found

    null = fault(0, access="write")
    assert null.kind == "null-pointer"
    assert explain(null.text).startswith("wrote memory at 0x0 (")
    assert (fault(0x18).kind, fault(0x18).evidence) == ("null-member", INFERRED)
    assert fault(0x7000_0000).kind == "unmapped"
    readable = fault(HEAP + 0x3008, ACCERR)
    assert readable.kind == "no-permission"
    assert "its mapping allows r (" in explain(readable.text)  # the access may have been a write
    assert fault(scene.stack - 0x20, ACCERR, rsp=scene.stack + 8).kind == "stack-overflow"
    assert fault(0, SI_KERNEL).address is None


# -- the other signals ---------------------------------------------------------------------------------------------

def bus_error(scene: Scene, code: int, address: int) -> Fault:
    pc = scene.code("mov (%rdi),%rax")
    return scene.read(SignalInfo(SIGBUS, code, address), rip=pc, rdi=address).fault


def test_truncated_file(scene: Scene) -> None:
    scene.target.files["/data/table"] = bytes(0x3000)
    fault = bus_error(scene, 2, MAPPED_FILE + 0x2010)
    assert (fault.signal, fault.code, fault.kind) == ("SIGBUS", "BUS_ADRERR", "truncated-file")
    assert explain(fault.text) == (
        "read 8 bytes at 0x602010: byte 0x3010 of /data/table, which is mapped, but the file ends before it: it was "
        "truncated")


def test_file_that_is_long_enough_has_no_page(scene: Scene) -> None:
    """Its file system is full. The last page of a file has zeros beyond its end."""
    scene.target.files["/data/table"] = bytes(0x3001)
    fault = bus_error(scene, 2, MAPPED_FILE + 0x2010)
    assert (fault.kind, fault.evidence) == ("no-memory-behind", INFERRED)
    assert "its file system is full" in explain(fault.text)
    assert "truncated" not in explain(fault.text)


def test_file_that_is_gone_may_have_been_full_or_truncated(scene: Scene) -> None:
    fault = bus_error(scene, 2, MAPPED_FILE + 0x2010)
    assert (fault.kind, fault.evidence) == ("no-memory-behind", RECORDED)
    assert explain(fault.text).endswith("its file system is full, or the file was truncated")


@pytest.mark.parametrize("address", [HEAP, HEAP + 0x3010, 0x7000_0000])
def test_no_memory_behind(scene: Scene, address: int) -> None:
    fault = bus_error(scene, 2, address)
    assert fault.kind == "no-memory-behind"
    assert "truncated" not in explain(fault.text)


def test_huge_pages_are_not_a_file(scene: Scene) -> None:
    scene.target.mappings.append(Region(0x7000_0000, 0x7020_0000, "rw", "/anon_hugepage (deleted)"))
    assert bus_error(scene, 2, 0x7000_0000).kind == "no-memory-behind"


def test_bus_errors_of_other_kinds(scene: Scene) -> None:
    assert bus_error(scene, 1, HEAP + 1).kind == "misaligned"
    fault = bus_error(Scene(), 4, HEAP)
    assert (fault.kind, explain(fault.text)) == ("hardware", f"read 8 bytes at {HEAP:#x}: memory is faulty (hardware)")


def test_abort(scene: Scene) -> None:
    fault = scene.read(SignalInfo(SIGABRT, SI_TKILL, None, 100, 1000)).fault
    assert (fault.kind, explain(fault.text), fault.sender) == ("abort", "the program called abort()", None)


@pytest.mark.parametrize("number", [SIGSEGV, SIGABRT, SIGBUS, 3])
def test_signals_that_were_sent(scene: Scene, number: int) -> None:
    """The instruction did not cause the signal."""
    pc = scene.code("mov (%rax),%rdx")
    fault = scene.read(SignalInfo(number, 0, None, 4242, 1000), rip=pc).fault
    assert (fault.kind, fault.sender, fault.instruction, fault.address) == ("sent", (4242, 1000), None, None)
    assert f"{fault.signal} was sent by process 4242: the code that ran is not at fault" == explain(fault.text)


def test_signal_that_a_thread_sent_to_its_own_process(scene: Scene) -> None:
    seen = scene.read(SignalInfo(SIGSEGV, 0, None, scene.target.pid, 1000))
    assert explain(seen.fault.text) == "the program sent itself SIGSEGV: this thread is in the call that sent it"


def test_signal_without_a_recorded_sender(scene: Scene) -> None:
    fault = scene.read(SignalInfo(SIGSEGV, SI_TKILL, None)).fault
    assert (fault.kind, explain(fault.text), fault.sender) == (
        "sent", "SIGSEGV was sent; by which process is not recorded", None)


def test_signals_without_a_name(scene: Scene) -> None:
    fault = scene.read(SignalInfo(24, 1, 0)).fault
    assert (fault.signal, fault.code, fault.kind) == ("SIGXCPU", None, "limit")
    assert scene.read(SignalInfo(40, 1, 0)).fault.signal == "signal 40"


# -- hostile targets -----------------------------------------------------------------------------------------------

TEXTS = ("mov (%rax),%rdx", "mov %edx,0x18(%rbx,%rcx,8)", "call *%rax", "call *0x8(%rdi)", "idivl (%rbx)", "div %ah",
         "rep movsb %ds:(%rsi),%es:(%rdi)", "movaps %xmm0,(%rdi)", "push %rbx", "ret", "(bad)", "", "mov %fs:0x28,%rax",
         "ud2", "vgatherdps %ymm1,(%rax,%ymm2,4),%ymm0", "lock cmpxchg %rcx,(%rdx)", "leave", "pop %rdi", "jmp *(%rax)",
         "lea 0x8(%rdi),%rax", "xchg %rax,(%rdi)", "data16 cs nopw 0x0(%rax,%rax,1)", ".byte 0x62",
         "mov (%riz,%riz,8),%eax")


@pytest.mark.parametrize("seed", range(30))
def test_random_registers_and_memory_are_explained(seed: int) -> None:
    chooser = random.Random(seed)
    scene = Scene()
    scene.target.memory = NoiseMemory(seed)
    texts = [chooser.choice(TEXTS) for _ in range(30)]
    for depth in range(1, 6):
        scene.called_by(depth, OUTERMOST, *texts[:depth], "call *%rdi")

    def value() -> int:
        return chooser.choice((0, 8, HEAP, FUNCTION, scene.stack, chooser.getrandbits(47), chooser.getrandbits(64)))

    scene.code(*texts)
    start = time.process_time()
    for index in range(30):
        for number, code in ((SIGSEGV, MAPERR), (SIGSEGV, SI_KERNEL), (SIGBUS, 2), (SIGFPE, 1), (SIGILL, 2)):
            registers = {name: value() for name in FRAME}
            if chooser.randrange(4):
                registers["rip"] = FUNCTION + STEP * index
            fault = scene.read(SignalInfo(number, code, value()), None, **registers).fault
            assert explain(fault.text)
            assert fault.kind
    assert time.process_time() - start < 20


def known(registers: Mapping[str, int], names: Sequence[str]) -> dict[str, int]:
    return {name: registers[name] for name in names}


def test_fault_has_the_registers(scene: Scene) -> None:
    fault = scene.segv("mov (%rax),%rdx", address=0, rcx=5)
    assert known(fault.registers, ("rax", "rcx", "rip")) == {"rax": 0, "rcx": 5, "rip": FUNCTION}


def test_large_block_that_was_freed(scene: Scene) -> None:
    """Malloc places it 16 bytes behind the start of a mapping of its own, beside other mappings."""
    block = DRIVER_TEXT - 0x100000 + 0x10
    fault = scene.segv("mov 0x8(%rdi),%rax", address=block + 8, rdi=block)
    assert (fault.kind, fault.evidence) == ("unmapped", INFERRED)
    assert "probably a large block of malloc that was freed" in explain(fault.text)


@pytest.mark.parametrize("pointer", [0x1234_5678_9010, DRIVER_TEXT - 0x100000 + 0x18])
def test_pointer_that_is_no_block_of_malloc(scene: Scene, pointer: int) -> None:
    """It is far from all mappings, or elsewhere in its page."""
    fault = scene.segv("mov 0x8(%rdi),%rax", address=pointer + 8, rdi=pointer)
    assert "freed" not in explain(fault.text)


@pytest.mark.parametrize("link", [HEAP + 0x200, 0])
def test_pointer_from_memory_that_was_freed(scene: Scene, link: int) -> None:
    """Malloc combines its links with their own address; the last one is null."""
    block = HEAP + 0x100
    word = link ^ block >> 12
    scene.target.ram.u64(block, word)
    fault = scene.segv("mov (%rdi),%rax", "mov 0x8(%rax),%rdx", address=word + 8, rdi=block, rax=word)
    assert fault.evidence == DERIVED
    assert explain(fault.text).endswith(f"; the pointer to it is from {block:#x}, memory that was freed")


def test_pointer_from_memory_that_is_in_use(scene: Scene) -> None:
    block = HEAP + 0x100
    scene.target.ram.u64(block, 0x5_0000_0000)
    fault = scene.segv("mov (%rdi),%rax", "mov 0x8(%rax),%rdx", address=0x5_0000_0008, rdi=block, rax=0x5_0000_0000)
    assert "freed" not in explain(fault.text)


# -- pointers of 32 bits, large frames, code that is gone, limits ----------------------------------------------------

def block_at(scene: Scene, address: int, size: int = 0x40) -> None:
    """A block of malloc that is in use."""
    scene.target.ram.u64(address - 8, size | 1)
    scene.target.ram.u64(address - 8 + size, 0x21)


@pytest.mark.parametrize("offset", [0x100, 0x1F00])
def test_lower_half_of_the_address_of_a_block(scene: Scene, offset: int) -> None:
    whole = 0x55_9000_0000 + offset
    scene.target.mappings.append(Region(whole & -0x1000, (whole & -0x1000) + 0x1000, "rw", None))
    scene.target.ram.ensure(whole & -0x1000, 0x1000)
    block_at(scene, whole)
    extended = 0xFFFFFFFF00000000 | whole & 0xFFFFFFFF
    fault = scene.segv("mov 0x8(%rdi),%eax", address=extended + 8, rdi=extended)
    assert (fault.kind, fault.evidence) == ("truncated-pointer", INFERRED)
    assert f"the lower half of the pointer {whole:#x} (a block of malloc)" in explain(fault.text)


def test_number_that_is_half_of_an_address_where_no_block_begins(scene: Scene) -> None:
    whole = 0x55_1000_0100
    scene.target.mappings.append(Region(whole & -0x1000, (whole & -0x1000) + 0x1000, "rw", None))
    scene.target.ram.ensure(whole & -0x1000, 0x1000)
    fault = scene.segv("mov (%rdi),%eax", address=0x1000_0100, rdi=0x1000_0100)
    assert fault.kind == "unmapped"
    block_at(scene, whole)
    for start in (0x56_1000_0000, 0x57_1000_0000):  # two blocks have this half
        scene.target.mappings.append(Region(start, start + 0x1000, "rw", None))
        scene.target.ram.ensure(start, 0x1000)
        block_at(scene, start + 0x100)
    assert scene.segv("mov (%rdi),%eax", address=0x1000_0100, rdi=0x1000_0100).kind == "unmapped"


def with_stack_of_its_own(scene: Scene) -> int:
    """Put the thread's descriptor on its stack, as in threads of pthread_create; returns the start of the stack."""
    scene.thread.registers["fs_base"] = scene.registers["fs_base"] = scene.stack + STACK_SIZE - 0x100
    return scene.stack


def test_frame_that_is_larger_than_the_stack(scene: Scene) -> None:
    stack = with_stack_of_its_own(scene)
    below = stack - 0x300_0000
    texts = ("sub $0x3000800,%rsp", "mov %eax,0x10(%rsp)")
    fault = scene.segv(*texts, address=below + 0x10, rsp=below)
    assert (fault.kind, fault.evidence) == ("stack-overflow", DERIVED)
    assert "need 49,152 KiB more than the" in explain(fault.text)


@pytest.mark.parametrize("texts", [("sub $0x100,%rsp", "mov %eax,0x10(%rsp)"), ("nop", "mov %eax,0x10(%rsp)")])
def test_stack_pointer_that_is_wild_is_no_large_frame(scene: Scene, texts: tuple[str, ...]) -> None:
    below = with_stack_of_its_own(scene) - 0x300_0000
    assert scene.segv(*texts, address=below + 0x10, rsp=below).kind == "unmapped"


def test_null_that_a_function_returned(scene: Scene) -> None:
    scene.target.name(LIBC_TEXT + 0x500, "malloc")
    fault = scene.segv(f"call {LIBC_TEXT + 0x500:#x} <malloc>", "mov %edx,0x8(%rax)", address=8)
    assert explain(fault.text).endswith("which was returned by malloc(): it could not allocate memory")


def test_refused_call_of_an_address_that_is_not_canonical(scene: Scene) -> None:
    text = int.from_bytes(b"HTTP/1.1", "little")
    scene.target.ram.u64(HEAP + 0x10, text)
    pc = scene.code("call *0x10(%rdi)")
    seen = scene.read(SignalInfo(SIGSEGV, SI_KERNEL, 0), rip=pc, rdi=HEAP)
    assert (seen.fault.kind, seen.fault.access, seen.code_at) == ("execute-data", "execute", pc)
    assert explain(seen.fault.text) == (f"called a function at {text:#x}: not a valid address (not canonical); "
                                        "as text it reads 'HTTP/1.1'")


def test_refused_return_to_an_address_that_is_not_canonical(scene: Scene) -> None:
    scene.target.ram.u64(scene.registers["rsp"], 0x4141_4141_4141_4141)
    fault = scene.segv("ret")
    assert explain(fault.text).startswith("returned to 0x4141414141414141: not a valid address")


def test_return_to_code_of_a_thread_that_was_unloaded(scene: Scene) -> None:
    gone = 0x7D70_0000_1120
    scene.target.ram.u64(scene.registers["rsp"] - 8, gone)
    fault = scene.read(SignalInfo(SIGSEGV, MAPERR, gone), rip=gone).fault
    assert explain(fault.text) == f"returned to {gone:#x}: not mapped"
    scene.target.ram.u64(scene.thread.pthread + 0x640, gone - 0x40)
    fault = scene.read(SignalInfo(SIGSEGV, MAPERR, gone), rip=gone).fault
    assert fault.evidence == INFERRED
    assert explain(fault.text).startswith(f"returned to {gone:#x}: not mapped; code that was there is not mapped any")


def test_limits_of_the_process(scene: Scene) -> None:
    assert scene.read(SignalInfo(24, SI_KERNEL, None)).fault.kind == "limit"
    own = SignalInfo(25, 0, None, scene.target.pid, 5)
    assert scene.read(own).fault.kind == "sent", "a program may send itself any signal"
    fault = scene.read(own, rax=-27 % (1 << 64)).fault
    assert (fault.kind, fault.sender) == ("limit", None)
    assert "RLIMIT_FSIZE" in explain(fault.text)


def test_index_that_leads_out_of_an_array(scene: Scene) -> None:
    fault = scene.segv("movss %xmm0,(%rax,%rdx,4)", address=HEAP - 0x40000, rax=HEAP, rdx=-0x10000 % (1 << 64))
    assert "index %rdx = -65536 of the array at %rax (heap) leads to where nothing is mapped" in explain(fault.text)
    assert described(next(each for each in fault.operands if each.text == "%rdx")) is None


def test_null_of_a_local_variable_that_a_function_returned(scene: Scene) -> None:
    scene.target.name(LIBC_TEXT + 0x500, "dlsym")
    frame = scene.stack + 0x180
    before = ("push %rbp", "mov %rsp,%rbp", f"call {LIBC_TEXT + 0x500:#x} <dlsym>", "mov %rax,-0x8(%rbp)")
    fault = scene.segv(*before, "nop", "mov -0x8(%rbp),%rax", "mov (%rax),%edx", address=0, rbp=frame)
    assert explain(fault.text).endswith("a null pointer (%rax), which was returned by dlsym()")


@pytest.mark.parametrize("other", ["mov %rcx,-0x8(%rbp)", "movq $0x0,-0x8(%rbp)", "lea -0x8(%rbp),%rdi"])
def test_null_of_a_local_variable_that_other_code_may_set(scene: Scene, other: str) -> None:
    """Also code after the instruction, which may have run before it."""
    scene.target.name(LIBC_TEXT + 0x500, "first")
    frame = scene.stack + 0x180
    before = ("push %rbp", "mov %rsp,%rbp", f"call {LIBC_TEXT + 0x500:#x} <first>", "mov %rax,-0x8(%rbp)")
    at = scene.code(*before, "nop", "mov -0x8(%rbp),%rax", "mov (%rax),%edx")
    scene.code(other, "ret", at=at + STEP)
    fault = scene.read(SignalInfo(SIGSEGV, MAPERR, 0), rip=at, rbp=frame).fault
    assert explain(fault.text).endswith("a null pointer (%rax)")


@pytest.mark.parametrize("following", [0, HEAP + 0x240])
def test_pointer_that_is_a_link_of_free_blocks(scene: Scene, following: int) -> None:
    """A list or a table of functions in a block that was freed: its first word is such a link."""
    block_at(scene, HEAP + 16, 0x290)
    link = following ^ HEAP + 0x140 >> 12
    fault = scene.segv("mov 0x18(%rbx),%rax", address=link + 0x18, rbx=link)
    assert fault.evidence == INFERRED
    assert explain(fault.text).endswith("it is from memory that was freed")


@pytest.mark.parametrize("value", [HEAP + 0x4000, (HEAP >> 12) + 0x100, (HEAP + 0x248) ^ HEAP >> 12])
def test_bad_pointer_that_is_no_link_of_free_blocks(scene: Scene, value: int) -> None:
    """Elsewhere; not the number of a page of the heap; not the link to a block, which is aligned."""
    block_at(scene, HEAP + 16, 0x290)
    assert "freed" not in explain(scene.segv("mov 0x18(%rbx),%rax", address=value + 0x18, rbx=value).text)
