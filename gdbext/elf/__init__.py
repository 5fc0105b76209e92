"""The reader of ELF: notes, core headers, exported symbols, symbol tables, build ids, loaded and mapped files."""
