"""Structure layouts from the target's debug information, for an interpreter whose build has no table.

Tables of another build of the same version may be wrong: the configuration changes the offsets of members.
"""

from __future__ import annotations

from collections.abc import Mapping

import gdb

from gdbext.inferior.protocol import Module
from gdbext.layout.members import StructSpec
from gdbext.layout.table import Field, Struct

_INTEGERS = (gdb.TYPE_CODE_INT, gdb.TYPE_CODE_CHAR, gdb.TYPE_CODE_BOOL, gdb.TYPE_CODE_ENUM)


def read_structs(module: Module, anchor: str, specs: Mapping[str, StructSpec]) -> dict[str, Struct]:
    """Read structures from a module's debug information; empty if it has none.

    :param anchor: a function of the module. Its compilation unit is searched first, since another file in the process
        may have a structure of the same name from another version's headers.
    """
    block = _block(module, anchor)
    if block is None:
        return {}
    found = {}
    for name, spec in specs.items():
        kind = _find(spec.c_names, block)
        if kind is not None:
            fields = {}
            for member in spec.members:
                logical, _, paths = member.rpartition(" = ")
                field = _member(kind, (paths if logical else member).split(" | "))
                if field is not None:
                    fields[logical or member] = field
            if fields:
                found[name] = Struct(name, kind.sizeof, fields)
    return found


def _block(module: Module, anchor: str) -> gdb.Block | None:
    try:
        objfile: gdb.Objfile | None = gdb.lookup_objfile(module.path)
        symbol = objfile.lookup_global_symbol(anchor) if objfile is not None else None
        return symbol.symtab.static_block() if symbol is not None else None
    except (gdb.error, ValueError):
        return None


def _find(names: tuple[str, ...], block: gdb.Block) -> gdb.Type | None:
    for name in names:
        for spelling in (f"struct {name}", name):
            try:
                kind = gdb.lookup_type(spelling, block).strip_typedefs()
            except gdb.error:
                continue
            if kind.code in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION) and kind.fields():
                return kind
    return None


def _member(kind: gdb.Type, paths: list[str]) -> Field | None:
    for path in paths:
        at, current, bits = 0, kind, None
        for part in path.strip().split("."):
            step = _step(current, part)
            if step is None:
                break
            offset, current, bits = step
            at += offset
        else:
            return _field(at, current, bits)
    return None


def _step(kind: gdb.Type, name: str) -> tuple[int, gdb.Type, tuple[int, int] | None] | None:
    """Find (byte offset, type, bit field) of a member, also in anonymous structures and unions."""
    kind = kind.strip_typedefs()
    if kind.code not in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION):
        return None
    for field in kind.fields():
        position: int | None = getattr(field, "bitpos", None)  # None for enumerators and static members
        if position is None or field.type is None:
            continue
        if field.name == name:
            if field.bitsize:
                size = field.type.sizeof
                unit = position // (8 * size) * size
                return unit, field.type, (position - 8 * unit, field.bitsize)
            return position // 8, field.type, None
        if not field.name:
            inner = _step(field.type, name)
            if inner is not None:
                return position // 8 + inner[0], inner[1], inner[2]
    return None


def _field(offset: int, kind: gdb.Type, bits: tuple[int, int] | None) -> Field:
    kind = kind.strip_typedefs()
    # an atomic variable of CPython 3.6 to 3.12 is a structure with the single member `_value`
    if kind.code == gdb.TYPE_CODE_STRUCT and [field.name for field in kind.fields()] == ["_value"]:
        kind = kind.fields()[0].type.strip_typedefs()  # type: ignore[union-attr]
    signed = False
    if kind.code in _INTEGERS and bits is None:
        signed = int(gdb.Value(-1).cast(kind)) < 0
    return Field(offset, kind.sizeof, signed, bits)
