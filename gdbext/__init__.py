"""gdbext: explains hangs, deadlocks and crashes of programs that mix Python with native code, inside GDB."""

__version__ = "0.1.0"
