"""Names of C++ and Rust functions."""

from __future__ import annotations

import ctypes
import time

import pytest

from gdbext.direct import demangle as module
from gdbext.direct.demangle import demangle, function_name

CXX = {
    "_ZNSt6thread4joinEv": "std::thread::join()",
    "_ZN12_GLOBAL__N_14restEi": "(anonymous namespace)::rest(int)",
    "_ZTI5Shape": "typeinfo for Shape",
}
RUST = {
    "_ZN4core3ops8function6FnOnce9call_once17h0123456789abcdefE": "core::ops::function::FnOnce::call_once",
    "_ZN71_$LT$Test$u20$$u2b$$u20$$u27$static$u20$as$u20$foo..Bar$LT$Test$GT$$GT$3bar17h930b740aa94f1d3aE":
        "<Test + 'static as foo::Bar<Test>>::bar",
    "_ZN3std2rt10lang_start28_$u7b$$u7b$closure$u7d$$u7d$17h0123456789abcdefE.llvm.12":
        "std::rt::lang_start::{{closure}}",
}


@pytest.mark.parametrize("name", CXX)
def test_cxx_name_is_demangled(name: str) -> None:
    assert demangle(name) == CXX[name]


@pytest.mark.parametrize("name", RUST)
def test_rust_name_is_demangled_without_its_hash(name: str) -> None:
    assert demangle(name) == RUST[name]


def test_function_name_has_neither_parameters_nor_version() -> None:
    assert function_name("_ZNSt6thread4joinEv@@GLIBCXX_3.4.11") == "std::thread::join"
    assert function_name("_ZN12_GLOBAL__N_14restEi") == "(anonymous namespace)::rest"


@pytest.mark.parametrize("name", ["main", "_RNvC6_123foo3bar", "_Z", "_ZN", "_Zé", "_Z" + "N" * 100_000, "_ZN3a b",
                                  "_ZN99x17h0123456789abcdefE", "_ZN0x17h0123456789abcdefE"])
def test_other_name_is_unchanged(name: str) -> None:
    assert demangle(name) == name
    assert function_name(name) == name


def test_time_for_a_name_with_many_numbers_is_bounded() -> None:
    name = "_ZN" + "1a2bc" * 800 + "17h0123456789abcdeE"
    before = time.process_time()
    assert demangle(name) == name
    assert time.process_time() - before < 1


def test_no_name_stays_none() -> None:
    assert function_name(None) is None


def test_without_the_cxx_library_names_are_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str | None) -> object:
        raise OSError(name)

    module._cxx_demangler.cache_clear()
    monkeypatch.setattr(ctypes, "CDLL", missing)
    try:
        assert demangle("_ZNSt6thread4joinEv") == "_ZNSt6thread4joinEv"
    finally:
        module._cxx_demangler.cache_clear()
