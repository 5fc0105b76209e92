from __future__ import annotations

import re
import time

import pytest

from gdbext.arch.protocol import Change, Origin
from gdbext.arch.x86_64.instructions import Instruction, parse
from gdbext.arch.x86_64.origins import change, origin

AT, SIZE = 0x5555_5555_5000, 4


def code(text: str) -> list[Instruction]:
    """Parse lines of assembly with labels (``label:``), jumps to them (``@label``) and a mark of the use (``=>``)."""
    lines = [line.replace("=>", "").strip() for line in text.strip().splitlines()]
    labels = {match[1]: AT + SIZE * i for i, line in enumerate(lines) if (match := re.match(r"(\w+):", line))}
    return [parse(AT + SIZE * i, SIZE,
                  re.sub(r"(?<!\w)@(\w+)", lambda match: hex(labels[match[1]]), re.sub(r"^\w+:\s*", "", line)))
            for i, line in enumerate(lines)]


def find(text: str, register: str) -> Origin | None:
    use = next(i for i, line in enumerate(text.strip().splitlines()) if "=>" in line)
    return origin(code(text), use, register)


def describe(text: str, register: str) -> str | None:
    """Describe an origin in a line: kind, place, operand, and whether it is uncertain."""
    found = find(text, register)
    if found is None:
        return None
    words: list[str] = [found.kind]
    if found.instruction is not None:
        words.append(f"#{(found.instruction.address - AT) // SIZE}")
    if found.argument is not None:
        words.append(str(found.argument))
    if found.value is not None:
        words.append(hex(found.value))
    if found.operand is not None:
        words += [found.operand.text, "same" if found.operand_unchanged else "changed"]
    if not found.certain:
        words.append("perhaps")
    return " ".join(words)


@pytest.mark.parametrize(("text", "register", "expected"), [
    # loads
    ("mov 0x18(%rdi),%rax\n=> mov (%rax),%rcx", "rax", "loaded #0 0x18(%rdi) same"),
    ("mov 0x18(%rdi),%rax\nadd $8,%rdi\n=> mov (%rax),%rcx", "rax", "loaded #0 0x18(%rdi) changed"),
    ("mov (%rax),%rax\n=> mov (%rax),%rcx", "rax", "loaded #0 (%rax) changed"),
    ("mov 0x10(%rip),%rax\ncall 0x10\nmov 0x10(%rip),%rbx\n=> mov (%rbx),%rcx", "rbx", "loaded #2 0x10(%rip) same"),
    ("mov 0x18(%rdi),%rbx\ncall 0x10\n=> mov (%rbx),%rcx", "rbx", "loaded #0 0x18(%rdi) changed"),
    ("mov 0x18(%rbp),%rbx\ncall 0x10\n=> mov (%rbx),%rcx", "rbx", "loaded #0 0x18(%rbp) same"),
    ("mov (%rdi),%eax\n=> mov (%rax),%rcx", "rax", "loaded #0 (%rdi) same"),
    ("movzbl (%rdi),%eax\n=> mov (%rax),%rcx", "rax", "loaded #0 (%rdi) same"),
    ("mov (%rdi),%al\n=> mov (%rax),%rcx", "rax", "computed #0"),
    ("mov (%rdi),%al\n=> cmp %al,%cl", "al", "loaded #0 (%rdi) same"),
    ("mov (%rdi),%ah\n=> cmp %al,%cl", "al", "computed #0"),
    ("pop %rbx\n=> mov (%rbx),%rcx", "rbx", "loaded #0 (%rsp) changed"),
    ("mov %fs:0x28,%rax\n=> mov (%rax),%rcx", "rax", "loaded #0 %fs:0x28 same"),
    # moves
    ("mov (%rdi),%rax\nmov %rax,%rbx\nmov %rbx,%rdx\n=> mov (%rdx),%rcx", "rdx",
     "loaded #0 (%rdi) same"),
    ("mov (%rdi),%rax\nmov %rax,%rbx\nmov %rsi,%rdi\n=> nop", "rbx", "loaded #0 (%rdi) changed"),
    ("mov (%rdi),%rax\nmov %rax,%rbx\nxor %eax,%eax\n=> nop", "rbx", "loaded #0 (%rdi) same"),
    ("lea (%rdi),%rax\n=> nop", "rax", "argument 1"),
    ("mov %edi,%eax\n=> nop", "rax", "argument 1"),
    ("movslq %esi,%rbx\n=> nop", "rbx", "argument 2"),
    ("mov %ah,%bl\n=> nop", "bl", "computed #0"),
    ("mov %al,%bl\n=> nop", "rbx", "computed #0"),
    ("movzbl %dil,%eax\n=> nop", "eax", "argument 1"),
    ("mov %edi,%eax\nmov %rax,%rbx\n=> nop", "ebx", "argument 1"),
    # calls
    ("call 0x10 <malloc@plt>\n=> mov (%rax),%rcx", "rax", "result #0"),
    ("call 0x10 <malloc@plt>\ncltq\nmov %rax,%rdi\n=> mov (%rdi),%rcx", "rdi", "result #0"),
    ("call 0x10 <malloc@plt>\n=> mov (%rcx),%rcx", "rcx", None),
    ("call 0x10 <malloc@plt>\n=> mov (%rdi),%rcx", "rdi", None),
    ("mov %rdi,%rbx\ncall 0x10\n=> mov (%rbx),%rcx", "rbx", "argument 1"),
    # constants
    ("xor %eax,%eax\n=> mov (%rax),%rcx", "rax", "constant #0 0x0"),
    ("mov $0x0,%r8d\n=> mov (%r8),%rcx", "r8", "constant #0 0x0"),
    ("mov $0xffffffffffffffff,%rax\n=> nop", "rax", "constant #0 0xffffffffffffffff"),
    ("or $0xffffffff,%eax\n=> nop", "rax", "constant #0 0xffffffff"),
    (f"lea 0x10(%rip),%rdi        # {AT + SIZE + 0x10:#x} <table>\n=> nop", "rdi",
     f"constant #0 {AT + SIZE + 0x10:#x}"),
    ("movabs $0x1122334455667788,%rax\n=> nop", "rax", "constant #0 0x1122334455667788"),
    ("mov $0x1,%al\n=> nop", "rax", "computed #0"),
    # computed
    ("lea 0x10(%rdi),%rax\n=> nop", "rax", "computed #0 0x10(%rdi) same"),
    ("mov (%rdi),%rax\nadd $0x8,%rax\n=> nop", "rax", "computed #1"),
    ("cmovne %rsi,%rdi\n=> nop", "rdi", "computed #0"),
    ("xor %esi,%edi\n=> nop", "rdi", "computed #0"),
    ("lock cmpxchg %rdx,(%rdi)\n=> nop", "rax", "computed #0"),
    ("rep movsb %ds:(%rsi),%es:(%rdi)\n=> nop", "rdi", "computed #0"),
    # arguments
    ("=> mov (%rdi),%rax", "rdi", "argument 1"),
    ("push %rbx\nsub $0x8,%rsp\n=> mov (%r9),%rax", "r9d", "argument 6"),
    ("=> mov (%r10),%rax", "r10", None),
    ("=> mov (%rbx),%rax", "rbx", None),
    ("=> nop", "xmm0", None),
    # jumps
    ("mov (%rdi),%rax\ntest %rax,%rax\nje @end\n=> mov (%rax),%rcx\nend: ret", "rax", "loaded #0 (%rdi) same"),
    ("mov (%rdi),%rax\nagain: nop\n=> mov (%rax),%rcx\njne @again", "rax", "loaded #0 (%rdi) same"),
    ("mov (%rdi),%rax\nagain: nop\n=> mov (%rax),%rcx\nadd $8,%rdi\njne @again", "rax", "loaded #0 (%rdi) changed"),
    ("mov (%rdi),%rax\nagain: nop\n=> mov (%rax),%rcx\nmov (%rax),%rax\njne @again", "rax",
     "loaded #0 (%rdi) same perhaps"),
    ("mov %rsi,%rax\ntest %rdi,%rdi\nje @there\nmov (%rdi),%rax\nthere: nop\n=> nop", "rax",
     "loaded #3 (%rdi) same perhaps"),
    ("test %rdi,%rdi\nje @there\nmov (%rdi),%rax\nret\nthere: nop\n=> mov (%rdi),%rax", "rdi", "argument 1"),
    ("mov (%rdi),%rbx\njmp @there\nret\nthere: nop\n=> nop", "rbx", "loaded #0 (%rdi) same"),
    ("mov (%rdi),%rbx\nje @there\nmov %rsi,%rbx\njne @there\nret\nthere: nop\n=> nop", "rbx", None),
    ("mov (%rdi),%rbx\nje @there\njne @there\nret\nthere: nop\n=> nop", "rbx", "loaded #0 (%rdi) same"),
    ("mov (%rdi),%rbx\nje @there\nret\nnopw 0x0(%rax,%rax,1)\nxchg %ax,%ax\nthere: nop\n=> nop", "rbx",
     "loaded #0 (%rdi) same"),
    ("mov (%rdi),%rbx\nret\nnop\n=> nop", "rbx", None),
    ("jmp @there\nthere: nop\n=> nop", "rdi", "argument 1"),
    ("again: nop\n=> nop\nmov (%rdi),%rdi\njne @again", "rdi", "argument 1 perhaps"),
    ("mov (%rdi),%rax\nje @there\ncall 0x10 <abort@plt>\nthere: nop\n=> nop", "rax", "loaded #0 (%rdi) same"),
    ("mov (%rdi),%rax\nje @there\ncall 0x10 <f>\nthere: nop\n=> nop", "rax", "result #2 perhaps"),
    # computed jumps, whose targets are unknown
    ("mov (%rdi),%rbx\nnop\n=> nop\nnotrack jmp *%rax", "rbx", "loaded #0 (%rdi) same"),
    ("mov (%rdi),%rbx\njne @end\n=> nop\nnotrack jmp *%rax\nend: ret", "rbx", "loaded #0 (%rdi) same perhaps"),
    ("mov (%rdi),%rbx\njne @end\n=> nop\njmp *0x18(%rax)\nend: ret", "rbx", "loaded #0 (%rdi) same"),
    ("mov (%rdi),%rbx\njne @end\n=> nop\nmov 0x8(%rdx),%rax\njmp *%rax\nend: ret", "rbx", "loaded #0 (%rdi) same"),
    ("mov (%rdi),%rbx\njne @end\n=> nop\nadd $0x8,%rsp\njmp *%rax\nend: ret", "rbx", "loaded #0 (%rdi) same"),
    ("mov (%rdi),%rbx\njne @end\n=> nop\njmp *%rsi\nend: ret", "rbx", "loaded #0 (%rdi) same"),
    ("mov (%rdi),%rbx\njne @end\n=> nop\nmov (%rcx,%rax,8),%rax\njmp *%rax\nend: ret", "rbx",
     "loaded #0 (%rdi) same perhaps"),
    ("mov (%rdi),%rbx\njne @end\n=> nop\nmov (%rcx),%rax\nnotrack jmp *%rax\nend: ret", "rbx",
     "loaded #0 (%rdi) same perhaps"),
    ("mov (%rdi),%rbx\njne @end\n=> nop\nadd %rdx,%rax\njmp *%rax\nend: ret", "rbx",
     "loaded #0 (%rdi) same perhaps"),
    ("mov (%rdi),%rbx\nnotrack jmp *0x5000(,%rax,8)\nnop\n=> nop", "rbx", None),
    # moves in a circle
    ("jmp @b\na: mov %rax,%rbx\nb: mov %rbx,%rax\n=> nop\njmp @a", "rax", None),
])
def test_origin(text: str, register: str, expected: str | None) -> None:
    assert describe(text, register) == expected


def test_origin_at_an_index_outside_the_code_is_unknown() -> None:
    instructions = code("mov (%rdi),%rax\nret")
    assert origin(instructions, -1, "rax") is None
    assert origin(instructions, 3, "rax") is None
    assert origin(instructions, 2, "rax") is None, "nothing follows a return"
    assert origin([], 0, "rdi") == Origin("argument", argument=1)


def test_origin_across_a_gap_in_the_code_is_unknown() -> None:
    first, second = parse(AT, SIZE, "mov (%rdi),%rax"), parse(AT + 0x100, SIZE, "mov (%rax),%rcx")
    assert origin([first, second], 1, "rax") is None


def test_origin_in_code_full_of_jumps_is_quick() -> None:
    lines = ["mov (%rdi),%rbx"]
    for i in range(1000):
        lines += [f"l{i}: test %rax,%rax", f"je @l{(i * 7919 + 13) % 1000}"]
    instructions = code("\n".join([*lines, "nop"]))
    start = time.process_time()
    found = origin(instructions, len(instructions) - 1, "rbx")
    assert time.process_time() - start < 0.5
    assert found is not None
    assert found.kind == "loaded"
    assert found.certain


@pytest.mark.parametrize(("text", "expected"), [
    ("lea 0x1(%rax),%ecx", Change(1)),
    ("mov %eax,%ecx\ninc %ecx\nadd $0x2,%ecx", Change(3)),
    ("mov %eax,%ecx\nsub $0x1,%ecx", Change(0xFFFFFFFF)),
    ("mov %rax,%rdx\nlea 0x8(%rdx),%ecx", Change(8)),
    ("mov %eax,%ecx\nor $0x3,%ecx\nor %r8d,%ecx", Change(ones=0x13)),
    ("mov %eax,%ecx\nor %r8d,%ecx\nmov $0x10,%r8d", Change()),  # other bits were set before
    ("mov %eax,%ecx", Change()),
    ("mov %eax,%ecx\nor $0x1,%ecx\nadd $0x1,%ecx", None),
    ("mov %eax,%ecx\nor $0x1,%cl", None),  # a part
    ("mov %al,%cl", None),
    ("lea 0x1(%rax,%rdx,1),%ecx", None),
    ("lea 0x1(%rax),%ecx\nmov (%rdi),%ecx", None),
    ("lea 0x1(%rax),%ecx\nmov (%rdi),%eax", None),
    ("lea 0x1(%rdx),%ecx", None),
    ("nop", None),
])
def test_change_of_one_value_into_another(text: str, expected: Change | None) -> None:
    assert change(code(text), "rax", "rcx", 32, {"r8": 0x10}) == expected
