"""The code that depends on the processor; `of` returns the implementation of `protocol.Architecture` for a target."""

from __future__ import annotations

import os

from gdbext.arch.protocol import Architecture
from gdbext.errors import GdbextError


def of(name: str) -> Architecture:
    """The architecture with a name such as ``Target.architecture``.

    :raises GdbextError: it is not supported.
    """
    # each module is large, and a report needs only one
    if name == "x86_64":
        from gdbext.arch import x86_64

        return x86_64
    if name == "aarch64":
        from gdbext.arch import aarch64

        return aarch64
    raise GdbextError(f"the target's architecture is {name}", "only x86-64 and arm64 are decoded")


def system_call_number(name: str) -> int | None:
    """The number of a system call on this machine; None if it is not known."""
    try:
        names = of(os.uname().machine).system_call_names()
    except GdbextError:
        return None
    return next((number for number, known in names.items() if known == name), None)
