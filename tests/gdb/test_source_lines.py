"""Source lines, functions and inlined calls read without GDB are those of GDB, at addresses all over a program."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path

import pytest

import gdbext
from gdbext.dwarf.sections import Budget
from gdbext.elf.headers import SHF_EXECINSTR, Read, open_regular
from gdbext.elf.symtab import SymbolFile
from gdbext.inferior.protocol import Symbol
from gdbext.targets.demangle import function_name
from gdbext.targets.source_lines import SourceLines
from gdbext.targets.symbols import LoadedFile
from tests.support import gdb_session, samples

#: How many addresses of each program are compared, and the part that may differ: a return address is that of a call,
#: but an address in the middle of anything may be where GDB contradicts itself.
_ADDRESSES, _MAY_DIFFER = 1000, 0.005
_IN_GDB = """
import json, sys
sys.path.insert(0, {home!r})
from gdbext.debugger.target import _SYMBOLIC, gdb, output
from gdbext.debugger.symbols import demangled, source_place
found = []
for address in json.load(open({addresses!r})):
    try:
        match = _SYMBOLIC.match(output(f"output/a {{address:#x}}"))
    except gdb.error:
        match = None
    name, offset = match.groups() if match else (None, 0)
    file, line, inlined = source_place(address, address - int(offset or 0))
    found.append([demangled(name), file, line, [[call.function, call.file, call.line] for call in inlined]])
json.dump(found, open({answer!r}, "w"))
"""
PROGRAMS: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "C": ("locks.c", ("-O2", "-g", "-pthread"), ()),
    "C, DWARF 4": ("blocked.c", ("-O1", "-g", "-gdwarf-4", "-pthread"), ()),
    "C++": ("locks.cc", ("-std=c++20", "-O2", "-g", "-pthread"), ("-lstdc++",)),
    "C++, DWARF 4, compressed": (
        "locks.cc", ("-std=c++20", "-O3", "-g", "-gdwarf-4", "-gz", "-pthread"), ("-lstdc++",)),
    "C++, DWARF 3, not optimised": ("locks.cc", ("-std=c++20", "-O0", "-g", "-gdwarf-3", "-pthread"), ("-lstdc++",)),
    "C++, parts split off": ("inlined.cc", ("-O2", "-g", "-fopenmp", "-ffunction-sections"), ("-lstdc++",)),
}


def by_gdb(program: Path, addresses: list[int], folder: Path) -> list[Symbol]:
    home = str(Path(gdbext.__file__).parent.parent)
    places = {name: str(folder / name) for name in ("addresses", "answer")}
    Path(places["addresses"]).write_text(json.dumps(addresses))
    script = folder / "ask.py"
    script.write_text(_IN_GDB.format(home=home, **places))
    subprocess.run([gdb_session.executable(), "-nx", "-batch", "-ex", f"source {script}", program], check=True,
                   capture_output=True, timeout=gdb_session.TIMEOUT)
    return [Symbol(name, file, line, tuple(map(tuple, inlined)))  # type: ignore[arg-type]
            for name, file, line, inlined in json.loads(Path(places["answer"]).read_text())]


def directly(program: Path, addresses: list[int]) -> list[Symbol]:
    def opened(place: str) -> Read | None:
        return open_regular(place) if Path(place).is_file() else None

    lines = SourceLines()
    lines._budget = Budget(60)  # no report has so many frames
    file = LoadedFile(SymbolFile(open_regular(str(program))), 0, str(program), opened)
    found = []
    for address in addresses:
        symbol = lines.find(file, address) or Symbol(None)
        inlined = tuple((call.function, call.file, call.line) for call in symbol.inlined)
        found.append(Symbol(symbol.function or function_name(file.symbol(address)), symbol.file, symbol.line,
                            inlined))  # type: ignore[arg-type]
    return found


@pytest.mark.parametrize("kind", PROGRAMS)
def test_places_are_those_of_gdb(kind: str, tmp_path: Path) -> None:
    source, flags, libraries = PROGRAMS[kind]
    program = samples.compiled(source.partition(".")[0], source, flags, list(libraries), strip=False)
    check(program, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("flags", [(), ("-C", "symbol-mangling-version=v0")])
def test_places_of_rust_are_those_of_gdb(flags: tuple[str, ...], tmp_path: Path) -> None:
    program = samples.compiled("locks-rs", "locks.rs", ("-g", "-O", *flags), strip=False)
    check(program, tmp_path)


def check(program: Path, folder: Path) -> None:
    code = next(section for section in SymbolFile(open_regular(str(program))).sections
                if section.flags & SHF_EXECINSTR and section.name == ".text")
    dice = random.Random(1)
    addresses = sorted(code.address + dice.randrange(code.size) for _ in range(_ADDRESSES))
    expected, found = by_gdb(program, addresses, folder), directly(program, addresses)
    assert sum(symbol.line is not None for symbol in expected) > _ADDRESSES / 10
    different = [(hex(address), one, other) for address, one, other in zip(addresses, expected, found) if one != other]
    assert len(different) <= _ADDRESSES * _MAY_DIFFER, different[:10]
