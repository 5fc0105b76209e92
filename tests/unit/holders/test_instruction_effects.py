"""One instruction: values of registers and memory, and the locks that it acquires and releases."""

from __future__ import annotations

import pytest

from gdbext.holders.lock_state import Value, entry
from tests.support.flow_program import (
    ARGUMENT,
    HOLDING,
    KEEP,
    LINKS,
    LOCK,
    RELEASE,
    STEP,
    TEXT,
    AtomicProgram,
    BoolProgram,
    ByteProgram,
    Program,
    RwLockProgram,
)


def test_state_has_the_places_that_keep_the_lock() -> None:
    state = Program(f=HOLDING).state()
    assert state is not None
    assert state.values["rbx"] == entry("rdi")
    assert "rdi" not in state.values, "a call may change it"
    assert state.values["rsp"] == entry("rsp").plus(-8)
    assert state.values[entry("rsp").plus(-8)] == entry("rbx")


@pytest.mark.parametrize(("argument", "value"), [
    ("lea 0x28(%rdi),%rdi", entry("rdi").plus(0x28)),
    ("add $0x28,%rdi", entry("rdi").plus(0x28)),
    ("sub $0x8,%rdi", entry("rdi").plus(-8)),
    (f"mov ${LOCK:#x},%edi", Value(("constant",), LOCK)),
    (f"lea {LOCK - TEXT - 8:#x}(%rip),%rdi", Value(("constant",), LOCK)),
    (f"mov {LINKS - TEXT - 8:#x}(%rip),%rdi", Value(("constant",), LOCK)),
    ("mov %rsi,%rdi", entry("rsi")),
])
def test_argument_is_recomputed(argument: str, value: Value) -> None:
    program = Program(f=f"{argument}\ncall acquire\nhere: call other\nret")
    program.memory.u64(LINKS, LOCK)
    assert program.held() == {value}


def test_value_that_is_loaded_is_the_same_only_until_it_is_loaded_again() -> None:
    program = Program(f=f"""
        mov {LOCK - TEXT - 8:#x}(%rip),%rbx
        mov %rbx,%rdi
        call acquire
        here: call other
        ret
    """)
    (lock,) = program.held()
    state = program.state()
    assert state is not None
    assert state.values["rbx"] == lock
    looped = Program(f=f"""
        again: mov {LOCK - TEXT - 8:#x}(%rip),%rbx
        here: mov %rbx,%rdi
        call acquire
        jmp again
    """)
    assert looped.held() == set(), "the register has another value in each round"


GUARDED = """
    sub $0x18,%rsp
    lea 0x8(%rsp),%rdi
    call take
    here: call other
    {between}
    there: call other
    add $0x18,%rsp
    ret
"""
TAKE = "mov %rsi,(%rdi)\nmov %rsi,%rdi\njmp acquire"


@pytest.mark.parametrize(("between", "is_held"), [
    ("nop", True), ("lea 0x8(%rsp),%rdi\ncall release_guard", False),
    ("lea 0x8(%rsp),%rdi\ncall other", True), ("lea 0x8(%rsp),%rdi\ncall *%rax", True),
])
def test_guard_on_the_stack(between: str, is_held: bool) -> None:
    program = Program(f=GUARDED.format(between=between), take=TAKE,
                      release_guard="mov (%rdi),%rdi\njmp release")
    state = program.state()
    assert state is not None
    assert entry("rsi") in state.held
    assert bool(program.held(label="there")) == is_held


def test_guard_whose_address_is_passed_on_may_have_changed() -> None:
    program = Program(f=GUARDED.format(between="lea 0x8(%rsp),%rdi\ncall other"), take=TAKE)
    state = program.state(label="there")
    assert state is not None
    assert entry("rsp").plus(-0x10) not in state.values


@pytest.mark.parametrize(("called", "is_known"), [("acquire", True), ("wait", False), ("other", False)])
def test_memory_is_unknown_after_a_wait_in_which_other_threads_change_it(called: str, is_known: bool) -> None:
    state = Program(f=f"{KEEP}\ncall acquire\nmovq $0x0,0x8(%rbx)\ncall {called}\nhere: call other\nret").state()
    assert state is not None
    assert entry("rdi") in state.held, "it is held again"
    assert (entry("rdi").plus(8) in state.values) == is_known


def test_slot_that_is_written_over_is_forgotten() -> None:
    state = Program(f="""
        sub $0x18,%rsp
        mov %rdi,0x8(%rsp)
        call acquire
        movl $0x0,0xc(%rsp)
        here: call other
        ret
    """).state()
    assert state is not None
    assert entry("rdi") in state.held
    assert entry("rdi") not in state.values.values()


@pytest.mark.parametrize(("between", "is_held"), [
    ("sete %al\ntest %al,%al\nje skip", True),
    ("setne %al\ntest %al,%al\njne skip", True),
    ("setne %al\ntest %al,%al\nje skip", False),
    ("xor $0x1,%eax\ntest %al,%al\nje skip", False),  # not followed
    ("cmp $0x5,%ebp\nje skip", False),  # another comparison
    ("call other\ntest %eax,%eax\njne skip", False),  # the result of another call
])
def test_stored_result_of_an_attempt(between: str, is_held: bool) -> None:
    program = Program(f=f"{KEEP}\ncall try\ntest %eax,%eax\n{between}\nhere: call other\nskip: pop %rbx\nret")
    assert program.held() == (ARGUMENT if is_held else set())


def test_attempt_is_void_after_a_release() -> None:
    program = Program(f=f"""
        {KEEP}
        call try
        mov %eax,%ebp
        mov %rbx,%rdi
        call release
        test %ebp,%ebp
        jne skip
        here: call other
        skip: pop %rbx
        ret
    """)
    assert program.held() == set()


def test_function_in_a_register_is_known_if_it_is_a_constant() -> None:
    program = Program(f=f"""
        {KEEP}
        mov {LINKS - TEXT - 3 * STEP:#x}(%rip),%rbp
        call acquire
        here: call other
        mov %rbx,%rdi
        call *%rbp
        there: call other
        ret
    """)
    program.memory.u64(LINKS, RELEASE)
    assert program.held() == ARGUMENT
    assert program.held(label="there") == set()


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
RELEASING = "xor %eax,%eax\nxchg %eax,({})"


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


def test_result_that_is_an_argument_is_followed() -> None:
    program = Program(f="push %rbx\ncall take\nmov %rax,%rbx\nhere: call other\nret",
                      take="push %rbp\nmov %rdi,%rbp\ncall acquire\nmov %rbp,%rax\npop %rbp\nret")
    state = program.state()
    assert state is not None
    assert set(state.held) == ARGUMENT
    assert state.values["rbx"] == entry("rdi")


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
