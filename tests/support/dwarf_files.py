"""Small programs with debug information of all versions, for the tests of `gdbext.dwarf`."""

from __future__ import annotations

import subprocess
from pathlib import Path

from gdbext.dwarf.sections import Budget, DebugSections
from gdbext.dwarf.units import Units
from gdbext.elf.headers import open_regular
from gdbext.elf.symtab import SymbolFile

#: Lines that a test looks for end with a comment that names them.
SOURCE = """
#define INLINE static inline __attribute__((always_inline))
namespace bank {
template <class T> struct Vault {
    T held;
    INLINE_METHOD void put(T amount) {
        held = amount; /* put */
    }
};
namespace {
INLINE_FUNCTION void pay(volatile int *to, int amount) {
    *to = amount; /* pay */
}
}
__attribute__((noinline)) int transfer(volatile int *to) {
    pay(to, 3); /* call of pay */
    Vault<volatile int> vault;
    vault.put(5); /* call of put */
    return vault.held + 1; /* end of transfer */
}
}
int main(int count, char **) {
    volatile int account = 0;
    return bank::transfer(&account) + count; /* main */
}
""".replace("INLINE_METHOD", "__attribute__((always_inline))").replace(
    "INLINE_FUNCTION", "static inline __attribute__((always_inline))")


def line(name: str) -> int:
    """The number of the line with a name."""
    return next(number for number, text in enumerate(SOURCE.splitlines(), 1) if f"/* {name} */" in text)


def build(folder: Path, *flags: str, source: str = "bank.cc") -> Path:
    """Build the program in a folder.

    :param source: the path by which the compiler gets its source.
    """
    (folder / "bank.cc").write_text(SOURCE)
    made = folder / "bank"
    subprocess.run(["g++", "-O1", "-g", "-Wl,--build-id", *flags, "-o", made, source], check=True, cwd=folder)
    return made


def function(made: Path, name: str) -> range:
    """The addresses of a function."""
    listed = subprocess.run(["nm", "-S", "-C", made], capture_output=True, text=True, check=True).stdout
    words = next(line.split(maxsplit=3) for line in listed.splitlines() if line.endswith(name))
    start = int(words[0], 16)
    return range(start, start + int(words[1], 16))


def opened(made: Path) -> SymbolFile:
    """The file as it is read."""
    return SymbolFile(open_regular(str(made)))


def sections(made: Path) -> DebugSections:
    """The file's debug sections, with time to read them."""
    budget = Budget(60)
    with budget.spending():
        return DebugSections(opened(made), budget)


def units(made: Path) -> Units:
    """The file's units."""
    return Units(sections(made))
