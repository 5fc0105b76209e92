"""All that knows a processor is in arch/: no other module names its registers, instructions or system-call numbers."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import gdbext
from gdbext.arch.x86_64.instructions import _GENERAL, _MODIFIES, _READS, _WRITES
from gdbext.arch.x86_64.system_calls import system_call_names

HOME = Path(gdbext.__file__).resolve().parent
OUTSIDE = [path for path in sorted(HOME.rglob("*.py")) if HOME / "arch" not in path.parents]
# parts such as ``al`` and ``si`` are words; so are ``call``, ``push`` and others
REGISTERS = {name for name in _GENERAL if len(name) > 2 or name.startswith("r")} | {
    "rip", "eip", "eflags", "orig_rax", "fs_base", "gs_base"}
MNEMONICS = (_MODIFIES | _READS | _WRITES | {"lea", "movq", "movl", "endbr64", "int3", "ud2", "jne", "jbe", "leave",
                                            "callq", "retq", "cmpq", "(bad)"}) - {
    "add", "and", "call", "cmp", "div", "in", "ins", "not", "or", "out", "pop", "push", "str", "sub", "test"}
NAMES = REGISTERS | MNEMONICS
#: The first bytes of instructions that code is searched for: call, jmp, lea, mov, syscall, endbr64, int3.
OPCODES = re.compile(rb"^[(?:=\[]*(?:[\xe8\xe9\xcc]|\xff[\x15\x25]|\x48[\x8d\x8b\x89\xc7]|\x0f\x05|\xf3\x0f\x1e\xfa)"
                     rb"|\\x(?:e[89]|cc|ff\\x[12]5|48\\x(?:8[9bd]|c7)|f3\\x0f\\x1e\\xfa)")
OPCODE_NUMBERS = {0xE8, 0xE9, 0xCC, 0x050F, 0x15FF, 0x25FF}
CALLS = {name: number for number, name in system_call_names().items()}
#: A name that says that its value is the number of a system call.
NUMBERED = re.compile(r"^_*(?:SYS|NR|__NR)_?(\w+)$")
#: openat2 has the same number on every processor.
ALLOWED = {("render/source_access.py", "_OPENAT2")}


def named(source: str) -> Iterator[tuple[int, str]]:
    """(line, what) of each place in a module that names something of a processor."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant):
            value = node.value
            is_code = isinstance(value, bytes) and OPCODES.search(value) is not None
            is_name = isinstance(value, str) and value.lstrip("%") in NAMES
            # get_source_segment splits the whole source into lines, so only these few are looked up
            if is_code or is_name or type(value) is int and value in OPCODE_NUMBERS:
                written = ast.get_source_segment(source, node) or ""
                if is_code or is_name or written.startswith("0x"):
                    yield node.lineno, written
        elif isinstance(node, ast.ImportFrom):
            whole = [f"{node.module}.{alias.name}" for alias in node.names]
            if any(name.startswith("gdbext.arch.x86_64") for name in whole):
                yield node.lineno, f"from {node.module}"
        elif isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names
                        if alias.name.startswith("gdbext.arch.x86_64"))
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            yield from numbers_of_calls(node)


def numbers_of_calls(node: ast.Assign | ast.AnnAssign) -> Iterator[tuple[int, str]]:
    """(line, name) of each name of a system call that gets its number, alone or as one of several."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    for target in targets:
        names = target.elts if isinstance(target, ast.Tuple) else [target]
        values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
        for name, value in zip(names, values):
            if isinstance(name, ast.Name) and isinstance(value, ast.Constant):
                plain = name.id.strip("_").lower()
                match = NUMBERED.match(name.id.upper())
                call = match[1].lower() if match else plain
                if call in CALLS and type(value.value) is int and value.value == CALLS[call]:
                    yield node.lineno, name.id


@pytest.mark.parametrize("path", OUTSIDE, ids=lambda path: str(path.relative_to(HOME)))
def test_a_module_outside_of_arch_names_nothing_of_a_processor(path: Path) -> None:
    where = str(path.relative_to(HOME))
    found = [(line, what) for line, what in named(path.read_text(encoding="utf-8")) if (where, what) not in ALLOWED]
    assert not found, f"{where} names {found}: ask gdbext.arch instead"


@pytest.mark.parametrize("line", [
    'sp = registers["rsp"]', 'kept = ("rbx", "r12")', 'text = "%rdi"', 'base = registers.get("fs_base", 0)',
    'number = registers["orig_rax"]', 'low = {"eax": 1}', 'is_move = mnemonic == "movq"', 'text.startswith("lea")',
    r'code = b"\xe8"', r'pattern = re.compile(rb"\xff\x15(....)")', r'stub = b"\xff\x25\x00"',
    "is_call = code[1] == 0xE8",
    "SYSCALL = 0x050F", "SYS_FUTEX = 202", "_NR_futex = 202", "_READ, _FUTEX = 9, 202", "_FUTEX: int = 202",
    "from gdbext.arch.x86_64.calls import called", "from gdbext.arch import x86_64", "import gdbext.arch.x86_64.unwind",
])
def test_the_check_finds_what_names_a_processor(line: str) -> None:
    assert list(named(f"def f():\n    pass\n{line}\n")), line


@pytest.mark.parametrize("line", [
    'text = "the register rsp is bad"', 'word = "call"', 'code = b"\\x7fELF"', "size = 232", "FUTEX_WAIT = 0",
    "_WRITE = 2",
    "from gdbext import arch", "from gdbext.arch.protocol import Architecture", "sp = registers[cpu.STACK_POINTER]",
])
def test_the_check_lets_other_code_pass(line: str) -> None:
    assert not list(named(line)), line
