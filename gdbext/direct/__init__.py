"""Targets that gdbext reads itself, without a debugger."""
