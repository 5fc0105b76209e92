"""The code of functions: bytecode, lines, loops, `with` blocks, and which locks it acquires."""
