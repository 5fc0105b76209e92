"""Extensions of the processor that an instruction needs, by its prefix."""

from __future__ import annotations

#: Prefixes that change how an instruction works, and those of instructions that older processors lack. Sources: Intel
#: SDM volume 2, 2.1 and 2.3.6; Intel APX specification 3.1.2.
_LEGACY = frozenset(b"\x66\xf2\xf3\x2e\x36\x3e\x26\x64\x65\x67\xf0")
_EXTENSIONS = {0x62: "EVEX: AVX-512 or AVX10", 0xC4: "VEX: AVX, AVX2 or FMA", 0xC5: "VEX: AVX or AVX2",
               0xD5: "REX2: APX"}


def extension(data: bytes) -> str | None:
    """The extension of the processor that an instruction needs, as its prefix says; None without such a prefix.

    :param data: the code from the instruction on.
    """
    first = next((byte for byte in data if byte not in _LEGACY), None)
    return _EXTENSIONS.get(first) if first is not None else None
