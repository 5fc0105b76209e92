"""Reads `members.json`: every structure and member that decoders ask for, with its home in the C sources.

`scripts/gen_layouts.py` makes the tables from it. Tests check that each member is in some table, and that no decoder
asks for one that is not listed. A member that a version does not have is absent from that version's table: decoders
ask ``Struct.__contains__``.

A member is written as the C path below the structure (``ceval.gil``); a step into an array goes to its first
element. A name to the left of ``=`` is what decoders call it when the path differs between versions; the alternatives
are tried in order.
"""

from __future__ import annotations

import functools
import json
import os
from typing import NamedTuple


class StructSpec(NamedTuple):
    """One structure: the tags or typedefs under which DWARF knows it, and the members asked for."""

    c_names: tuple[str, ...]
    members: tuple[str, ...]
    home: str


@functools.cache
def read_specs(runtime: str) -> dict[str, StructSpec]:
    """The structures of ``cpython``, ``glibc``, ``libgomp`` or ``numpy``, by the names that decoders use."""
    with open(os.path.join(os.path.dirname(__file__), "members.json"), encoding="utf-8") as file:
        structs = json.load(file)[runtime]
    return {name: StructSpec(tuple(found["c_names"]), tuple(found["members"]), found["home"])
            for name, found in structs.items()}
