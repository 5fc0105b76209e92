from __future__ import annotations

import pytest

from gdbext.inferior.protocol import Module, Section
from gdbext.musl.version import find_musl
from tests.support.fake_memory import FakeMemory

AT = 0x7F00_0000_0000


def found(path: str, text: bytes, is_main: bool = False) -> str | None:
    module = Module(path, (Section(".rodata", AT, AT + len(text)),), is_main)
    musl = find_musl(FakeMemory({AT: text}), [module])
    return musl.name if musl is not None else None


@pytest.mark.parametrize(("path", "text", "name"), [
    ("/lib/ld-musl-x86_64.so.1", b"\0/dev\0001.2.3\0more", "musl 1.2.3"),
    ("/lib/libc.musl-x86_64.so.1", b"\0no version\0", "musl"),
    ("/lib/ld-musl-aarch64.so.1", b"\x001.2.3\0x\x001.1.24\0", "musl")])
def test_shared_musl_is_found_by_its_file(path: str, text: bytes, name: str) -> None:
    assert found(path, text) == name


def test_static_musl_is_found_by_its_texts() -> None:
    assert found("/app", b"x\0No error information\0Illegal byte sequence\0Domain error\0", True) == "musl"
    assert found("/app", b"x\0Success\0Operation not permitted\0", True) is None
    assert found("/lib/libother.so", b"No error information\0Illegal byte sequence\0") is None
