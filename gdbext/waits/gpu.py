"""Waits for the GPU, inside of the CUDA driver. It has no symbols, but exports the functions that programs call.

A thread waits there in a loop, or sleeps on a semaphore or a condition variable that a thread of the driver signals.
Neither says more than the name of the function. Confirmed with driver 580 and CUDA 13, PyTorch 2.11 and CuPy 14: also
cuLaunchKernel sleeps, when it loads the kernel's code and the GPU is busy.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from gdbext.model.kinds import CONDVAR, FUTEX, SEMAPHORE
from gdbext.model.reasons import because
from gdbext.threads.code import Code
from gdbext.threads.threads import SeenThread
from gdbext.waits.context import Context
from gdbext.waits.native import futex_wait
from gdbext.waits.seen import SeenWait

_DRIVER: Final = re.compile(r"^libcuda\.so\b")
#: A function of the driver, and one that returns when work of the GPU has ended, without the suffix for a version.
_FUNCTION: Final = re.compile(r"^(cu[A-Z]\w*?)(?:_v\d+)?(?:_pt(?:sz|ds))?$")
_WAITS: Final = re.compile(r"^cu(?:Ctx|Stream|Event)Synchronize$")
#: Most frames of one thread that are examined.
_MAX_FRAMES = 64


def gpu_wait(seen: SeenThread, context: Context) -> SeenWait | None:
    """A thread's wait for the GPU: asleep, or in a loop."""
    if seen.unavailable is not None or not any(_DRIVER.match(module.name) for module in context.code.modules):
        return None
    native = seen.native(context.code)[:_MAX_FRAMES]
    function = _called(native, context)
    if function is None or seen.futex is None and not _WAITS.match(function):
        return None
    wait = futex_wait(seen, context) if seen.futex is not None else None
    if wait is not None and (wait.lock is None or wait.lock.kind not in (CONDVAR, SEMAPHORE, FUTEX)):
        return wait  # for a lock of the driver, which a thread of the process may have
    inside = tuple(other.number for other in context.threads if _is_in_host_function(other, context))
    waits_for_work = _WAITS.match(function) is not None
    return SeenWait(because("waits-for-gpu" if waits_for_work else "waits-in-cuda", function=function, inside=inside))


def _called(native: Sequence[tuple[int, int]], context: Context) -> str | None:
    """The function of the driver that the program has called; None if the thread is not in the driver."""
    at = next((i for i, (pc, _) in enumerate(native) if not _is_helper(pc, context)), len(native))
    outer = next((i for i in range(at, len(native)) if not _in_driver(context.code, native[i][0])), at)
    name = context.code.symbol(native[outer - 1][0], outer - 1).function if outer > at else None
    match = _FUNCTION.match(name) if name is not None else None
    return match[1] if match is not None else None


def _is_helper(pc: int, context: Context) -> bool:
    """Whether code is of the C library, or of the kernel, as that which returns the time."""
    module = context.code.module(pc)
    return context.sites.in_runtime(pc) or module is not None and module.name.startswith(("linux-vdso", "[vdso]"))


def _is_in_host_function(seen: SeenThread, context: Context) -> bool:
    """Whether a thread of the driver runs a function of the program, for which work of the GPU may have to wait."""
    if seen.unavailable is not None:
        return False
    # the driver has started the thread if it has the outermost frame outside of the C library
    own = [pc for pc, _ in seen.native(context.code) if not context.sites.in_runtime(pc)]
    return bool(own) and _in_driver(context.code, own[-1]) and not all(_in_driver(context.code, pc) for pc in own)


def _in_driver(code: Code, pc: int) -> bool:
    module = code.module(pc)
    return module is not None and _DRIVER.match(module.name) is not None
