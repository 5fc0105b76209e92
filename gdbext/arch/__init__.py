"""All that knows a processor. `of` finds the package that implements `protocol.Architecture` for a target."""

from __future__ import annotations

from gdbext.arch.protocol import Architecture
from gdbext.errors import GdbextError


def of(name: str) -> Architecture:
    """The architecture of that name, as ``Target.architecture`` has it.

    :raises GdbextError: it is not decoded.
    """
    from gdbext.arch import x86_64

    if name != x86_64.NAME:
        raise GdbextError(f"the target's architecture is {name}", "only x86-64 is decoded so far")
    return x86_64
