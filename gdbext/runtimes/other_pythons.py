"""Recognises Python implementations that are not decoded, by what their files export or are called.

CPython is found by `cpython.runtime`. There is one exception: a program without symbols that has CPython 3.9 or earlier
linked in. Nothing leads to its runtime, and only its strings show that it is there. MicroPython needs no row: its
locks and its GIL are ``pthread_mutex_t`` (MicroPython 1.20 ports/unix/mpthreadport.h), which record their owners.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from gdbext.elf.dynamic import find_dynamic_symbol
from gdbext.inferior.cache import read_available
from gdbext.inferior.protocol import Memory, Module
from gdbext.record import record


@record
class _Implementation:
    """A Python implementation: what it is called, functions that only it exports, names of files that only it has."""

    name: str
    exports: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


_IMPLEMENTATIONS = (
    # PyPy 7.3 rpython/translator/c/src/entrypoint.c; pypy/goal/targetpypystandalone.py, the API for embedding.
    # The same in libpypy3.9-c.so and in an executable that was made without a library
    _Implementation("PyPy", exports=("pypy_main_startup", "pypy_execute_source")),
    # GraalPy 23 to 25 mx.graalpython/mx_graalpython.py: the native standalone is this library and a small launcher
    _Implementation("GraalPy", files=("libpythonvm.so",)),
)


#: Strings that CPython 3.6 to 3.15 has among its constants: Python/pylifecycle.c, Python/import.c,
#: Python/bootstrap_hash.c. A program that only runs Python, or prints its errors, does not have all of them.
_STRINGS = (b"Fatal Python error", b"_frozen_importlib", b"PYTHONHASHSEED")
#: How many bytes of a program's constants are searched, and how many of them at a time.
_MAX_CONSTANTS, _PIECE = 32 << 20, 1 << 20


def find_other_pythons(memory: Memory, modules: Sequence[Module],
                       decoded: Collection[Module]) -> Iterator[tuple[str, Module]]:
    """Each implementation of Python that is in the process and is not decoded, with the file that it is in.

    :param decoded: the files whose Python is decoded.
    """
    for module in modules:
        if module.is_main and not any(module is other for other in decoded) and _has_strings(memory, module):
            yield "CPython without its symbols", module
    for implementation in _IMPLEMENTATIONS:
        for module in modules:
            if module.name in implementation.files or any(
                    find_dynamic_symbol(memory, module, name) is not None for name in implementation.exports):
                yield implementation.name, module
                break


def _has_strings(memory: Memory, module: Module) -> bool:
    """Whether the constants of a file have the strings of CPython."""
    section = module.section(".rodata")
    if section is None or section.end - section.start > _MAX_CONSTANTS:
        return False
    left = set(_STRINGS)
    longest = max(map(len, _STRINGS))
    for start in range(section.start, section.end, _PIECE):
        piece = read_available(memory, start, min(_PIECE + longest, section.end - start))
        left = {text for text in left if text not in piece}
        if not left:
            return True
    return False
