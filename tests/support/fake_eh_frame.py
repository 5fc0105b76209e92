"""The bytes of ``.eh_frame`` and ``.eh_frame_hdr``, which describe how to unwind functions."""

from __future__ import annotations

import dataclasses
import struct

from gdbext.inferior.protocol import Section
from tests.support.fake_target import FakeTarget

# CFA = rsp + 8, return address at CFA - 8
INITIAL = b"\x0c\x07\x08\x90\x01"


def record(body: bytes, at: int) -> bytes:
    body += bytes(-(len(body) + 4) % 8)
    return struct.pack("<I", len(body)) + body


def cie(augmentation: bytes = b"zR", data: bytes = b"\x01\x1b", program: bytes = INITIAL,
        return_column: int = 16) -> bytes:
    return b"\0\0\0\0\x01" + augmentation + b"\0\x01\x78" + bytes([return_column]) + data + program


def describe_functions(target: FakeTarget, path: str, *starts: int, size: int = 0x100) -> None:
    """Add frame descriptions of functions to a loaded file, by which only the debugger can unwind them."""
    index, module = next((i, each) for i, each in enumerate(target.loaded) if each.path == path)
    head_at = (module.section(".text") or module.sections[0]).start + 0x40_0000
    frames_at = head_at + 0x1000
    frames = record(cie(b"zRS"), frames_at)
    table = []
    for start in sorted(starts):
        at = frames_at + len(frames)
        table.append((start - head_at, at - head_at))
        frames += record(struct.pack("<Iii", at + 4 - frames_at, start - (at + 8), size) + b"\0", at)
    head = b"\x01\x1b\x03\x3b" + struct.pack("<iI", frames_at - (head_at + 4), len(table))
    head += b"".join(struct.pack("<ii", *entry) for entry in table)
    target.ram.map(head_at, head)
    target.ram.map(frames_at, frames)
    target.loaded[index] = dataclasses.replace(module, sections=(
        *module.sections, Section(".eh_frame_hdr", head_at, head_at + len(head)),
        Section(".eh_frame", frames_at, frames_at + len(frames))))
