"""Classes of values that are made once and only read afterwards.

A frozen dataclass that is cheaper to create. `dataclass` compiles six methods for each class, which for the classes
of this package took half of the time in which GDB loads it, and frozen instances take four times as long to make.
Here only ``__init__`` is compiled. That nothing is assigned afterwards is checked by type checkers, not at run time;
values that are kept from one snapshot to the next, such as layouts, are frozen dataclasses.
"""

from __future__ import annotations

import dataclasses
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:
    def dataclass_transform(**_options: object) -> Any:
        """What `typing` has from Python 3.11 on; it only marks."""
        return lambda function: function

_Class = TypeVar("_Class")


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def record(cls: type[_Class]) -> type[_Class]:
    """Make a class with annotated fields as `dataclasses.dataclass` would; `fields` and `replace` work on it.

    Instances are equal if they are of one class and their fields are equal, except fields with ``compare=False``, and
    are hashable if those fields are.
    """
    made: Any = dataclasses.dataclass(eq=False, repr=False)(cls)
    fields = dataclasses.fields(made)
    compared = [field.name for field in fields if field.compare]
    # of a single field it gives no tuple, which makes no difference to equality and hash
    value = attrgetter(*compared) if compared else type
    shown = [field.name for field in fields if field.repr]

    def __eq__(self: object, other: object) -> bool:
        return value(self) == value(other) if self.__class__ is other.__class__ else NotImplemented

    def __hash__(self: object) -> int:
        return hash(value(self))

    def __repr__(self: object) -> str:
        return f"{self.__class__.__qualname__}({', '.join([f'{name}={getattr(self, name)!r}' for name in shown])})"

    made.__eq__, made.__hash__ = __eq__, __hash__
    if "__repr__" not in cls.__dict__:
        made.__repr__ = __repr__
    return cls
