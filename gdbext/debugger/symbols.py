"""Names, source lines and inlined calls that GDB's symbol tables have for an address."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence

import gdb

from gdbext.debugger.console import decoded, output
from gdbext.model import InlinedCall
from gdbext.runtimes.names import public_name, without_parameters

_PLAIN_NAME = re.compile(r"^[A-Za-z_][\w.$]*$", re.ASCII)
# mangled by Rust: in its own scheme, or in C++'s with a hash at the end
_RUST = re.compile(r"^_R|17h[0-9a-f]{16}E")
#: Most functions that are inlined into each other at one address.
_MAX_INLINED = 30


def iter_frames(frame: gdb.Frame | None) -> Iterator[gdb.Frame]:
    """A frame and its callers."""
    while frame is not None:
        yield frame
        frame = frame.older()


def is_inlined(frame: gdb.Frame) -> bool:
    """Whether a frame has no native code of its own: an inlined call, or a tail call."""
    return frame.type() in (gdb.INLINE_FRAME, gdb.TAILCALL_FRAME)


def source_place(address: int, start: int) -> tuple[str | None, int | None, tuple[InlinedCall, ...]]:
    """Find the file and line of a code address, and the inlined calls there, innermost first.

    With inlined calls, file and line are those of the outermost call.

    :param start: the address of the symbol.
    """
    try:
        place = gdb.find_pc_line(address)
        table: gdb.Symtab | None = place.symtab  # None without debug information
        if table is None or not place.line:
            return None, None, ()
        functions: list[tuple[int, gdb.Symbol]] = []
        block: gdb.Block | None = gdb.block_for_pc(address)
        while block is not None and len(functions) < _MAX_INLINED:
            if block.function is not None:
                functions.append((_entry(block.function, block), block.function))
            block = block.superblock
        if not functions:  # assembly language
            return file_name(table), None, ()
        file, line, inlined = file_name(table), place.line, list[InlinedCall]()
        for function in _inlined(functions, start):
            # GDB gives an inlined function the file and line of its call
            inlined.append(InlinedCall(_inlined_name(function), file, line or None))
            file, line = file_name(function.symtab), function.line
        return file, line or None, tuple(inlined)
    except (gdb.error, RuntimeError, OverflowError):
        return None, None, ()


def _entry(function: gdb.Symbol, block: gdb.Block) -> int:
    """The address at which a function begins; its block may have a part before that."""
    try:
        address = function.value().address
        return int(address) if address is not None else block.start
    except (gdb.error, TypeError):
        return block.start


def _inlined(functions: Sequence[tuple[int, gdb.Symbol]], start: int) -> Sequence[gdb.Symbol]:
    """The inlined functions at an address.

    :param functions: the functions whose blocks contain the address, with the addresses where they begin, innermost
        first.
    :param start: the address of the symbol.
    """
    # the block of a function that the compiler split off, as for OpenMP, is in that of the original function
    own = [index for index, (low, _) in enumerate(functions) if low == start] or [len(functions) - 1]
    return [function for _, function in functions[:own[-1]]]


def _inlined_name(function: gdb.Symbol) -> str:
    name = decoded(functools.partial(getattr, function, "name")) or "?"
    return public_name(without_parameters(name))


def file_name(table: gdb.Symtab | None) -> str | None:
    """The name of a source file."""
    return decoded(functools.partial(getattr, table, "filename")) if table is not None else None


def demangled(name: str | None) -> str | None:
    """Return a C++ or Rust function's name as in its source, without parameters; any other name as it is."""
    if name is None or not name.startswith(("_Z", "_R")):
        # GDB names a C++ function that no other file sees with its parameters
        return without_parameters(name) if name is not None else None
    mangled = name.partition("@")[0]
    # the file's author chooses the name: with a line feed it would be two GDB commands
    if not _PLAIN_NAME.fullmatch(mangled):
        return name
    found = demangle("rust" if _RUST.search(name) else "c++", mangled)
    return without_parameters(found) if found is not None else name


def demangle(language: str, name: str) -> str | None:
    """A mangled name as in its source; None if GDB cannot demangle it."""
    try:
        return output(f"demangle -l {language} -- {name}").strip()
    except gdb.error:
        return None
