"""Methods whose results their object keeps."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


def remembered(method: Callable[[Any, _Key], _Value]) -> Callable[[Any, _Key], _Value]:
    """Have a method with one argument run once for each argument; if it raises, the next call tries again."""
    attribute = f"_results_of_{method.__name__}"

    @functools.wraps(method)
    def recall(self: Any, key: _Key) -> _Value:
        results: dict[_Key, _Value] = self.__dict__.setdefault(attribute, {})
        if key not in results:
            results[key] = method(self, key)
        return results[key]

    return recall
