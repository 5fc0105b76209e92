"""Demangles names of C++ and Rust functions without a debugger.

C++ names are demangled by the C++ library of this machine, Rust's names as GDB does it, with the hashes that are part
of them. The file that has a name is chosen by its author: names are bounded, and have plain characters only.
"""

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Callable

from gdbext.runtimes.names import rust_name, without_parameters

_PLAIN_NAME = re.compile(r"_[ZR][\w.$]*", re.ASCII)
#: The longest name that is demangled, in characters.
_LONGEST = 4096
#: Rust's legacy scheme: a C++ name of a path, whose last part is a hash. Source: rustc-demangle 0.1 src/legacy.rs.
_LEGACY = re.compile(r"_ZN(\d[\w.$]*17h[0-9a-f]{16})E(?:[.@]|$)", re.ASCII)
_ESCAPE = re.compile(r"\$(\w+)\$|\.\.", re.ASCII)
_ESCAPED = {"SP": "@", "BP": "*", "RF": "&", "LT": "<", "GT": ">", "LP": "(", "RP": ")", "C": ","}


def demangle(name: str) -> str:
    """Demangle a C++ or Rust name; any other name, and one that cannot be demangled, is returned unchanged."""
    if len(name) > _LONGEST or not _PLAIN_NAME.fullmatch(name):
        return name
    if name.startswith("_R"):
        return rust_name(name, hashes=True) or name
    return _legacy_rust(name) or _cxx_demangler()(name) or name


def function_name(name: str | None) -> str | None:
    """A C++ or Rust function's name as in its source, without parameters; any other name as it is."""
    if name is None or not name.startswith(("_Z", "_R")):
        return name
    mangled = name.partition("@")[0]
    plain = demangle(mangled)
    return name if plain == mangled else without_parameters(plain)


def plain_name(name: str) -> str:
    """A function's name as in its source, without parameters, and without the type that a template's function returns.

    :param name: mangled, or as in the source.
    """
    plain = function_name(name) or name
    if not name.startswith("_Z") or not plain.endswith(">"):
        return plain
    # "void bank::pay<int>": the last space outside of brackets, but "operator new" has one
    depth, last = 0, -1
    for at, letter in enumerate(plain.partition("operator")[0]):
        depth += (letter in "<([{") - (letter in ">)]}")
        if letter == " " and depth == 0:
            last = at
    return plain[last + 1:]


def _legacy_rust(name: str) -> str | None:
    match = _LEGACY.match(name)
    if match is None:
        return None
    path, parts = match[1], []
    while path:
        digits = re.match(r"\d+", path)
        if digits is None:
            return None
        size, path = int(digits[0]), path[digits.end():]
        if not 0 < size <= len(path):
            return None
        part, path = path[:size], path[size:]
        # an identifier cannot begin with an escape
        parts.append(_ESCAPE.sub(_unescaped, part[1:] if part.startswith("_$") else part))
    return "::".join(parts)


def _unescaped(match: re.Match[str]) -> str:
    code = match[1]
    if code is None:
        return "::"
    if code in _ESCAPED:
        return _ESCAPED[code]
    number = int(code[1:], 16) if re.fullmatch(r"u[0-9a-f]{1,6}", code) else 0
    return chr(number) if 32 <= number < 0x110000 else match[0]


@functools.cache
def _cxx_demangler() -> Callable[[str], str | None]:
    """The C++ library's demangler (Itanium C++ ABI, ``abi::__cxa_demangle``), or one that knows no name."""
    try:
        demangle_name = ctypes.CDLL("libstdc++.so.6").__cxa_demangle
        free = ctypes.CDLL(None).free
    except (OSError, AttributeError):
        return lambda name: None
    demangle_name.restype = ctypes.c_void_p
    demangle_name.argtypes = (ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int))
    free.argtypes = (ctypes.c_void_p,)
    free.restype = None

    def demangled(name: str) -> str | None:
        status = ctypes.c_int()
        made = demangle_name(name.encode(), None, None, ctypes.byref(status))
        if not made:
            return None
        try:
            text = ctypes.string_at(made)
        finally:
            free(made)
        return text.decode("utf-8", "backslashreplace")

    return demangled
