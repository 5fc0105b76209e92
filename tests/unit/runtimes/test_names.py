from __future__ import annotations

import time

import pytest

from gdbext.runtimes.names import (
    cython_name,
    in_inline_namespace,
    public_name,
    rust_name,
    without_hashes,
    without_parameters,
)


@pytest.mark.parametrize(("name", "expected"), [
    ("pthread_mutex_lock", "pthread_mutex_lock"),
    ("__GI___pthread_mutex_lock", "pthread_mutex_lock"),
    ("___pthread_rwlock_wrlock", "pthread_rwlock_wrlock"),
    ("__pthread_cond_timedwait64", "pthread_cond_timedwait"),
    ("__GI___pthread_clockjoin_np", "pthread_clockjoin_np"),
    ("__mtx_lock", "mtx_lock"),
    ("__call_once_proxy", "call_once_proxy"),
    ("take_gil.lto_priv.0", "take_gil"),
    ("_PyEval_EvalFrameDefault.cold", "_PyEval_EvalFrameDefault"),
    ("work.constprop.0.isra.1", "work"),
    ("base64", "base64"),
    ("pthread_cond_timedwait64", "pthread_cond_timedwait64"),
    ("my_pthread_mutex_lock", "my_pthread_mutex_lock"),
    ("_PyMutex_LockTimed", "_PyMutex_LockTimed"),
    ("operator()", "operator()"),
    ("", ""),
])
def test_public_name(name: str, expected: str) -> None:
    assert public_name(name) == expected


@pytest.mark.parametrize(("name", "expected"), [
    ("bank::transfer::h0123456789abcdef", "bank::transfer"), ("bank::h0123", "bank::h0123"),
    ("<std[e28293b1aa0f68bd]::sys::Mutex>::lock", "<std::sys::Mutex>::lock"),
    ("table[12]", "table[12]"), ("std::array<int, 4>::at", "std::array<int, 4>::at"),
])
def test_hashes_of_rust_are_removed(name: str, expected: str) -> None:
    assert without_hashes(name) == expected


@pytest.mark.parametrize(("name", "expected"), [
    ("std::thread::join()", "std::thread::join"),
    ("(anonymous namespace)::f(int) const", "(anonymous namespace)::f"),
    ("a::operator()(int)", "a::operator()"),
    ("std::function<void (int)>::operator()(int) const", "std::function<void (int)>::operator()"),
    ("g(void (*)(int)) [clone .cold]", "g"),
    ("guard variable for get()::x", "guard variable for get()::x"),
    ("vtable for X", "vtable for X"),
    ("core::ops::function::FnOnce::call_once", "core::ops::function::FnOnce::call_once"),
    ("f)", "f)"),
    ("()", "()"),
    ("", ""),
])
def test_without_parameters(name: str, expected: str) -> None:
    assert without_parameters(name) == expected


@pytest.mark.parametrize(("mangled", "expected"), [
    ("_ZN4absl5Mutex4LockEv", "_ZN4absl7debian35Mutex4LockEv"),
    ("_ZN4absl7CondVar15WaitWithTimeoutEPNS_5MutexENS_8DurationE",
     "_ZN4absl7debian37CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE"),
    ("pthread_mutex_lock", "pthread_mutex_lock"),
])
def test_name_in_inline_namespace(mangled: str, expected: str) -> None:
    """The names are those of libabsl_synchronization.so.20220623 of Debian 12."""
    assert in_inline_namespace(mangled, "debian3") == expected


@pytest.mark.parametrize(("symbol", "module", "expected"), [
    ("__pyx_pw_8cholesky_1factor_batch", "cholesky.cpython-311-x86_64-linux-gnu.so", "cholesky.factor_batch"),
    ("__pyx_pf_8cholesky_factor_batch", "cholesky.so", "cholesky.factor_batch"),
    ("__pyx_f_8cholesky_factor_all._omp_fn.0", "cholesky.so", "cholesky.factor_all"),
    ("__pyx_pw_3pkg_3mod_1A_1__init__", "mod.so", "pkg.mod.A.__init__"),
    ("__pyx_pw_3pkg_3mod_5outer_1inner", "mod.so", "pkg.mod.outer.inner"),
    ("__pyx_f_3pkg_3mod_3cls_method", "mod.so", "pkg.mod.cls.method"),
    # a number that makes the symbol unique, not a class with a name of one letter
    ("__pyx_pw_3pkg_3mod_1f_x", "mod.so", "pkg.mod.f_x"),
    ("__pyx_pf_3pkg_3mod_2go_x", "mod.so", "pkg.mod.go_x"),
    ("__pyx_pf_3pkg_3mod_2Go_x", "mod.so", "pkg.mod.Go.x"),
    ("__pyx_fuse_0__pyx_pw_3mod_5scale", "mod.so", "mod.scale"),
    ("__pyx_gb_3mod_4generator", "mod.so", "mod.generator"),
    ("__pyx_pw_15View_dot_MemoryView_1__pyx_unpickle_Enum", "mod.so", "View.MemoryView.__pyx_unpickle_Enum"),
    ("__pyx_array___pyx_pf_15View_dot_MemoryView_5array_8__getattr__", "mod.so", "View.MemoryView.array.__getattr__"),
    ("__pyx_pw_8cholesky_1factor_batch", None, "cholesky.factor_batch"),
    ("__Pyx_PyObject_Call", "mod.so", None),
    ("__pyx_pw_99mod_f", "mod.so", None),
    ("__pyx_pw_0_f", "mod.so", None),
    ("__pyx_pw_3mod_", "mod.so", None),
    ("__pyx_pw_" + "9" * 5000, "mod.so", None),
    ("", None, None),
])
def test_cython_name(symbol: str, module: str | None, expected: str | None) -> None:
    assert cython_name(symbol, module) == expected


@pytest.mark.parametrize(("symbol", "expected"), [
    ("_RNvC6_123foo3bar", "123foo::bar"),
    ("_RINvNtC3std3mem8align_ofjE", "std::mem::align_of::<usize>"),
    ("_RNCNvC5crate4main0", "crate::main::{closure#0}"),
    ("_RNCNCNvC5crate4main00", "crate::main::{closure#0}::{closure#0}"),
    ("_RNvMsr_NtCs3ssYzQotkvD_3std4pathNtB5_7PathBuf3newCs15kBYyAo9fc_7mycrate", "<std::path::PathBuf>::new"),
    ("_RNvXs_C7mycrateNtB4_3FooNtB4_3Bar3baz", "<mycrate::Foo as mycrate::Bar>::baz"),
    ("_RINbNbCskIICzLVDPPb_5alloc5alloc8box_freeDINbNiB4_5boxed5FnBoxuEp6OutputuEL_ECs1iopQbuBiw2_3std",
     "alloc::alloc::box_free::<dyn alloc::boxed::FnBox<(), Output = ()>>"),
    ("_RMC0INtC8arrayvec8ArrayVechKj7b_E", "<arrayvec::ArrayVec<u8, 123>>"),
    ("_RINvC1a1fTRelEAhj4_Qb", None),
    ("_RINvC1a1fTRelEAhj4_QbE", "a::f::<(&str, i32), [u8; 4], &mut bool>"),
    ("_RINvC1a1fFUKCPhEuFlElE", 'a::f::<unsafe extern "C" fn(*const u8), fn(i32) -> i32>'),
    ("_RINvC1a1fKb1_Kc41_Kan5_E", "a::f::<true, 'A', -5>"),
    ("_RNvC4abcdu8gdel_5qa1f", "abcd::g\u00f6del"),
    ("_RNqCs4fqI2P2rA04_11utf8_identsu30____7hkackfecea1cbdathfdh9hlq6y",
     "utf8_idents::\u10e1\u10d0\u10ed\u10db\u10d4\u10da\u10d0\u10d3_"
     "\u10d2\u10d4\u10db\u10e0\u10d8\u10d4\u10da\u10d8_\u10e1\u10d0\u10d3\u10d8\u10da\u10d8"),
    ("_RNvC3job4work.llvm.1234", "job::work"),
    ("work", None),
    ("_R", None),
    ("_RNvC", None),
    ("_RNvC99job", None),
    ("_RB_", None),
    ("_RNvB_1f", None),
    ("_RIC3jobB_E", None),
    ("_RNvC3job\xff", None),
])
def test_rust_name(symbol: str, expected: str | None) -> None:
    assert rust_name(symbol) == expected


@pytest.mark.parametrize("symbol", [
    "_R" + "Nv" * 50_000,
    "_R" + "IC1a" + "S" * 50_000,
    "_RIC1a" + "h" * 50_000 + "E",
    # each tuple contains the previous one twice
    "_RIC1aThhE" + "".join(f"TB{i}_B{i}_E" for i in "3456789abcdefghijklmnopqrstuvwxyz") + "E",
    "_RNvC" + "9" * 50_000,
    "_RNvCs" + "z" * 50_000,
    "_RNvC1a" + "u4000" + "z" * 4000,
    "_RIC1aKj" + "f" * 50_000 + "_E",
])
def test_rust_name_when_symbol_is_malicious_is_bounded(symbol: str) -> None:
    started = time.process_time()
    name = rust_name(symbol)
    assert time.process_time() - started < 1
    assert name is None or len(name) <= 20_000
