"""Waits for the GPU, inside of the CUDA driver or AMD's HIP. They have no symbols, but export what programs call.

A thread waits there in a loop, or sleeps on a semaphore or a condition variable that a thread of the driver signals.
Neither says more than the name of the function. Confirmed with driver 580 and CUDA 13, PyTorch 2.11 and CuPy 14: also
cuLaunchKernel sleeps, when it loads the kernel's code and the GPU is busy.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Final

from gdbext.libraries.cuda import LIBRARY
from gdbext.locks.library_parts import LibraryWaits
from gdbext.locks.seen import SeenWait
from gdbext.model.reasons import because
from gdbext.threads.threads import SeenThread

#: A function of the driver, and one that returns when work of the GPU has ended, without the suffix for a version. A
#: copy without a stream waits for the work before it, and so does freeing memory.
_FUNCTION: Final = re.compile(r"^((?:cu|hip)[A-Z]\w*?)(?:_v\d+)?(?:_pt(?:sz|ds))?$")
_WAITS: Final = re.compile(
    r"^(?:(?:cu(?:Ctx|Stream|Event)|hip(?:Device|Stream|Event))Synchronize|(?:cu|hip)Memcpy(?!\w*Async)\w*|"
    r"cuMemFree|cuCtxDestroy|hipFree)$")
#: Most frames of one thread that are examined.
_MAX_FRAMES = 64


class Gpu(LibraryWaits):
    """The threads that wait for the GPU."""

    def find_wait(self, seen: SeenThread) -> SeenWait | None:
        """What a thread waits for that is inside of the driver, asleep or in a loop; None for any other thread."""
        if seen.unavailable is not None:
            return None
        function = self._called(seen.native(self._code)[:_MAX_FRAMES])
        waits_for_work = function is not None and _WAITS.match(function) is not None
        if function is None or seen.futex is None and not waits_for_work:
            return None
        return SeenWait(because("waits-for-gpu" if waits_for_work else "waits-in-cuda", function=function,
                                inside=self._in_host_functions))

    def _called(self, native: Sequence[tuple[int, int]]) -> str | None:
        """The function of the driver that the program has called; None if the thread is not in the driver."""
        at = next((i for i, (pc, _) in enumerate(native) if not self._is_helper(pc)), len(native))
        outer = next((i for i in range(at, len(native)) if not self._in_driver(native[i][0])), at)
        name = self._code.symbol(native[outer - 1][0], outer - 1).function if outer > at else None
        match = _FUNCTION.match(name) if name is not None else None
        return match[1] if match is not None else None

    def _is_helper(self, pc: int) -> bool:
        """Whether code is of the C library, or of the kernel, as that which returns the time."""
        module = self._code.module(pc)
        return self._sites.in_runtime(pc) or module is not None and module.name.startswith(("linux-vdso", "[vdso]"))

    @cached_property
    def _in_host_functions(self) -> tuple[int, ...]:
        """The threads of the driver that run functions of the program, for which the GPU may have to wait."""
        return tuple(seen.number for seen in self._threads if self._is_in_host_function(seen))

    def _is_in_host_function(self, seen: SeenThread) -> bool:
        if seen.unavailable is not None:
            return False
        # the driver has started the thread if it has the outermost frame outside of the C library
        own = [pc for pc, _ in seen.native(self._code) if not self._is_helper(pc)]
        return bool(own) and self._in_driver(own[-1]) and not all(map(self._in_driver, own))

    def _in_driver(self, pc: int) -> bool:
        module = self._code.module(pc)
        return module is not None and LIBRARY.has(module.name)


WAITS = Gpu
