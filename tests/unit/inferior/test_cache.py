from __future__ import annotations

import random

import pytest

from gdbext.errors import MemoryUnreadable
from gdbext.inferior import cache
from gdbext.inferior.cache import PAGE, CachedMemory, read_cstring, read_u32, read_u64
from tests.support.fake_memory import FakeMemory, noise

BASE = 0x7F00_0000_0000


def test_read_returns_the_same_bytes_as_without_a_cache() -> None:
    data = noise(80 * PAGE, 1)
    plain, under = FakeMemory({BASE: data}), FakeMemory({BASE: data})
    cached = CachedMemory(under)
    chooser = random.Random(2)
    for _ in range(2000):
        address = BASE + chooser.randrange(80 * PAGE)
        size = min(chooser.choice([0, 1, 8, 100, PAGE, 3 * PAGE, 70 * PAGE]), BASE + 80 * PAGE - address)
        assert cached.read(address, size) == plain.read(address, size), (hex(address), size)


def test_read_fetches_each_page_once() -> None:
    under = FakeMemory({BASE: bytes(4 * PAGE)})
    cached = CachedMemory(under)
    for at in range(BASE, BASE + PAGE, 8):
        cached.read(at, 8)
    assert under.reads == [(BASE, PAGE)]
    cached.read(BASE + PAGE - 4, 8)
    assert len(under.reads) == 2


def test_read_over_several_pages_makes_one_read() -> None:
    under = FakeMemory({BASE: bytes(8 * PAGE)})
    CachedMemory(under).read(BASE + 10, 5 * PAGE)
    assert under.reads == [(BASE, 6 * PAGE)]


def test_prefetch_makes_one_read() -> None:
    under = FakeMemory({BASE: bytes(8 * PAGE)})
    cached = CachedMemory(under)
    cached.prefetch(BASE + 100, 3 * PAGE)
    assert under.reads == [(BASE, 4 * PAGE)]
    for page in range(4):
        cached.read(BASE + page * PAGE, PAGE)
    cached.prefetch(BASE, 4 * PAGE)
    assert len(under.reads) == 1


def test_prefetch_when_unreadable_is_ignored() -> None:
    cached = CachedMemory(FakeMemory({BASE: bytes(PAGE)}))
    cached.prefetch(BASE, 4 * PAGE)
    cached.prefetch(0, 2 * PAGE)
    cached.prefetch(BASE, 1 << 40)
    cached.prefetch(BASE, -5)
    assert cached.read(BASE, 8) == bytes(8)


def test_read_when_large_bypasses_the_cache() -> None:
    under = FakeMemory({BASE: bytes(200 * PAGE)})
    cached = CachedMemory(under)
    assert len(cached.read(BASE, 100 * PAGE)) == 100 * PAGE
    assert under.reads == [(BASE, 100 * PAGE)]


@pytest.mark.parametrize(("address", "size"), [
    (BASE - 8, 8), (BASE - 4, 8), (BASE + 2 * PAGE, 1), (BASE + 2 * PAGE - 4, 8), (BASE - PAGE, 4 * PAGE), (0, 8),
    (1 << 64, 8), ((1 << 64) - 4, 8), (-8, 8), (-8, 16),
])
def test_read_when_unreadable_raises(address: int, size: int) -> None:
    cached = CachedMemory(FakeMemory({BASE: bytes(2 * PAGE)}))
    for _ in range(2):
        with pytest.raises(MemoryUnreadable):
            cached.read(address, size)


@pytest.mark.parametrize("address", [BASE, BASE + 100, BASE + PAGE - 2])
@pytest.mark.parametrize("size", [-1, -100, -PAGE, -(1 << 40)])
def test_read_when_size_is_negative_raises(address: int, size: int) -> None:
    with pytest.raises(MemoryUnreadable):
        CachedMemory(FakeMemory({BASE: bytes(2 * PAGE)})).read(address, size)


def test_unreadable_pages_are_read_once() -> None:
    calls = []

    class Counting(FakeMemory):
        def read(self, address: int, size: int) -> bytes:
            calls.append((address, size))
            return super().read(address, size)

    cached = CachedMemory(Counting())
    for _ in range(5):
        with pytest.raises(MemoryUnreadable):
            cached.read(BASE, 8)
    assert calls.count((BASE, PAGE)) == 1


def test_read_when_page_is_partial_returns_its_bytes() -> None:
    # in a core, a section may end within a page
    cached = CachedMemory(FakeMemory({BASE + 0x100: b"x" * 0x200}))
    assert cached.read(BASE + 0x100, 0x200) == b"x" * 0x200
    assert cached.read(BASE + 0x2F8, 8) == b"x" * 8
    with pytest.raises(MemoryUnreadable):
        cached.read(BASE + 0x2F9, 8)
    with pytest.raises(MemoryUnreadable):
        cached.read(BASE + 0xF8, 8)


def test_read_over_two_partial_pages() -> None:
    cached = CachedMemory(FakeMemory({BASE + PAGE - 16: b"ab" * 16}))
    assert cached.read(BASE + PAGE - 16, 32) == b"ab" * 16
    assert cached.read(BASE + PAGE - 2, 4) == b"abab"


def test_number_of_cached_pages_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_MAX_PAGES", 10)
    under = FakeMemory({BASE: bytes(range(256)) * 16 * 50})
    cached = CachedMemory(under)
    for page in range(50):
        assert cached.read(BASE + page * PAGE + 5, 2) == b"\x05\x06"
        assert len(cached._pages) <= 10
    cached.prefetch(BASE, 8 * PAGE)
    assert len(cached._pages) <= 10


def test_read_u32_and_u64() -> None:
    memory = FakeMemory({BASE: bytes(range(1, 17))})
    assert read_u32(memory, BASE) == 0x04030201
    assert read_u64(memory, BASE + 8) == 0x100F0E0D0C0B0A09
    assert read_u32(FakeMemory({BASE: b"\xff" * 4}), BASE) == 0xFFFFFFFF


@pytest.mark.parametrize("start", [0, 1, 60, 63, 64])
@pytest.mark.parametrize("length", [0, 1, 3, 4, 63, 64, 65, 255])
def test_read_cstring_at_any_alignment(start: int, length: int) -> None:
    data = bytes(start) + b"x" * length + b"\0" + bytes(128)
    assert read_cstring(FakeMemory({BASE: data}), BASE + start) == b"x" * length


def test_read_cstring_when_unterminated_is_truncated() -> None:
    memory = FakeMemory({BASE: b"x" * 1000})
    assert read_cstring(memory, BASE) == b"x" * 256
    assert read_cstring(memory, BASE, 10) == b"x" * 10
    assert read_cstring(memory, BASE, 0) == b""


def test_read_cstring_at_the_end_of_memory() -> None:
    # reads stop at the block of 64 bytes that contains the end of the string
    memory = FakeMemory({BASE: b"x" * 62 + b"y\0"})
    assert read_cstring(memory, BASE + 60) == b"xxy"
    with pytest.raises(MemoryUnreadable):
        read_cstring(FakeMemory({BASE: b"x" * 64}), BASE)
