"""Converts symbols of native functions to the names that programmers know."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from gdbext.inferior.protocol import Symbol
from gdbext.model import NativeFrame

# glibc gives a function several names (`__GI___pthread_mutex_lock`, `___pthread_rwlock_wrlock`); debuggers show the
# first one
_INTERNAL = re.compile(r"^_*(?:GI_)?_*(?=(?:pthread|sem|mtx|cnd|thrd|call_once)_)")
# text after the parameters of a demangled name
_QUALIFIERS = re.compile(r"(?: const| volatile| &&?| noexcept|\[abi:\w+\]| \[clone [^\]]*\]| \(\.[\w.]+\))+$")
# the first namespace of a mangled name
_OUTER = re.compile(r"_ZN(\d+)")
# of crates, as GDB shows them, and of functions
_HASH = re.compile(r"(?<=\w)\[[0-9a-f]{1,16}\](?=::)|::h[0-9a-f]{16}$")
_SUFFIX = re.compile(r"(?:\.(?:lto_priv|constprop|isra|part|cold)(?:\.\d+)*)+$")


def public_name(name: str) -> str:
    """The public name of a C library function, without compiler suffixes; any other name is returned unchanged."""
    plain = _SUFFIX.sub("", name.partition("@")[0])  # symbol versions: `pthread_cond_wait@@GLIBC_2.3.2`
    plain = plain[5:] if plain.startswith("__GI_") else plain  # glibc's internal name of an exported function
    public = _INTERNAL.sub("", plain)
    # `pthread_cond_timedwait64` is the same function if time_t has 64 bits anyway
    return public[:-2] if public != plain and public.endswith("64") else public


def without_hashes(name: str) -> str:
    """Remove the hashes of a demangled Rust name: ``core[3f1a]::take`` and ``core::take::h0123456789abcdef``."""
    return _HASH.sub("", name)


def without_parameters(name: str) -> str:
    """Remove the parameters of a demangled C++ or Rust name, as debuggers do.

    ``std::thread::join()`` -> ``std::thread::join``; ``(anonymous namespace)::f(int) const`` ->
    ``(anonymous namespace)::f``. A name without parameters is returned unchanged.
    """
    plain = _QUALIFIERS.sub("", name)
    if not plain.endswith(")"):
        return name
    depth = 0
    for i in range(len(plain) - 1, -1, -1):
        depth += (plain[i] == ")") - (plain[i] == "(")
        if depth == 0:
            # "operator()" may have no parameters
            return name if plain[:i].endswith("operator") else plain[:i] or name
    return name


def in_inline_namespace(mangled: str, namespace: str) -> str:
    """The mangled name of a function in an inline namespace, inside of the first namespace of its name.

    ``_ZN4absl5Mutex8LockWhenERKNS_9ConditionE`` and ``debian3`` ->
    ``_ZN4absl7debian35Mutex8LockWhenERKNS0_9ConditionE``: types of the parameters refer to both namespaces. Source:
    Itanium C++ ABI 5.1.10, for types that are directly in the namespace of the function.
    """
    outer = _OUTER.match(mangled)
    if outer is None:
        return mangled
    end = outer.end() + int(outer[1])
    return f"{mangled[:end]}{len(namespace)}{namespace}{mangled[end:].replace('NS_', 'NS0_')}"


_LONG = 60  # characters


def short_name(name: str) -> str:
    """Shorten a demangled C++ name: without parameters, and without template arguments if it is long.

    ``std::map<int, mesh::Mesh*, ...>::find(int const&)`` -> ``std::map<...>::find``
    """
    plain, found, operator = without_parameters(name).partition("::operator")
    if found:  # the operator may be < or >, which is not a bracket
        return short_name(plain) + found + operator
    if len(plain) <= _LONG or "<" not in plain:
        return plain
    depth, made = 0, []
    for char in plain:
        if char == ">":
            depth -= 1
        if depth == 0:
            made.append(char)
        if char == "<":
            if depth == 0:
                made.append("...")
            depth += 1
    return "".join(made) if depth == 0 else plain


# -- Cython --------------------------------------------------------------------------------------------------------

# wrapper (pw), body of a `def` (pf), `cdef` function (f), body of a generator (gb); the prefix marks variants for fused
# types and Cython's internal classes
_CYTHON = re.compile(r"^(?:__pyx_\w*?)?__pyx_(pw|pf|f|gb)_(\d.*)$", re.DOTALL)
# Cython's module of memory views, in each extension that uses them: the only module with a dot in its name, which is
# written out in symbols but not counted in the length
_CYTHON_VIEWS, _SPELT_OUT = "15View.MemoryView_", "15View_dot_MemoryView_"
_OUTLINED = re.compile(r"(?:\._omp_fn\.\d+)+$")
_NUMBER = re.compile(r"\d+")


def cython_name(symbol: str, module: str | None = None) -> str | None:
    """The qualified name of the function behind a symbol made by Cython; None for any other symbol.

    ``__pyx_pw_8cholesky_1factor_batch`` -> ``cholesky.factor_batch``. The enclosing modules, classes and functions are
    written as length and name, followed by a number that makes the symbol unique (except for `cdef` functions). A class
    with a lower-case name is left out if it may be such a number. Cython names the bodies of generators ``generator``.

    Source: Cython 3.0 Cython/Compiler/Symtab.py (Scope), Naming.py, Nodes.py.

    :param module: the file with the symbol, such as ``cholesky.cpython-311-x86_64-linux-gnu.so``.
    """
    match = _CYTHON.match(_OUTLINED.sub("", symbol))
    if match is None:
        return None
    kind, rest = match.groups()
    stem = module.partition(".")[0] if module else ""
    if rest.startswith(_SPELT_OUT):
        rest, stem = rest.replace(_SPELT_OUT, _CYTHON_VIEWS, 1), ""
    parts: list[str] = []
    while True:
        number = _NUMBER.match(rest)
        if number is None:
            break
        start = number.end()
        end = start + int(number[0][:4])
        part, after = rest[start:end], rest[end + 1:]
        in_module = parts and (not stem or stem in parts)
        is_part = part and rest[end:end + 1] == "_" and after and (
            not in_module or kind == "f" or after[0].isdigit() or kind != "pw" and part[0].isupper())
        if not is_part:
            rest = rest[start:]
            break
        parts.append(part)
        rest = after
    return ".".join([*parts, rest]) if parts and rest else None


# -- Rust ----------------------------------------------------------------------------------------------------------

#: Bounds on one symbol: with back references a short symbol can have a very long name.
_MAX_RUST_DEPTH, _MAX_RUST_STEPS, _MAX_RUST_NAME = 100, 5_000, 4_000
_RUST_BASIC = {
    "a": "i8", "b": "bool", "c": "char", "d": "f64", "e": "str", "f": "f32", "h": "u8", "i": "isize", "j": "usize",
    "l": "i32", "m": "u32", "n": "i128", "o": "u128", "p": "_", "s": "i16", "t": "u16", "u": "()", "v": "...",
    "x": "i64", "y": "u64", "z": "!",
}
_BASE_62 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def rust_name(symbol: str, hashes: bool = False) -> str | None:
    """Demangle a Rust symbol (v0); None if it is not such a symbol.

    GDB up to 10 knows only Rust's older mangling, which is the one of C++ with a hash at the end.

    :param hashes: add the hashes of crates and the types of constants, as GDB does.

    Source: Rust RFC 2603; rustc 1.65 compiler/rustc_symbol_mangling/src/v0.rs.
    """
    if not symbol.startswith("_R") or not symbol.isascii():
        return None
    try:
        name = _RustSymbol(symbol.partition(".")[0][2:], hashes).path(in_value=True)
    except (_NotRust, ValueError, IndexError):
        return None
    return name if name.isprintable() else None


class _NotRust(Exception):
    """The symbol violates the grammar, or exceeds the bounds."""


class _RustSymbol:
    """Parses the text after ``_R``. Back references are positions in that text."""

    def __init__(self, text: str, hashes: bool) -> None:
        self._text = text
        self._hashes = hashes
        self._at = 0
        self._depth = 0
        self._steps = 0

    def _next(self) -> str:
        self._at += 1
        return self._text[self._at - 1]

    def _eat(self, letter: str) -> bool:
        if self._text[self._at:self._at + 1] != letter:
            return False
        self._at += 1
        return True

    def _enter(self) -> None:
        self._depth += 1
        self._steps += 1
        if self._depth > _MAX_RUST_DEPTH or self._steps > _MAX_RUST_STEPS:
            raise _NotRust

    def _leave(self, text: str) -> str:
        self._depth -= 1
        if len(text) > _MAX_RUST_NAME:
            raise _NotRust
        return text

    def _base_62(self) -> int:
        if self._eat("_"):
            return 0
        value = 0
        while not self._eat("_"):
            value = value * 62 + _BASE_62.index(self._next())
            if value >= 1 << 64:
                raise _NotRust
        return value + 1

    def _optional(self, tag: str) -> int:
        return self._base_62() + 1 if self._eat(tag) else 0

    def _identifier(self) -> str:
        is_punycode = self._eat("u")
        start = self._at
        # numbers do not begin with 0, but a closure has the length 0, and another number may follow
        while self._text[self._at:self._at + 1].isdigit() and self._text[start:self._at] != "0":
            self._at += 1
        size = int(self._text[start:self._at][:6])
        self._eat("_")
        name = self._text[self._at:self._at + size]
        if len(name) != size:
            raise _NotRust
        self._at += size
        if is_punycode:
            plain, mark, coded = name.rpartition("_")
            # decoding longer names would take long
            name = f"{plain}{'-' if mark else ''}{coded}".encode()[:200].decode("punycode")
        return name

    def _back(self, parse: Callable[[], str]) -> str:
        here = self._at - 1
        target = self._base_62()
        if target >= here:
            raise _NotRust
        after, self._at = self._at, target
        text = parse()
        self._at = after
        return text

    def path(self, in_value: bool) -> str:
        """Parse a path. In an expression, ``::`` precedes its generic arguments."""
        self._enter()
        tag = self._next()
        if tag == "B":
            return self._leave(self._back(lambda: self.path(in_value)))
        if tag == "C":
            crate_hash = self._optional("s")
            name = self._identifier()
            return self._leave(f"{name}[{crate_hash:x}]" if self._hashes else name)
        if tag == "N":
            space = self._next()
            outer = self.path(in_value)
            number = self._optional("s")
            name = self._identifier()
            if space.isupper():
                what = {"C": "closure", "S": "shim"}.get(space, space)
                return self._leave(f"{outer}::{{{what}{':' if name else ''}{name}#{number}}}")
            return self._leave(f"{outer}::{name}" if name else outer)
        if tag == "I":
            base = self.path(in_value)
            arguments = ", ".join(filter(None, self._until_end(self._generic)))
            return self._leave(f"{base}{'::' if in_value else ''}<{arguments}>")
        if tag in "MX":  # the place of the `impl` is not shown
            self._optional("s")
            self.path(in_value=False)
        if tag == "M":
            return self._leave(f"<{self._type()}>")
        if tag in "XY":
            own = self._type()
            return self._leave(f"<{own} as {self.path(in_value=False)}>")
        raise _NotRust

    def _until_end(self, parse: Callable[[], str]) -> list[str]:
        found = []
        while not self._eat("E"):
            found.append(parse())
        return found

    def _generic(self) -> str:
        if self._eat("L"):
            self._base_62()
            return ""  # a lifetime
        return self._constant() if self._eat("K") else self._type()

    def _type(self) -> str:
        self._enter()
        tag = self._next()
        if tag in _RUST_BASIC:
            return self._leave(_RUST_BASIC[tag])
        if tag == "B":
            return self._leave(self._back(self._type))
        if tag == "A":
            item = self._type()
            return self._leave(f"[{item}; {self._constant()}]")
        if tag == "S":
            return self._leave(f"[{self._type()}]")
        if tag == "T":
            items = self._until_end(self._type)
            return self._leave(f"({', '.join(items)}{',' if len(items) == 1 else ''})")
        if tag in "RQ":
            self._optional("L")
            return self._leave(f"&{'mut ' if tag == 'Q' else ''}{self._type()}")
        if tag in "PO":
            return self._leave(f"*{'const' if tag == 'P' else 'mut'} {self._type()}")
        if tag == "F":
            return self._leave(self._function())
        if tag == "D":
            self._optional("G")
            traits = self._until_end(self._trait)
            if not self._eat("L"):
                raise _NotRust
            self._base_62()
            return self._leave(f"dyn {' + '.join(traits)}")
        self._at -= 1
        return self._leave(self.path(in_value=False))

    def _function(self) -> str:
        self._optional("G")
        words = "unsafe " if self._eat("U") else ""
        if self._eat("K"):
            language = "C" if self._eat("C") else self._identifier().replace("_", "-")
            words += f'extern "{language}" '
        takes = ", ".join(self._until_end(self._type))
        gives = self._type()
        return f"{words}fn({takes})" + (f" -> {gives}" if gives != "()" else "")

    def _trait(self) -> str:
        name = self.path(in_value=False)
        bound = []
        while self._eat("p"):
            associated = self._identifier()
            bound.append(f"{associated} = {self._type()}")
        if not bound:
            return name
        return f"{name[:-1]}, {', '.join(bound)}>" if name.endswith(">") else f"{name}<{', '.join(bound)}>"

    def _constant(self) -> str:
        self._enter()
        if self._eat("p"):
            return self._leave("_")
        if self._eat("B"):
            return self._leave(self._back(self._constant))
        kind = self._next()
        if kind not in "abchijlmnostxy":  # strings and structures are not supported
            raise _NotRust
        sign = "-" if self._eat("n") else ""
        end = self._text.index("_", self._at)
        value = int(self._text[self._at:end][:32] or "0", 16)
        self._at = end + 1
        if kind == "b":
            text = "true" if value else "false"
        else:
            text = repr(chr(value)) if kind == "c" and value < 0x110000 else f"{sign}{value}"
        return self._leave(f"{text}: {_RUST_BASIC[kind]}" if self._hashes else text)


def with_symbol(frame: NativeFrame, symbol: Symbol) -> NativeFrame:
    """A frame with the function, source line and inlined calls of a symbol."""
    function = public_name(symbol.function) if symbol.function else None
    found = replace(frame, function=function, file=symbol.file, line=symbol.line, inlined=symbol.inlined)
    return _as_in_source(found) if found.inlined else found


def _as_in_source(frame: NativeFrame) -> NativeFrame:
    """A frame whose inlined calls have the names that a person knows, without Cython's own helpers."""
    calls = [replace(call, function=cython_name(call.function, frame.module) or short_name(call.function))
             for call in frame.inlined if not call.function.startswith("__Pyx_")]
    # the body of a function is inlined into its wrapper, which has the same name
    if calls and calls[-1].function == cython_name(frame.function or "", frame.module):
        body = calls.pop()
        frame = replace(frame, file=body.file, line=body.line)
    return replace(frame, inlined=tuple(calls))
