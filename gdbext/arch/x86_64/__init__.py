"""x86-64: instructions, calls through linkage tables, signal frames, unwinding."""
