"""Recognises Python implementations that are not decoded, by what their files export or are called.

CPython is found by `cpython.runtime`. MicroPython needs no row: its locks and its GIL are ``pthread_mutex_t``
(MicroPython 1.20 ports/unix/mpthreadport.h), which record their owners.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gdbext.elf.dynamic import find_dynamic_symbol
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


def find_other_pythons(memory: Memory, modules: Sequence[Module]) -> Iterator[tuple[str, Module]]:
    """Each implementation of Python that is in the process and is not decoded, with the file that it is in."""
    for implementation in _IMPLEMENTATIONS:
        for module in modules:
            if module.name in implementation.files or any(
                    find_dynamic_symbol(memory, module, name) is not None for name in implementation.exports):
                yield implementation.name, module
                break
