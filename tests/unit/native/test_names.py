from __future__ import annotations

import pytest

from gdbext.native.names import public_name, without_parameters


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
def test_name_without_parameters(name: str, expected: str) -> None:
    assert without_parameters(name) == expected
