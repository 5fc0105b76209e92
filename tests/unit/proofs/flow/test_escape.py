"""Addresses of locks that escape: copies, the frame, and memory outside of it."""

from __future__ import annotations

import pytest

from tests.support.flow_program import ARGUMENT, AtomicProgram

RELEASING = "xor %eax,%eax\nxchg %eax,({})"

#: Acquires the lock of the first argument by an instruction, and by a call if that fails.
TAKING = """
    push %rbx
    mov %rdi,%rbx
    xor %eax,%eax
    mov $0x1,%ecx
    lock cmpxchg %ecx,(%rdi)
    jne slow
    on: nop
    {between}
    here: call other
    pop %rbx
    ret
    slow: mov %rbx,%rdi
    call acquire
    jmp on
"""


@pytest.mark.parametrize(("between", "is_held"), [
    ("nop", True),
    (RELEASING.format("%rbx"), False),
    (RELEASING.format("%r12"), False),  # it may be the same lock
    (RELEASING.format("%r12,%rcx,4"), False),
    (RELEASING.format("%rbx").replace("(", "0x8("), True),  # another member of the same structure
    ("mov $0x2,%eax\nxchg %eax,(%r12)", True),  # another lock is perhaps acquired
    ("xor %eax,%eax\nxchg %rax,(%r12)", True),  # no lock: it has another size
    ("mov %rbx,(%r12)\ncall *%rax", False),  # somebody else has the lock's address
    ("mov %rbx,%rdi\ncall *%rax", False),
    ("mov %rbx,%rdi\ncall forward", False),
    ("mov %rbx,%rdi\ncall observe", True),
    ("mov %rbx,%rdi\ncall keep", False),  # stores the address where %rsi points to
    ("mov %rbx,%rdi\ncall keep_later", False),
    ("sub $0x18,%rsp\nmov %rbx,%rdi\nmov %rsp,%rsi\ncall keep\nadd $0x18,%rsp", True),  # in the function's own frame
    ("sub $0x18,%rsp\nmov %rbx,0x8(%rsp)\nmov %rsp,%rdi\ncall keep\nadd $0x18,%rsp", False),
    ("movq %rbx,%xmm0", False),
    ("sub $0x18,%rsp\nmov %rbx,0x8(%rsp)\nmov %rsp,%rdi\ncall *%rax\nadd $0x18,%rsp", False),
    ("sub $0x18,%rsp\nmov %rbx,0x8(%rsp)\nlea 0x10(%rsp),%rdi\ncall *%rax\nadd $0x18,%rsp", True),
    ("sub $0x18,%rsp\nmov %rbx,(%rsp)\nmovups (%rsp),%xmm0\nadd $0x18,%rsp", False),
    ("mov %rbx,%rdi\ncall drop", False),
    ("mov %rbx,%rdi\ncall drop_later", False),
    ("call balanced", True),
])
def test_lock_that_an_instruction_acquires(between: str, is_held: bool) -> None:
    program = AtomicProgram(
        f=TAKING.format(between=between), forward="xor %eax,%eax\njmp *%rdx", observe="mov 0x8(%rdi),%eax\nret",
        keep="mov %rdi,(%rsi)\nret", keep_later="push %rbp\ncall keep\npop %rbp\nret",
        drop=RELEASING.format("%rdi") + "\nret", drop_later="push %rbp\ncall drop\npop %rbp\nret",
        balanced=TAKING.format(between=RELEASING.format("%rbx")).replace("slow", "late").replace("on", "further"))
    assert program.held() == (ARGUMENT if is_held else set())


@pytest.mark.parametrize(("between", "is_held"), [
    # a known function gets a pointer to the guard before an unknown one does
    ("mov %rbx,(%rsp)\nmov %rsp,%rdi\ncall peek\nmov %rsp,%rdi\ncall *%r13", False),
    ("mov %rbx,(%rsp)\nlea 0x8(%rsp),%rdi\ncall *%r13", True),
    # a known function puts the guard into the frame
    ("mov %rbx,%rsi\nmov %rsp,%rdi\ncall put\nmov %rsp,%rdi\ncall *%r13", False),
    ("mov %rbx,%rsi\nmov %rsp,%rdi\ncall ignore\nmov %rsp,%rdi\ncall *%r13", True),
    # one of two guards, in a register and in the frame
    ("mov %r14,%rdi\ntest %r12,%r12\nje same\nmov %rbx,%rdi\nsame: call *%r13", False),
    ("mov %r14,(%rsp)\ntest %r12,%r12\nje same\nmov %rbx,(%rsp)\nsame: mov %rsp,%rdi\ncall *%r13", False),
    ("mov %r14,(%rsp)\ntest %r12,%r12\nje same\nmov %rbx,(%rsp)\nsame: mov (%rsp),%rdi\ncall *%r13", False),
    # a known function returns it
    ("mov %rbx,%rdi\ncall second\nmov %rdx,%rdi\ncall *%r13", False),
    ("mov %rbx,%rdi\ncall ignore\nmov %rax,%rdi\ncall *%r13", True),
    # a pointer to a pointer to the guard, which is below it
    ("mov %rbx,(%rsp)\nmov %rsp,%rax\nmov %rax,0x10(%rsp)\nlea 0x10(%rsp),%rdi\ncall *%r13", False),
    # a pointer to the guard is stored elsewhere
    ("mov %rbx,(%rsp)\nmov %rsp,(%r12)\nxor %edi,%edi\ncall *%r13", False),
    ("mov %rbx,(%rsp)\nlea 0x8(%rsp),%rax\nmov %rax,(%r12)\nxor %edi,%edi\ncall *%r13", True),
    # one of several guards in an array
    ("mov %rbx,(%rsp)\nmov (%rsp,%r12,8),%rdi\ncall *%r13", False),
    ("mov %rbx,(%rsp)\nlea (%rsp,%r12,8),%rdi\ncall *%r13", False),
    # the copied words contain the guard
    ("mov %rbx,0x10(%rsp)\nmov %rsp,%rsi\nmov %r12,%rdi\nmov $0x8,%ecx\nrep movsq %ds:(%rsi),%es:(%rdi)", False),
])
def test_copies_of_the_address_of_a_lock_that_other_code_gets(between: str, is_held: bool) -> None:
    program = AtomicProgram(f=f"""
        push %rbx
        sub $0x40,%rsp
        mov %rdi,%rbx
        xor %eax,%eax
        mov $0x1,%ecx
        lock cmpxchg %ecx,(%rdi)
        jne out
        xor %edi,%edi
        {between}
        here: call other
        out: ret
    """, peek="mov (%rdi),%rax\nmov (%rax),%rax\nret", put="mov %rsi,(%rdi)\nret", ignore="ret",
        second="mov %rdi,%rdx\nxor %eax,%eax\nret")
    assert (program.held() >= ARGUMENT) == is_held
