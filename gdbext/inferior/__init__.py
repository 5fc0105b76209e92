"""The process or core: the Memory and Target protocols, pages of memory, mappings, /proc. A Target need not be GDB."""
