"""The reader of debug information (DWARF 2 to 5): source lines, functions and inlined calls at an address."""
