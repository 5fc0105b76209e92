"""Where in a run-time library a thread waits: the library's functions on top of its stack, and their caller."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gdbext.inferior.protocol import Memory, Module
from gdbext.record import record
from gdbext.runtimes.names import public_name
from gdbext.threads.code import Code

#: Most frames that are examined; a blocking call is rarely more than five frames deep in a library.
MAX_DEPTH = 12
#: Libraries in which threads block on behalf of their callers.
_RUNTIME = re.compile(r"^(?:libc|libpthread|libdl|librt|ld-linux-(?:x86-64|aarch64)|libstdc\+\+|libc\+\+|libc\+\+abi|"
                      r"libgomp|libomp|libiomp5|libgcc_s|libtsan|libasan|liblsan|libubsan)(?:-[0-9a-f.]+)?\.so[.0-9]*$"
                      r"|^ld-2\.\d+\.so$")
#: The part of a C++ function's name that is left out.
_TEMPLATE = re.compile(r"[<(].*", re.DOTALL)


@record
class Site:
    """Where a thread waits.

    `functions` are public names of the run-time libraries' functions on top of its stack, innermost first: from
    symbols, and from the calls into the library. `caller` is the index of the first frame outside of these libraries,
    None if none of the examined frames is.
    """

    functions: tuple[str, ...]
    caller: int | None


NOWHERE = Site((), None)


class Sites:
    """Finds where threads wait; threads with equal stacks share the result.

    :param library: the files of the C library.
    :param musl: the file with musl if that is the C library: its code has no frame descriptions.
    """

    def __init__(self, memory: Memory, code: Code, library: Sequence[Module], musl: Module | None = None) -> None:
        self._memory = memory
        self._code = code
        self._library, self._musl = library, musl
        self._known: dict[tuple[int, ...], Site] = {}
        self._is_runtime: dict[str, bool] = {}

    def site(self, native: Sequence[tuple[int, int]]) -> Site:
        """Find where the thread with these native frames waits."""
        top = tuple([pc for pc, _ in native[:MAX_DEPTH]])
        known = self._known.get(top)
        if known is None:
            known = self._known[top] = self._find(top)
        return known

    def in_runtime(self, pc: int) -> bool:
        """Whether a program counter is in a run-time library."""
        module = self._code.module(pc)
        if module is None:
            return False
        if module is self._musl:  # possibly linked into the program
            return self._code.function_range(pc - 1) is None
        known = self._is_runtime.get(module.path)
        if known is None:
            known = any(module is part for part in self._library) or _RUNTIME.match(module.name) is not None
            self._is_runtime[module.path] = known
        return known

    def calling_module(self, native: Sequence[tuple[int, int]]) -> Module | None:
        """The file of the first frame outside of run-time libraries; None if there is none, or it is in no file."""
        outside = next((pc for pc, _ in native if not self.in_runtime(pc)), None)
        return self._code.module(outside) if outside is not None else None

    def _find(self, top: Sequence[int]) -> Site:
        names: list[str] = []
        for i, pc in enumerate(top):
            if i and (self._code.module(pc) is not self._code.module(top[i - 1]) or not self.in_runtime(pc)):
                # the name by which the calling module calls the library
                target = self._code.cpu.called(self._memory, pc)
                if target is not None:
                    self._add(names, self._code.symbol(target).function)
            if not self.in_runtime(pc):
                return Site(tuple(names), i)
            self._add(names, self._code.symbol(pc, i).function)
        return Site(tuple(names), None)

    @staticmethod
    def _add(names: list[str], name: str | None) -> None:
        if name is not None:
            short = _TEMPLATE.sub("", public_name(name))
            if short and short not in names:
                names.append(short)


def before_signal(memory: Memory, code: Code, native: Sequence[tuple[int, int]]) -> int:
    """Index of the frame from which a signal handler returns; the number of frames if none is called."""
    return next((i for i, (pc, _) in enumerate(native) if code.cpu.is_signal_return(memory, pc)), len(native))
