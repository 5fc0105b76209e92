"""A snapshot of one target: what it needs, without GDB and by one, and many of them at a time."""
