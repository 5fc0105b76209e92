"""gdbext: explains hangs, deadlocks and crashes of programs that mix Python with native code.

GDB imports this package too, so the names below are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gdbext.launcher.api import Report, install_signal, install_watchdog, report

__version__ = "0.1.0"
__all__ = ["Report", "__version__", "install_signal", "install_watchdog", "report"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from gdbext.launcher import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
