"""Operations of process groups in words."""

from __future__ import annotations

from gdbext.model import Operation


def operation_name(operation: Operation, group: str | None = None) -> str:
    """``all_reduce #6 of default_pg``."""
    number = f" #{operation.number}" if operation.number else ""
    if operation.peer is not None:
        return f"{operation.name} {'to' if operation.name == 'send' else 'from'} rank {operation.peer}"
    return f"{operation.name}{number}" + (f" of {group}" if group else "")


def tensor(operation: Operation) -> str:
    """The type and the sizes of what an operation works on; empty if not known."""
    sizes = f"({', '.join(map(str, operation.shape))})" if operation.shape else ""
    return " ".join(filter(None, (operation.of, sizes)))
