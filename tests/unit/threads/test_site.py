from __future__ import annotations

import struct

import pytest

from gdbext.inferior.protocol import Module, Section
from gdbext.threads.code import read_code
from gdbext.threads.findings import Findings
from gdbext.threads.site import MAX_DEPTH, Site, Sites
from tests.support.fake_target import APP_TEXT, DRIVER_TEXT, LIBC_TEXT, FakeTarget

CXX_TEXT = 0x7C00_0001_0000


def site_of(target: FakeTarget, *pcs: int) -> Site:
    sites = Sites(target.memory, read_code(target, Findings()), target.loaded[2:3])
    return sites.site([(pc, 0) for pc in pcs])


def test_functions_are_those_of_the_library_up_to_its_caller() -> None:
    target = FakeTarget()
    target.name(LIBC_TEXT + 0x100, "__futex_abstimed_wait_common")
    target.name(LIBC_TEXT + 0x200, "__GI___pthread_mutex_lock")
    target.name(DRIVER_TEXT + 0x40, "drv_alloc")
    site = site_of(target, LIBC_TEXT + 0x100, LIBC_TEXT + 0x200, DRIVER_TEXT + 0x40, LIBC_TEXT + 0x300)
    assert site.caller == 2
    assert site.functions[-1] == "pthread_mutex_lock"
    assert "drv_alloc" not in site.functions


def test_function_without_a_symbol_has_the_name_that_it_is_called_by() -> None:
    target = FakeTarget()
    after, slot = DRIVER_TEXT + 0x40, DRIVER_TEXT + 0x800
    target.ram.ensure(DRIVER_TEXT, 0x1000)
    target.ram.write(after - 6, b"\xff\x15" + struct.pack("<i", slot - after))
    target.ram.u64(slot, LIBC_TEXT + 0x200)
    target.name(LIBC_TEXT + 0x200, "pthread_rwlock_wrlock")
    assert site_of(target, LIBC_TEXT + 0x100, LIBC_TEXT + 0x240, after) == Site(("pthread_rwlock_wrlock",), 2)


def test_functions_of_cplusplus_are_named_without_arguments() -> None:
    target = FakeTarget()
    target.loaded.append(Module("/lib/libstdc++.so.6.0.30", (Section(".text", CXX_TEXT, CXX_TEXT + 0x1000),)))
    target.name(CXX_TEXT + 0x10, "std::condition_variable::wait<Ready>(std::unique_lock<std::mutex>&, Ready)")
    site = site_of(target, CXX_TEXT + 0x10, APP_TEXT + 0x80)
    assert site == Site(("std::condition_variable::wait",), 1)


def test_program_that_waits_in_no_library() -> None:
    target = FakeTarget()
    target.name(APP_TEXT + 0x10, "spin")
    assert site_of(target, APP_TEXT + 0x10, LIBC_TEXT + 0x100) == Site((), 0)


def test_caller_that_is_too_far_out_is_not_known() -> None:
    target = FakeTarget()
    inner = [LIBC_TEXT + 0x10 * i for i in range(MAX_DEPTH)]
    assert site_of(target, *inner, APP_TEXT + 0x10).caller is None
    assert site_of(target, *inner[1:], APP_TEXT + 0x10).caller == MAX_DEPTH - 1


@pytest.mark.parametrize(("path", "is_runtime"), [
    ("/lib/libpthread.so.0", True), ("/lib/ld-2.31.so", True), ("/lib64/ld-linux-x86-64.so.2", True),
    ("/lib/libstdc++.so.6.0.30", True), ("/wheel/numpy.libs/libgomp-a34b3233.so.1.0.0", True),
    ("/lib/libtsan.so.2", True), ("/lib/libcrypto.so.3", False), ("/app/libcache.so", False),
    ("/app/libc", False), ("/app/my-libc.so.6", False)])
def test_runtime_libraries(path: str, is_runtime: bool) -> None:
    target = FakeTarget()
    target.loaded.append(Module(path, (Section(".text", CXX_TEXT, CXX_TEXT + 0x1000),)))
    assert Sites(target.memory, read_code(target, Findings()), ()).in_runtime(CXX_TEXT + 8) == is_runtime


def test_address_in_no_file_is_in_no_library() -> None:
    target = FakeTarget()
    assert not Sites(target.memory, read_code(target, Findings()), ()).in_runtime(0x1000)
