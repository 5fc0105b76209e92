"""Atomic instructions that acquire and release locks."""

from __future__ import annotations

import pytest

from tests.support.flow_program import ARGUMENT, AtomicProgram, BoolProgram, ByteProgram, RwLockProgram


@pytest.mark.parametrize(("stored", "compared", "is_held"), [
    ("mov $0x1,%ecx", "xor %eax,%eax", True), ("mov $0x2,%ecx", "xor %eax,%eax", True),
    ("mov $0x3,%ecx", "xor %eax,%eax", False), ("mov %esi,%ecx", "xor %eax,%eax", False),
    ("mov $0x1,%ecx", "mov $0x2,%eax", False), ("mov $0x1,%ecx", "mov %esi,%eax", False)])
@pytest.mark.parametrize("failed", ["jne", "je"])
def test_only_an_exchange_for_a_free_lock_acquires_it(stored: str, compared: str, is_held: bool, failed: str) -> None:
    program = AtomicProgram(f=f"""
        push %rbx
        mov %rdi,%rbx
        {stored}
        {compared}
        lock cmpxchg %ecx,(%rdi)
        {failed} out
        here: call other
        out: ret
    """)
    assert program.held() == (ARGUMENT if is_held and failed == "jne" else set())


def test_exchange_that_finds_the_lock_free_acquires_it() -> None:
    program = AtomicProgram(f="""
        push %rbx
        mov %rdi,%rbx
        again: mov $0x2,%ecx
        xchg %ecx,(%rbx)
        test %ecx,%ecx
        je got
        call other
        jmp again
        got: nop
        here: call other
        ret
    """)
    assert program.held() == ARGUMENT


@pytest.mark.parametrize(("code", "is_held"), [
    ("xor %eax,%eax\nmov $0x3fffffff,%ecx", True),  # a writer finds it free
    ("mov (%rdi),%eax\nlea 0x1(%rax),%ecx", True),  # one more reader
    ("mov (%rdi),%eax\nmov %eax,%ecx\nadd $0x1,%ecx", True),
    ("mov (%rdi),%eax\nmov %eax,%ecx\nor $0x3fffffff,%ecx", True),
    ("mov $0xbfffffff,%r8d\nmov (%rdi),%eax\nmov %eax,%ecx\nor %r8d,%ecx", True),
    ("mov (%rdi),%eax\nlea 0x2(%rax),%ecx", False),
    ("mov (%rdi),%eax\nlea -0x1(%rax),%ecx", False),
    ("mov (%rdi),%eax\nmov %eax,%ecx\nor $0x40000000,%ecx", False),  # a reader announces that it waits
    ("mov $0x40000000,%r8d\nmov (%rdi),%eax\nmov %eax,%ecx\nor %r8d,%ecx", False),
    ("mov (%rdi),%eax\nlea 0x1(%rax),%ecx\nmov (%rdi),%eax", False),  # of a value that was read before
    ("mov (%rdi),%eax\nlea 0x1(%rax),%ecx\nadd $0x1,%ecx", False),
    ("mov $0x1,%eax\nmov $0x3fffffff,%ecx", False),
])
def test_comparison_acquires_a_read_write_lock(code: str, is_held: bool) -> None:
    program = RwLockProgram(f=f"""
        push %rbx
        mov %rdi,%rbx
        {code}
        lock cmpxchg %ecx,(%rdi)
        jne out
        here: call other
        out: ret
    """)
    assert program.held() == (ARGUMENT if is_held else set())


@pytest.mark.parametrize(("code", "is_held"), [
    ("mov $0x1,%ecx", True), ("mov $0x1,%cl", True), ("mov $0x1,%cl\ntest %esi,%esi\nje out", True),
    ("mov $0x3,%cl", False), ("mov $0x1,%ch", False), ("mov $0x1,%cl\nmov %esi,%ecx", False), ("mov %sil,%cl", False),
    ("test %esi,%esi\nje on\nmov $0x1,%cl\non: nop", False),
])
def test_value_in_a_part_of_a_register_acquires_a_lock_of_that_size(code: str, is_held: bool) -> None:
    program = ByteProgram(f=f"""
        push %rbx
        mov %rdi,%rbx
        {code}
        xor %eax,%eax
        lock cmpxchg %cl,(%rdi)
        jne out
        here: call other
        out: ret
    """)
    assert program.held() == (ARGUMENT if is_held else set())


@pytest.mark.parametrize(("made", "test", "is_held"), [
    ("mov $0x1,%eax", "test %al,%al", True), ("mov $0x1,%al", "test $0x1,%al", True),
    ("mov $0x1,%eax", "testb $0x1,%al", True), ("mov $0x1,%eax", "test $0x2,%al", False),
    ("mov $0x1,%eax", "test $0x1,%cl", False), ("mov $0x1,%eax", "test $0x1,%ah", False),
    ("mov $0x1,%ebp\nmov %ebp,%eax", "test %al,%al", True), ("mov %ebp,%eax", "test %al,%al", False),
    ("xor %eax,%eax", "test %al,%al", False)])
def test_exchange_of_a_byte_that_is_zero_or_one(made: str, test: str, is_held: bool) -> None:
    code = f"push %rbx\nmov %rdi,%rbx\n{made}\nxchg %al,(%rbx)\n{test}\njne out\nhere: call other\nout: ret"
    assert BoolProgram(f=code).held() == (ARGUMENT if is_held else set())
    if test.startswith("test $"):
        assert ByteProgram(f=code).held() == set(), "another bit may show that it is locked"


@pytest.mark.parametrize(("second", "is_held"), [("0xbfffffff", True), ("0x80000000", False)])
def test_bits_that_are_set_on_all_paths_make_a_writer(second: str, is_held: bool) -> None:
    """The slow path of the library keeps what other writers wait for in the same constant."""
    program = RwLockProgram(f=f"""
        push %rbx
        mov %rdi,%rbx
        mov $0x3fffffff,%r12d
        again: mov (%rdi),%eax
        mov %eax,%ecx
        or %r12d,%ecx
        lock cmpxchg %ecx,(%rdi)
        je got
        mov ${second},%r12d
        jmp again
        got: nop
        here: call other
        ret
    """)
    assert program.held() == (ARGUMENT if is_held else set())


@pytest.mark.parametrize(("between", "is_held"), [
    ("mov $0xffffffff,%esi\nlock xadd %esi,(%rbx)", False),
    ("mov $0xc0000001,%esi\nlock xadd %esi,(%rbx)", False),
    ("lock xadd %esi,(%rbx)", False),  # an unknown number
    ("mov $0x1,%esi\nlock xadd %esi,(%rbx)", True),
    ("mov $0xc0000002,%esi\nlock xadd %esi,(%rbx)", True),  # the writer becomes a reader
    ("lock decl (%rbx)", False), ("lock incl (%rbx)", True), ("lock subl $0x1,(%rbx)", False),
    ("lock subl $0x3fffffff,(%rbx)", False), ("lock addl $0x10,(%rbx)", True),
    ("lock andl $0xc0000000,(%rbx)", False),
    ("lock decl (%r12)", False),  # it may be the same lock
    ("lock decl 0x8(%rbx)", True), ("lock decq (%r12)", True), ("call release_it", False), ("call count", True),
])
def test_release_of_a_read_write_lock(between: str, is_held: bool) -> None:
    program = RwLockProgram(f=f"""
        push %rbx
        mov %rdi,%rbx
        xor %eax,%eax
        mov $0x3fffffff,%ecx
        lock cmpxchg %ecx,(%rdi)
        jne out
        {between}
        here: call other
        out: ret
    """, release_it="lock decl (%rdi)\nret", count="lock incl (%rdi)\nret")
    assert program.held() == (ARGUMENT if is_held else set())
