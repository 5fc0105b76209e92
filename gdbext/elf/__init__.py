"""The one reader of ELF: notes, core headers, exported symbols, symbol tables, build ids, mapped files."""
