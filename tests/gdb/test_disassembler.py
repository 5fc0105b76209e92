"""The instructions of real libraries as capstone and as GDB disassemble them: what we make of them is the same."""

from __future__ import annotations

import contextlib
import re
import subprocess
from pathlib import Path

import pytest

from gdbext.arch.x86_64.disassembler import disassemble
from gdbext.arch.x86_64.instructions import Instruction, parse
from gdbext.elf.headers import opened_file
from gdbext.elf.symtab import SymbolFile
from gdbext.targets.process import ProcessTarget
from tests.support import gdb_session, interpreters, samples

#: Bytes of each library that are compared.
SIZE = 250_000
_LINE = re.compile(r"^ +0x([0-9a-f]+)(?: <[^>]*>)?:\t([0-9a-f ]+)\t(.*)$", re.MULTILINE)


def facts(instruction: Instruction) -> tuple[object, ...]:
    """All that the analysis uses; of fillers that they are such, and of x87 instructions the registers changed."""
    if instruction.kind == "filler":
        return ("filler",)
    if instruction.mnemonic.startswith("f"):
        return instruction.kind, instruction.falls_through, instruction.written
    return (instruction.operands, instruction.kind, instruction.falls_through, instruction.condition,
            instruction.written, instruction.accesses(), instruction.assignments(), instruction.comparison,
            instruction.alignment, instruction.stored_condition)


def libraries() -> list[Path]:
    python, _ = interpreters.use("3.12-stripped")
    libc = re.search(r"=> (\S*/libc\.so\.6)", subprocess.run(
        ["ldd", python], stdout=subprocess.PIPE, text=True, check=True).stdout)
    assert libc is not None
    return [Path(libc[1]).resolve(), next((python.parent.parent / "lib").glob("libpython3.12.so.1.0"))]


@pytest.mark.parametrize("number", [0, 1], ids=["libc", "libpython"])
def test_instructions_are_those_of_gdb(number: int) -> None:
    library = libraries()[number]
    with open(library, "rb") as file:
        read = opened_file(file)
        text = SymbolFile(read).section(".text")
        assert text is not None
        size = min(SIZE, text.size)
        code = read(text.offset, size)
    done = subprocess.run(
        [gdb_session.executable(), "-nx", "-batch", "-ex", "set disassembly-flavor att",
         "-ex", f"disassemble /r {text.address:#x},{text.address + size:#x}", library],
        capture_output=True, text=True, check=True)
    expected = {int(match[1], 16): (len(match[2].split()), match[3]) for match in _LINE.finditer(done.stdout)}
    assert len(expected) > SIZE // 8
    found = {at: (length, words) for at, length, words in disassemble(code, text.address)}
    # the last one may be cut
    assert set(expected) - set(found) <= {max(expected)}
    differ = []
    for at, (length, words) in found.items():
        theirs = parse(at, expected[at][0], re.sub(r"\s+<.*|\s+#.*", "", expected[at][1]))
        ours = parse(at, length, words)
        # GDB shows prefixes without an effect, with which the linker aligns accesses to thread-local variables
        if (length, facts(ours)) != (expected[at][0], facts(theirs)) and not expected[at][1].startswith("data16"):
            differ.append((hex(at), expected[at][1], words))
    assert differ == []


def test_names_of_called_functions_are_those_of_gdb(tmp_path: Path) -> None:
    """A wrong name might be that of a function that does not return, or of one that releases a lock."""
    with samples.abba("rwlock", tmp_path) as sample:
        with contextlib.closing(ProcessTarget(sample.pid)) as target:
            places = [section for each in target.modules() for section in each.sections
                      if each.is_main and section.name == ".text"]
            places += [section for each in target.modules() for section in each.sections
                       if each.name.startswith("libc.so") and section.name == ".text"]
            ranges = [(section.start, min(section.end, section.start + 60_000)) for section in places]
            ours = {at: text for low, high in ranges for at, _, text in target.disassemble(low, high)}
        done = gdb_session.batch(["-p", str(sample.pid)], [
            f"with disassembly-flavor att -- disassemble /r {low:#x},{high:#x}" for low, high in ranges])
    theirs = {int(match[1], 16): match[3] for text in done.outputs for match in _LINE.finditer(text)}
    calls = {at: (parse(at, 5, ours.get(at, "")), parse(at, 5, text)) for at, text in theirs.items()
             if re.match(r"call +0x", text)}
    assert len(calls) > 300
    assert sum(not each.falls_through for _, each in calls.values()) > 20
    # a function may have several names
    assert [hex(at) for at, (one, other) in calls.items() if one.falls_through != other.falls_through] == []
    # a stripped library names only what it exports; *ABS* is a function that it chooses for the processor
    named = [one.symbol for one, other in calls.values() if not (other.symbol or "*ABS*").startswith("*ABS*")]
    assert len(named) > 300
    assert sum(symbol is not None for symbol in named) > 0.95 * len(named)
