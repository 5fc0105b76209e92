"""Recognises Python implementations that are not decoded, by their exported functions or file names.

`cpython.runtime` finds CPython, except a CPython up to 3.9 that is linked into a program without symbols: only its
strings show that it is present. MicroPython is not listed: its locks and its GIL are ``pthread_mutex_t`` (MicroPython
1.20 ports/unix/mpthreadport.h), which record their owners.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from gdbext.elf.dynamic import find_dynamic_symbol
from gdbext.inferior.cache import read_available
from gdbext.inferior.protocol import Memory, Module

#: Functions that only PyPy exports, as libpypy3.9-c.so or an executable without a library. Source: PyPy 7.3
#: rpython/translator/c/src/entrypoint.c; pypy/goal/targetpypystandalone.py, the API for embedding.
_PYPY = ("pypy_main_startup", "pypy_execute_source")
#: GraalPy 23 to 25 mx.graalpython/mx_graalpython.py: the native standalone is this library and a small launcher.
_GRAALPY = "libpythonvm.so"
#: Strings among the constants of CPython 3.6 to 3.15: Python/pylifecycle.c, Python/import.c, Python/bootstrap_hash.c.
#: A program that only runs Python, or prints its errors, does not have all of them.
_STRINGS = (b"Fatal Python error", b"_frozen_importlib", b"PYTHONHASHSEED")
#: How many bytes of a program's constants are searched, and how many one read fetches.
_MAX_CONSTANTS, _PIECE = 32 << 20, 1 << 20


def find_other_pythons(memory: Memory, modules: Sequence[Module],
                       decoded: Collection[Module]) -> Iterator[tuple[str, Module]]:
    """Find the Python implementations in the process that are not decoded: (name, file).

    :param decoded: the files with an interpreter that is decoded.
    """
    for module in modules:
        if module.is_main and not any(module is other for other in decoded) and _has_strings(memory, module):
            yield "CPython without its symbols", module
    for module in modules:
        if any(find_dynamic_symbol(memory, module, name) is not None for name in _PYPY):
            yield "PyPy", module
            break
    for module in modules:
        if module.name == _GRAALPY:
            yield "GraalPy", module
            break


def _has_strings(memory: Memory, module: Module) -> bool:
    """Whether a file's constants contain CPython's strings."""
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
