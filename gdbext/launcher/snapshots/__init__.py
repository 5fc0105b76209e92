"""A snapshot of one target by one GDB: what it needs, how it runs, and many of them at a time."""
