"""Bytecode of any version of CPython, made from the names of its instructions."""

from __future__ import annotations

from gdbext.layout.opcodes import Opcodes


def assemble(known: Opcodes, *instructions: tuple[str, int]) -> bytes:
    """The bytes of instructions, given as names and arguments, with their caches."""
    numbers = {name: number for number, name in sorted(known.names.items(), reverse=True)}
    return b"".join(bytes((numbers[name], argument)) + bytes(2 * known.caches.get(name, 0))
                    for name, argument in instructions)
