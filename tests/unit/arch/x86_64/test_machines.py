from __future__ import annotations

import pytest

from gdbext.arch.x86_64.instructions import parse
from gdbext.arch.x86_64.machines import Machine
from tests.support.fake_memory import FakeMemory

STACK = 0x7000


def run(text: str, **registers: int) -> Machine:
    memory = FakeMemory({STACK: bytes(range(1, 65))})
    machine = Machine(memory, {"rsp": STACK + 16, "rbx": 0x1122_3344_5566_7788, **registers})
    for line in text.splitlines():
        machine.step(parse(0x1000, 4, line.strip()))
    assert memory.read(STACK, 64) == bytes(range(1, 65)), "the target is never written"
    return machine


@pytest.mark.parametrize(("text", "value"), [
    ("mov %rbx,%rax", 0x1122_3344_5566_7788), ("mov %ebx,%eax", 0x5566_7788), ("movzbl %bl,%eax", 0x88),
    ("movsbl %bl,%eax", 0xFFFF_FF88), ("movzbl 0x1(%rsp),%eax", 18), ("mov (%rsp),%rax", 0x1817_1615_1413_1211),
    ("lea 0x8(%rsp),%rax", STACK + 24), ("movl $0x5,(%rsp)\nmov (%rsp),%rax", 0x1817_1615_0000_0005),
    ("movb $0x0,(%rsp)\nmov (%rsp),%rax", 0x1817_1615_1413_1200), ("push %rbx\npop %rax", 0x1122_3344_5566_7788),
    ("xor %eax,%eax\nadd $0x3,%rax", 3), ("mov $0x9,%eax\nsub $0x1,%eax", 8), ("xor %eax,%eax\nmov $0x7,%al", 7),
    ("cmp $0x88,%bl\nsete %al\nmovzbl %al,%eax", 1), ("xor %eax,%eax\ncmp %rbx,%rbx\nsete %al", 1),
    ("imul %rbx,%rax", None), ("mov %r14,%rax", None), ("mov 0x0(%r14),%rax", None),
    ("movq $0x1,(%rsp)\nmov %rbx,(%r14)\nmov (%rsp),%rax", None), ("movaps %xmm0,(%rsp)\nmov (%rsp),%rax", None),
    ("xor %eax,%eax\nxchg %rax,%rbx", None),
    ("movb $0x7,(%rsp)\nmov (%rsp),%al\nmovzbl %al,%eax", 7), ("mov $0x105,%ax\nmov %bl,%al\nmovzwl %ax,%eax", 0x188),
    ("mov $0x5,%al\nmovzwl %ax,%eax", None), ("mov $0x105,%ax\nmov %r14b,%al\nmovzwl %ax,%eax", None),
    ("mov $0x5,%al", None), ("mov $0x5,%al\nimul %rbx,%rax\nmovzbl %al,%eax", None),
    ("mov $0x5,%ah\nmovzbl %al,%eax", None), ("mov $0x10,%eax\nneg %rax", (1 << 64) - 16),
    ("mov $0x10,%eax\nneg %al", 0xF0), ("movq $0x1,(%rsp)\nnegq (%rsp)\nmov (%rsp),%rax", (1 << 64) - 1),
    ("neg %r14\nmov %r14,%rax", None)])
def test_result(text: str, value: int | None) -> None:
    assert run(text).registers.get("rax") == value


@pytest.mark.parametrize(("text", "jump", "is_taken"), [
    ("cmp $0x1,%rsi", "je", True), ("cmp $0x1,%rsi", "jne", False), ("cmp $0x2,%rsi", "jb", True),
    ("cmp $0x2,%rsi", "jg", False), ("cmp $0xffffffffffffffff,%rsi", "jg", True),
    ("cmp $0xffffffffffffffff,%rsi", "ja", False), ("test %rsi,%rsi", "je", False), ("test %rsi,%rsi", "js", False),
    ("cmpb $0x11,(%rsp)", "je", True), ("cmp $0x1,%r14", "je", None), ("add $0x1,%rsi", "je", None),
    ("cmp $0x1,%rsi\nimul %rbx,%rsi", "je", None), ("neg %rsi", "je", False), ("neg %rsi", "jb", True),
    ("neg %r14", "je", None)])
def test_jump(text: str, jump: str, is_taken: bool | None) -> None:
    assert run(text, rsi=1).is_taken(parse(0x1000, 2, f"{jump} 0x2000")) is is_taken


def test_call_and_return() -> None:
    machine = run("")
    machine.enter(0x1234)
    assert machine.copy().leave() == machine.leave() == 0x1234
    assert machine.registers["rsp"] == STACK + 16
    machine.registers["rax"] = 1
    machine.step(parse(0x1000, 4, "mov $0x2,%cl"))
    assert [machine.copy().lowest("rcx", bits) for bits in (1, 8, 16)] == [0, 2, None]
    machine.skip_call()
    assert "rax" not in machine.registers
    assert machine.lowest("rcx", 8) is None
    assert "rbx" in machine.registers
