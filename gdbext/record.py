"""Classes of values that are made once and only read afterwards.

A frozen dataclass that is cheaper to create. `dataclass` compiles six methods for each class, which for the classes
of this package took half of the time in which GDB loads it, and frozen instances take four times as long to make.
Here only ``__init__`` is compiled, when the first instance is made, because a report needs half of the classes. What
takes snapshots while a process is stopped, or in forks of a process, calls `compile_records` before. That
nothing is assigned afterwards is checked by type checkers, not at run time; values that are kept from one snapshot to
the next, such as layouts, are frozen dataclasses.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:
    def dataclass_transform(**_options: object) -> Any:
        """What `typing` has from Python 3.11 on; it only marks."""
        return lambda function: function

_Class = TypeVar("_Class")
_Fields = Mapping[str, "dataclasses.Field[Any]"]
_lock = threading.RLock()  # the fields of a base class are asked for meanwhile
# records without a compiled ``__init__``, and their fields
_waiting: dict[type, _Fields] = {}


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def record(cls: type[_Class]) -> type[_Class]:
    """Make a class with annotated fields as `dataclasses.dataclass` would; `fields` and `replace` work on it.

    Instances are equal if they are of one class and their fields are equal, except fields with ``compare=False``, and
    are hashable if those fields are.
    """
    made: Any = cls
    fields = _fields_of(cls)
    compared = [name for name, field in fields.items() if field.compare]
    # of a single field it gives no tuple, which makes no difference to equality and hash
    value = attrgetter(*compared) if compared else type
    shown = [name for name, field in fields.items() if field.repr]

    def __init__(self: object, *arguments: object, **named: object) -> None:
        _compile(made)
        made.__init__(self, *arguments, **named)

    def __eq__(self: object, other: object) -> bool:
        return value(self) == value(other) if self.__class__ is other.__class__ else NotImplemented

    def __hash__(self: object) -> int:
        return hash(value(self))

    def __repr__(self: object) -> str:
        return f"{self.__class__.__qualname__}({', '.join([f'{name}={getattr(self, name)!r}' for name in shown])})"

    _waiting[made] = fields
    made.__init__, made.__eq__, made.__hash__ = __init__, __eq__, __hash__
    made.__dataclass_fields__ = _FieldsLater(cls)
    if "__repr__" not in cls.__dict__:
        made.__repr__ = __repr__
    return cls


def compile_records() -> None:
    """Compile the constructors of all records of which there is no instance yet."""
    for cls in list(_waiting):
        _compile(cls)


def _compile(cls: Any) -> None:
    with _lock:
        fields = _waiting.pop(cls, None)
        if fields is not None:  # else another thread has compiled it
            cls.__init__ = _compiled_init(fields)


class _FieldsLater:
    """The ``__dataclass_fields__`` of a class until they are asked for: `dataclass` takes long to make them."""

    def __init__(self, cls: type) -> None:
        self._class = cls

    def __get__(self, instance: object, owner: type) -> Any:
        made: Any = self._class
        with _lock:
            if made.__dict__["__dataclass_fields__"] is self:
                dataclasses.dataclass(init=False, eq=False, repr=False)(made)
        return made.__dict__["__dataclass_fields__"]


def _fields_of(cls: type) -> _Fields:
    """The fields of a class, first those of its bases."""
    found: dict[str, dataclasses.Field[Any]] = {}
    for base in reversed(cls.__mro__):
        for name in base.__dict__.get("__annotations__", ()):
            default = base.__dict__.get(name, dataclasses.MISSING)
            found[name] = default if isinstance(default, dataclasses.Field) else dataclasses.field(default=default)
    return found


def _compiled_init(fields: _Fields) -> Callable[..., None]:
    """An ``__init__`` that assigns its arguments."""
    names: dict[str, Any] = {"_MISSING": dataclasses.MISSING}
    parameters, lines = ["self"], ["pass"]
    for name, field in fields.items():
        parameters.append(name)
        lines.append(f"self.{name} = {name}")
        if field.default is not dataclasses.MISSING:
            parameters[-1] += f"=_default_{name}"
            names[f"_default_{name}"] = field.default
        elif field.default_factory is not dataclasses.MISSING:
            parameters[-1] += "=_MISSING"
            lines[-1] += f" if {name} is not _MISSING else _make_{name}()"
            names[f"_make_{name}"] = field.default_factory
    exec(f"def __init__({', '.join(parameters)}):\n " + "\n ".join(lines), names)
    made: Callable[..., None] = names["__init__"]
    return made
