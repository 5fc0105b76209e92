"""Names of native functions as people know them."""

from __future__ import annotations

import re

# glibc names one function several times (`__GI___pthread_mutex_lock`, `___pthread_rwlock_wrlock`); debuggers show
# whichever comes first
_INTERNAL = re.compile(r"^_*(?:GI_)?_*(?=(?:pthread|sem|mtx|cnd|thrd|call_once)_)")
# what may follow the parameters of a demangled name
_QUALIFIERS = re.compile(r"(?: const| volatile| &&?| noexcept|\[abi:\w+\]| \[clone [^\]]*\]| \(\.[\w.]+\))+$")
_SUFFIX = re.compile(r"(?:\.(?:lto_priv|constprop|isra|part|cold)(?:\.\d+)*)+$")


def public_name(name: str) -> str:
    """The public name of a C library function, compiler suffixes taken off; any other name as it is."""
    plain = _SUFFIX.sub("", name.partition("@")[0])  # symbol versions: `pthread_cond_wait@@GLIBC_2.3.2`
    plain = plain[5:] if plain.startswith("__GI_") else plain  # glibc's own name of what it exports
    public = _INTERNAL.sub("", plain)
    # `pthread_cond_timedwait64` is the same function where time_t has 64 bits anyway
    return public[:-2] if public != plain and public.endswith("64") else public


def without_parameters(name: str) -> str:
    """A demangled C++ or Rust name as debuggers show it: without the types of its parameters.

    ``std::thread::join()`` -> ``std::thread::join``; ``(anonymous namespace)::f(int) const`` ->
    ``(anonymous namespace)::f``. A name without parameters is returned as it is.
    """
    plain = _QUALIFIERS.sub("", name)
    if not plain.endswith(")"):
        return name
    depth = 0
    for i in range(len(plain) - 1, -1, -1):
        depth += (plain[i] == ")") - (plain[i] == "(")
        if depth == 0:
            return plain[:i] or name
    return name
