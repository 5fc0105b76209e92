from __future__ import annotations

import random
import re
from typing import cast

import pytest

from gdbext.arch import x86_64
from gdbext.holders import lock_flow
from gdbext.holders.lock_flow import Effect, LockFlow, State, Value, entry
from gdbext.inferior.address_space import AddressSpace
from gdbext.inferior.protocol import Module, Section, Target
from gdbext.threads.code import Code
from tests.support.fake_memory import FakeMemory

TEXT, STEP, FUNCTION = 0x40_1000, 8, 0x400
TABLE = 0x40_8000
LINKS = 0x40_9000
LOCK = 0x40_A000
MODULE = Module("/app/server", (Section(".text", TEXT, TEXT + 0x4000), Section(".rodata", TABLE, TABLE + 0x400),
                                Section(".got", LINKS, LINKS + 0x100)), is_main=True)
ACQUIRE, RELEASE, OTHER = TEXT + 0x3000, TEXT + 0x3100, TEXT + 0x3200
TRY, TEST = TEXT + 0x3300, TEXT + 0x3400
NAMES = {"acquire": ACQUIRE, "release": RELEASE, "other": OTHER, "try": TRY, "test": TEST}
#: `try` returns zero if it has acquired the lock, and `test` returns zero if it has not.
EFFECTS = {ACQUIRE: Effect(acquires={entry("rdi"): frozenset()}), RELEASE: Effect(releases=(entry("rdi"),)),
           TRY: Effect(attempt=(entry("rdi"), True)), TEST: Effect(attempt=(entry("rdi"), False))}


class Program:
    """Functions in AT&T syntax, an instruction a line; ``L: ...`` is a label, ``call f`` and ``jmp f`` take names.

    What has a name with ``part`` is not a function, by its frame description, but a part of one.
    """

    def __init__(self, **functions: str) -> None:
        self.memory = FakeMemory({TEXT: b"\x90" * 0x4000, TABLE: bytes(0x400), LINKS: bytes(0x100)})
        self.starts = {name: TEXT + FUNCTION * i for i, name in enumerate(functions)}
        self.labels: dict[tuple[str, str], int] = {}
        self.lines: dict[int, str] = {}
        self.ends: dict[int, int] = {}
        for name, text in functions.items():
            at = self.starts[name]
            for line in filter(None, map(str.strip, text.splitlines())):
                label, _, rest = line.rpartition(": ")
                if label:
                    self.labels[name, label] = at
                self.lines[at] = rest
                at += STEP
            self.ends[self.starts[name]] = at
        for name in functions:
            self._link(name)

    def _link(self, name: str) -> None:
        start = self.starts[name]
        for at in range(start, self.ends[start], STEP):
            match = re.match(r"(call|j\w+) (\w+)$", self.lines[at])
            if match is None:
                continue
            everywhere = {label: at for (_, label), at in self.labels.items()}
            target = (self.labels.get((name, match[2])) or self.starts.get(match[2]) or NAMES.get(match[2])
                      or everywhere[match[2]])
            self.lines[at] = f"{match[1]} {target:#x}"
            opcode = b"\xe8" if match[1] == "call" else b"\xe9"
            self.memory.write(at, opcode + (target - at - 5 & 0xFFFFFFFF).to_bytes(4, "little"))

    # what a Target and a Code offer
    cpu = x86_64

    @property
    def space(self) -> AddressSpace:
        return AddressSpace(())

    def module(self, address: int) -> Module | None:
        return MODULE if MODULE.contains(address) else None

    def function_range(self, pc: int) -> tuple[int, int] | None:
        for start, end in self.ends.items():
            if start <= pc < end:
                return start, end
        return (pc & ~0xFF, (pc & ~0xFF) + 0x100) if TEXT + 0x3000 <= pc < TEXT + 0x4000 else None

    def starts_function(self, address: int) -> bool:
        return address not in {start for name, start in self.starts.items() if name.startswith("part")}

    def disassemble(self, low: int, high: int) -> list[tuple[int, int, str]]:
        return [(at, STEP, self.lines[at]) for at in range(low, high, STEP) if at in self.lines]

    def state(self, function: str = "f", label: str = "here", entered: str | None = None) -> State | None:
        flow = LockFlow(cast(Target, self), cast(Code, self), EFFECTS)
        return flow.held_at(self.labels[function, label], self.starts[entered] if entered is not None else None)

    def held(self, function: str = "f", label: str = "here") -> set[Value]:
        state = self.state(function, label)
        return set(state.held) if state is not None else set()


ARGUMENT = {entry("rdi")}
KEEP = """
    push %rbx
    mov %rdi,%rbx
"""
HOLDING = f"""
    {KEEP}
    call acquire
    here: call other
    mov %rbx,%rdi
    call release
    pop %rbx
    after: ret
"""


def test_lock_is_held_from_acquisition_to_release() -> None:
    program = Program(f=HOLDING)
    assert program.held() == ARGUMENT
    assert program.held(label="after") == set()


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


@pytest.mark.parametrize(("between", "is_held"), [
    ("mov %rbx,%rdi\ncall release", False),
    ("mov %r12,%rdi\ncall release", False),  # it may be the same lock
    ("lea 0x38(%rbx),%rdi\ncall release", True),  # another member of the same structure
    ("call helper_that_releases", False),
    ("call helper_of_helper", False),
    ("call balanced_helper", True),
    ("call other", True),
    ("call *%rax", True),
])
def test_release_between(between: str, is_held: bool) -> None:
    program = Program(f=f"{KEEP}\ncall acquire\n{between}\nhere: call other\nret",
                      helper_that_releases="mov (%rdi),%rdi\ncall release\nret",
                      helper_of_helper="sub $0x8,%rsp\ncall helper_that_releases\nadd $0x8,%rsp\nret",
                      balanced_helper="push %rbp\nmov %rdi,%rbp\ncall acquire\nmov %rbp,%rdi\ncall release\npop %rbp\n"
                                      "ret")
    assert program.held() == (ARGUMENT if is_held else set())


def test_helper_that_is_too_large_to_analyse_may_release_any_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_flow, "_MAX_FUNCTION", 8 * STEP)
    large = "nop\n" * 10
    for end, expected in (("mov (%rdi),%rdi\ncall release\nret", set()), ("call other\nret", ARGUMENT)):
        program = Program(f=f"{KEEP}\ncall acquire\ncall large\nhere: call other\nret", large=large + end)
        assert program.held() == expected


def test_release_of_a_constant_leaves_a_condition() -> None:
    state = Program(f=f"{KEEP}\ncall acquire\nmov ${LOCK:#x},%edi\ncall release\nhere: call other\nret").state()
    assert state is not None
    assert state.held == {entry("rdi"): frozenset({LOCK})}


@pytest.mark.parametrize(("code", "is_held"), [
    ("test %esi,%esi\nje skip\ncall acquire\nskip: nop\nhere: call other\nret", False),
    ("test %esi,%esi\nje skip\ncall acquire\njmp on\nskip: mov %rbx,%rdi\ncall acquire\non: nop\nhere: call other\nret",
     True),
    ("again: mov %rbx,%rdi\ncall acquire\ncmp $0xb,%eax\nje again\nhere: call other\nret", True),
    ("again: mov %rbx,%rdi\ncall acquire\nmov %rbx,%rdi\ncall release\nhere: call other\njne again\nret", False),
    ("call acquire\ntest %esi,%esi\nje here\nmov %rbx,%rdi\ncall release\nhere: call other\nret", False),
    # what handles an exception is reached by no jump, and comes back behind the release
    ("call acquire\ntry: call other\nback: nop\nhere: call other\nret\nmov %rbx,%rdi\ncall release\njmp back", False),
], ids=["one way", "both ways", "retried", "released in a loop", "released on one way", "exception"])
def test_every_way_counts(code: str, is_held: bool) -> None:
    assert Program(f=f"{KEEP}\n{code}").held() == (ARGUMENT if is_held else set())


@pytest.mark.parametrize(("link", "is_held"), [(0, False), (TEXT, True)], ids=["never taken", "always taken"])
def test_way_that_a_constant_rules_out_does_not_count(link: int, is_held: bool) -> None:
    """libstdc++ before glibc 2.34 takes locks only if the program is linked with libpthread."""
    program = Program(f=f"""
        mov %rdi,%rbx
        mov {LINKS - TEXT - 2 * STEP:#x}(%rip),%rax
        test %rax,%rax
        je without
        call acquire
        without: nop
        here: call other
        ret
    """)
    program.memory.u64(LINKS, link)
    assert program.held() == (ARGUMENT if is_held else set())


@pytest.mark.parametrize("wrapper", [
    "call acquire\nret", "jmp acquire",
    "push %rbp\nmov %rdi,%rbp\ncall acquire\npop %rbp\nret",
], ids=["calls", "jumps", "keeps"])
def test_wrapper_acquires(wrapper: str) -> None:
    program = Program(f=f"{KEEP}\ncall wrapper\nhere: call other\nret", wrapper=wrapper)
    assert program.held() == ARGUMENT


def test_wrapper_that_acquires_on_one_way_does_not() -> None:
    program = Program(f=f"{KEEP}\ncall wrapper\nhere: call other\nret",
                      wrapper="test %esi,%esi\nje out\njmp acquire\nout: ret")
    assert program.held() == set()


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


def test_switch_leads_to_the_entries_of_its_table() -> None:
    program = Program(f=f"""
        mov %rdi,%rbx
        cmp $0x1,%esi
        ja out
        lea {TABLE - TEXT - 4 * STEP:#x}(%rip),%rdx
        movslq (%rdx,%rsi,4),%rax
        add %rdx,%rax
        jmp *%rax
        one: call acquire
        here: call other
        ret
        two: call other
        there: call other
        out: ret
    """)
    program.memory.u32(TABLE, program.labels["f", "one"] - TABLE, program.labels["f", "two"] - TABLE)
    assert program.held() == ARGUMENT
    assert program.held(label="there") == set()
    program.memory.u32(TABLE, program.labels["f", "one"] - TABLE, program.labels["f", "here"] - TABLE)
    assert program.held() == set(), "an entry of the table leads behind the acquisition"
    program.memory.u32(TABLE, program.labels["f", "one"] - TABLE, 0x10)
    assert program.state() is None, "an entry leads out of the function"


@pytest.mark.parametrize("code", ["nop\nhere: call other\nret", "mov (%rdi),%rdi\nhere: jmp *%rax"])
def test_function_that_calls_nothing_of_interest_is_not_analysed(code: str) -> None:
    assert Program(f=code).state() is None


def test_recursion_ends() -> None:
    program = Program(f=f"{KEEP}\ncall g\nmov %rbx,%rdi\ncall acquire\nhere: call other\nret",
                      g="call f\ncall release\nret")
    assert program.held() == ARGUMENT


@pytest.mark.parametrize("seed", range(40))
def test_random_code_ends(seed: int) -> None:
    chooser = random.Random(seed)
    count = 60
    choices = ("mov %rbx,%rdi", "mov %rdi,%rbx", "call acquire", "call release", "call other", "push %rbx", "pop %rbx",
               "lea 0x8(%rsp),%rdi", "mov %rdi,0x8(%rsp)", "mov 0x8(%rsp),%rbx", "add $0x8,%rbx", "test %rax,%rax",
               "je L{}", "jmp L{}", "(bad)", "mov (%rbx,%rax,8),%rdi", "cmpxchg %rax,(%rbx)", "ret", "leave")
    lines = [chooser.choice(choices).format(chooser.randrange(count)) for _ in range(count + 1)]
    text = "\n".join(f"L{i}: {line}" for i, line in enumerate(lines))
    program = Program(f=text)
    state = program.state(label=f"L{count}")
    assert state is None or len(state.held) <= count


@pytest.mark.parametrize(("call", "jump", "is_held"), [
    ("try", "jne", True),  # skips if the result is not zero, so that the lock is held
    ("try", "je", False),
    ("test", "je", True),
    ("test", "jne", False),
    ("try", "js", False),  # the way taken is not determined
])
@pytest.mark.parametrize("compare", ["test %eax,%eax", "cmp $0x0,%eax", "test %rax,%rax", "test %al,%al"])
def test_attempt_counts_on_the_path_of_success(call: str, jump: str, compare: str, is_held: bool) -> None:
    program = Program(f=f"""
        {KEEP}
        call {call}
        {compare}
        {jump} failed
        here: call other
        mov %rbx,%rdi
        call release
        pop %rbx
        ret
        failed: mov $0x1,%eax
        there: call other
        pop %rbx
        ret
    """)
    assert program.held() == (ARGUMENT if is_held else set())
    taken = {("try", "je"), ("test", "jne")}
    assert program.held(label="there") == (ARGUMENT if (call, jump) in taken else set())


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


def test_attempt_of_a_helper_counts() -> None:
    program = Program(f=f"{KEEP}\ncall helper\ntest %eax,%eax\njne skip\nhere: call other\nskip: pop %rbx\nret",
                      helper="lea 0x8(%rdi),%rdi\njmp try")
    assert program.held() == {entry("rdi").plus(8)}


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


@pytest.mark.parametrize(("before", "freed"), [
    ("call other", frozenset()),
    (f"mov ${LOCK:#x},%edi\ncall release", {LOCK}),
    ("mov %rbx,%rdi\ncall release", None),  # perhaps the lock of the caller
    ("call releasing_helper", None),
    ("mov %rbx,%rdi\ncall acquire\nmov %rbx,%rdi\ncall release", frozenset()),  # its own acquisition
    ("test %esi,%esi\nje skip\nmov %rbx,%rdi\ncall release\nskip: nop", None),
])
def test_freed_are_locks_that_a_caller_may_have_held(before: str, freed: object) -> None:
    program = Program(f=f"{KEEP}\n{before}\nhere: call other\nmov %rbx,%rdi\ncall acquire\nret",
                      releasing_helper="mov (%rdi),%rdi\ncall release\nret")
    state = program.state()
    assert state is not None
    assert state.freed == freed


def test_function_that_returns_a_constant_decides_a_branch() -> None:
    lines = ("{0}\ncall active\ntest %eax,%eax\nsetne %al\ntest %al,%al\nje skip\nmov %rbx,%rdi\ncall acquire\n"
             "skip: nop\n")
    program = Program(f=lines.format(KEEP) + "here: call other\nret", active="mov $0x1,%eax\nret")
    assert program.held() == ARGUMENT
    program = Program(f=lines.format(KEEP) + "here: call other\nret", active="mov %esi,%eax\nret")
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


def test_function_that_releases_through_a_register_only_is_examined() -> None:
    program = Program(f=f"{KEEP}\ncall acquire\ncall helper\nhere: call other\nret",
                      helper=f"mov {LINKS - TEXT - FUNCTION - STEP:#x}(%rip),%rbp\ncall *%rbp\nret")
    program.memory.u64(LINKS, RELEASE)
    at = program.starts["helper"]
    program.memory.write(at, b"\x48\x8b\x2d" + (LINKS - at - 7).to_bytes(4, "little"))
    assert program.held() == set()


COLD = "mov %rbx,%rdi\ncall acquire\nhere: call other\nmov %rbx,%rdi\ncall release"


def test_part_of_a_function_is_analysed_with_it() -> None:
    f = f"{KEEP}\n{{}}\ntest %esi,%esi\nje part\nback: pop %rbx\nret"
    for end, entered in (("back", None), ("release", "f")):
        part = f"{COLD}\njmp {end}"
        state = Program(f=f.format("nop"), part=part).state("part", entered=entered)
        assert state is not None
        assert set(state.held) == ARGUMENT
        assert state.freed == frozenset()
        state = Program(f=f.format("call release"), part=part).state("part", entered=entered)
        assert state is not None
        assert state.freed is None, "the function may have released a lock of its caller"
    program = Program(f=f.format("nop"), part=f"{COLD}\njmp release")
    assert program.state("part") is None, "what the function did before the jump is not known"


def test_function_that_has_jumped_elsewhere_is_not_the_one_of_the_code() -> None:
    program = Program(f="test %esi,%esi\nje g\njmp acquire", g=HOLDING)
    assert program.state("g", entered="f") is not None
    assert set(program.state("g", entered="f").held) == ARGUMENT  # type: ignore[union-attr]


@pytest.mark.parametrize(("inside", "is_held"), [("release", False), ("other", True)])
def test_jump_with_an_empty_frame_to_code_that_jumps_back(inside: str, is_held: bool) -> None:
    program = Program(f="""
        call acquire
        test %esi,%esi
        je outside
        back: nop
        here: call other
        ret
    """, outside=f"push %rbx\nmov %rbp,%rdi\ncall {inside}\npop %rbx\njmp back")
    assert program.held() == (ARGUMENT if is_held else set())


def taken(body: str, **functions: str) -> list[tuple[bool, bool]]:
    """(always, kept) of each lock that the function may have acquired."""
    state = Program(f=body, **functions).state()
    assert state is not None
    return sorted((each.always, each.kept) for each in state.taken.values())


@pytest.mark.parametrize(("body", "expected"), [
    (f"{KEEP}\ncall acquire\nhere: call other\nret", [(True, True)]),
    (f"{KEEP}\ntest %rsi,%rsi\nje here\ncall acquire\nhere: call other\nret", [(False, True)]),
    (f"{KEEP}\ncall acquire\nmov %rbx,%rdi\ncall release\nhere: call other\nret", [(True, False)]),
    (f"{KEEP}\ncall acquire\ntest %r12,%r12\nje here\nmov %rbx,%rdi\ncall release\nhere: call other\nret",
     [(True, False)]),
    (f"{KEEP}\ncall try\ntest %eax,%eax\njne here\nret\nhere: call other\nret", []),
    (f"{KEEP}\ntest %rsi,%rsi\nje second\ncall acquire\njmp here\nsecond: call acquire\nhere: call other\nret",
     [(True, True), (True, True)]),
], ids=["acquired", "on one path", "released", "released on one path", "failed", "by two calls"])
def test_lock_that_may_be_taken(body: str, expected: list[tuple[bool, bool]]) -> None:
    assert taken(body) == expected


def test_lock_that_a_helper_may_take_is_one_of_its_caller() -> None:
    helper = "test %rsi,%rsi\nje end\ncall acquire\nend: ret"
    assert taken(f"{KEEP}\ncall helper\nhere: call other\nret", helper=helper) == [(False, True)]
