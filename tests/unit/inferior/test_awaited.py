"""What system calls wait for, from arguments and made-up memory."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gdbext.errors import MemoryUnreadable
from gdbext.inferior.awaited import POLLFD, AwaitedChild, decode_awaited_child, read_polled, read_selected


class Bytes:
    """Memory that begins at some addresses."""

    def __init__(self, pieces: dict[int, bytes]) -> None:
        self._pieces = pieces

    def read(self, address: int, size: int) -> bytes:
        if len(self._pieces.get(address, b"")) < size:
            raise MemoryUnreadable(address, size)
        return self._pieces[address][:size]


def test_poll_waits_in_the_direction_of_its_events() -> None:
    data = b"".join(POLLFD.pack(*each, 0) for each in ((3, 1), (-1, 1), (4, 4), (5, 5), (6, 0)))
    assert read_polled((0x1000, 5, 0), Bytes({0x1000: data}).read) == [
        (3, "read"), (4, "write"), (5, "write"), (5, "read"), (6, "read")]


@pytest.mark.parametrize(("count", "expected"), [(0, []), (1 << 32, []), (2, None), (5000, None)])
def test_poll_without_descriptors_or_memory(count: int, expected: list[tuple[int, str]] | None) -> None:
    assert read_polled((0x1000, count, 0), Bytes({0x1000: bytes(8)}).read) == expected
    assert read_polled((0x1000, 1, 0), lambda address, size: None) is None


def test_select_has_three_sets() -> None:
    read = Bytes({0x1000: b"\x09", 0x2000: b"\x02", 0x3000: b"\x84"}).read
    assert read_selected((3, 0x1000, 0x2000, 0x3000), read) == [(0, "read"), (1, "write"), (2, "read")]
    assert read_selected((3, 0, 0x2000, 0), read) == [(1, "write")]
    assert read_selected((0, 0x1000, 0, 0), read) == []
    assert read_selected((1 << 20, 0, 0, 0), read) == []
    assert read_selected((3, 0x4000, 0, 0), read) is None
    assert read_selected((5000, 0x1000, 0, 0), read) is None


@pytest.mark.parametrize(("name", "arguments", "expected"), [
    ("wait4", (77,), AwaitedChild("process", 77)), ("wait4", (0xFFFFFFFF,), AwaitedChild("any", 0)),
    ("wait4", (0,), AwaitedChild("group", 0)), ("wait4", (0xFFFFFFB3,), AwaitedChild("group", 77)),
    ("waitid", (0, 0), AwaitedChild("any", 0)), ("waitid", (1, 77), AwaitedChild("process", 77)),
    ("waitid", (2, 77), AwaitedChild("group", 77)), ("waitid", (2, 0), AwaitedChild("group", 0)),
    ("waitid", (3, 5), AwaitedChild("pidfd", 5))])
def test_awaited_child(name: str, arguments: Sequence[int], expected: AwaitedChild) -> None:
    assert decode_awaited_child(name, arguments) == expected
