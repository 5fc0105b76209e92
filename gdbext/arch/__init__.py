"""The code that depends on the processor; `of` returns the implementation of `protocol.Architecture` for a target."""

from __future__ import annotations

import os

from gdbext.arch.protocol import Architecture
from gdbext.errors import GdbextError


def of(name: str) -> Architecture:
    """The architecture with a name such as ``Target.architecture``.

    :raises GdbextError: it is not supported.
    """
    from gdbext.arch import x86_64

    if name != x86_64.NAME:
        raise GdbextError(f"the target's architecture is {name}", "only x86-64 is decoded so far")
    return x86_64


def system_call_number(name: str) -> int | None:
    """The number of a system call on this machine; None if it is not known."""
    try:
        names = of(os.uname().machine).system_call_names()
    except GdbextError:
        return None
    return next((number for number, known in names.items() if known == name), None)
