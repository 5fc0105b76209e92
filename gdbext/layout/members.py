"""Reads `members.json`: every structure and member that decoders use, with its place in the C sources.

`scripts/gen_layouts.py` generates the tables from it. Tests check that each member is in some table, and that decoders
use only listed members. If a version lacks a member, so does its table: decoders check with ``Struct.__contains__``.

A member is a C path below the structure (``ceval.gil``); a step into an array goes to its first element. If the path
differs between versions, the decoders' name for the member is to the left of ``=``, and the alternatives on the right
are tried in order.
"""

from __future__ import annotations

import functools
import json
import os
from typing import NamedTuple


class StructSpec(NamedTuple):
    """A structure: its tags or typedefs in DWARF, the members that decoders use, and its source file."""

    c_names: tuple[str, ...]
    members: tuple[str, ...]
    home: str


@functools.cache
def read_specs(runtime: str) -> dict[str, StructSpec]:
    """The structures of ``cpython``, ``glibc``, ``libgomp`` or ``numpy``, by the decoders' names."""
    with open(os.path.join(os.path.dirname(__file__), "members.json"), encoding="utf-8") as file:
        structs = json.load(file)[runtime]
    return {name: StructSpec(tuple(found["c_names"]), tuple(found["members"]), found["home"])
            for name, found in structs.items()}
