"""The object behind an operation of a process group (``c10d::Work``).

Source: PyTorch 2.13 torch/csrc/distributed/c10d/Work.hpp (Work, OpType).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import Final

from gdbext.errors import if_unreadable
from gdbext.inferior.cache import CachedMemory
from gdbext.libraries.torch.recorder import read_layouts
from gdbext.runtimes.libstdcxx import class_of

#: c10d::OpType by number.
_OPERATIONS: Final = (
    "broadcast", "all_reduce", "all_reduce_coalesced", "reduce", "all_gather", "all_gather_into_tensor",
    "all_gather_coalesced", "gather", "scatter", "reduce_scatter", "all_to_all_single", "all_to_all", "send", "recv",
    "recv from any", "barrier", "reduce_scatter_tensor", "coalesced operations", "all_reduce_sparse",
    "reduce_scatter_tensor_coalesced")
#: A class of ``c10d``, mangled, whose name has the word Work.
_CLASS: Final = re.compile(r"N?4c10d\d+\w*Work|N4c10d\d+\w+\d+\w*Work")
_TYPE = struct.Struct("<B")


@if_unreadable(None)
def awaited_operation(memory: CachedMemory, in_image: Callable[[int], bool], condition: int) -> str | None:
    """The operation whose end a condition variable announces; None if it is not that of a ``c10d::Work``.

    :param condition: ``pthread_cond_t *``.
    """
    for layout in read_layouts():
        work = condition - layout["Work.cv_"]
        name = class_of(memory, in_image, work)
        if name is not None and _CLASS.match(name):
            number, = memory.unpack(_TYPE, work + layout["Work.opType_"])
            return _OPERATIONS[number] if number < len(_OPERATIONS) else "an operation"
    return None
