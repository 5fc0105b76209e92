"""Everything that talks to GDB; nothing outside this folder imports the `gdb` module."""
