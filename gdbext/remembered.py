"""Methods whose results their object keeps."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

_Method = TypeVar("_Method", bound=Callable[..., Any])


def remembered(method: _Method) -> _Method:
    """Have a method with positional arguments run once for each of them; if it raises, the next call tries again."""
    attribute = f"_results_of_{method.__name__}"

    @functools.wraps(method)
    def recall(self: Any, *args: Any) -> Any:
        results = self.__dict__.setdefault(attribute, {})
        if args not in results:
            results[args] = method(self, *args)
        return results[args]

    return cast(_Method, recall)
