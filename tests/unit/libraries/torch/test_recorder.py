"""PyTorch's flight recorder in the memory of this process: that of a stand-in for its library."""

from __future__ import annotations

import ctypes
import os
import time

import pytest

from gdbext.errors import CorruptStructure
from gdbext.inferior.cache import CachedMemory
from gdbext.inferior.proc.maps import ProcessMemory
from gdbext.libraries.torch.recorder import VARIABLES, Recorder, read_layouts
from gdbext.model import Group
from tests.support import samples

#: How many operations the stand-in keeps.
ROOM = 8


class Library:
    """The stand-in, whose recorder lives as long as this process."""

    def __init__(self) -> None:
        self.loaded = ctypes.CDLL(str(samples.build("libtorch_cpu.so")))
        self.address = ctypes.c_uint64.in_dll(self.loaded, VARIABLES[0])

    def note(self, number: int, ended: bool, name: bytes = b"all_reduce", group: bytes = b"0",
             description: bytes = b"default_pg", count: int = 1000) -> None:
        self.loaded.note(group, description, name, ctypes.c_size_t(number), ctypes.c_int64(count), int(ended))

    def groups(self) -> dict[str, Group]:
        memory = CachedMemory(ProcessMemory(os.getpid()))
        return {group.name: group for group in Recorder(memory, self.address.value).groups()}


@pytest.fixture(name="library", scope="module")
def _library() -> Library:
    return Library()


def test_operations_of_two_groups(library: Library) -> None:
    began = time.time()
    for number in range(1, ROOM + 4):  # the oldest are overwritten
        library.note(number, ended=True)
    library.note(ROOM + 4, ended=False, name=b"reduce_scatter_tensor_coalesced", count=7)
    library.note(1, ended=False, group=b"1", description=b"undefined")
    library.loaded.note_ranks(b"1", b"undefined", (ctypes.c_uint64 * 2)(4, 2), ctypes.c_size_t(2))
    groups = library.groups()
    assert set(groups) == {"0", "1"}
    first, second = groups["0"], groups["1"]
    assert first.is_default
    assert (first.label, second.label) == ("default_pg", "group 1")
    assert first.members is None
    assert second.members == (4, 2)
    pending, = first.pending
    # a long name is not in the entry itself
    assert (pending.name, pending.number, pending.shape, pending.of, pending.backend) == (
        "reduce_scatter_tensor_coalesced", ROOM + 4, (7,), "float32", "gloo")
    assert pending.begun is not None
    assert began <= pending.begun <= time.time()
    assert first.last is not None
    assert (first.last.number, first.last.finished) == (ROOM + 3, True)
    assert (second.last, second.pending[0].number) == (None, 1)


def test_ring_that_has_just_come_round(library: Library) -> None:
    for number in range(ROOM + 2):
        library.note(100 + number, ended=True)
        groups = library.groups()
        assert groups["0"].last is not None
        assert groups["0"].last.number == 100 + number


@pytest.mark.parametrize("shift", [8, 64])
def test_memory_that_is_no_recorder(library: Library, shift: int) -> None:
    memory = CachedMemory(ProcessMemory(os.getpid()))
    with pytest.raises(CorruptStructure):
        Recorder(memory, library.address.value + shift)


def test_layouts_of_releases() -> None:
    layouts = read_layouts()
    assert len(layouts) >= 2
    for layout in layouts:
        inside = [offset for name, offset in layout.items() if name.startswith("Entry.") and name != "Entry.sizeof"]
        assert max(inside) < layout["Entry.sizeof"]
        assert len(set(inside)) == len(inside)
