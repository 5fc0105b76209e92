"""How often `gdbext report` is right about programs that hang, and about healthy ones; docs/support.md shows it."""
