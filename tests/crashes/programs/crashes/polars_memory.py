"""A vector of Rust that is larger than memory.

Truth: {"says": ["SIGABRT", "Rust ended the program because memory could not be allocated", "in [^:]*polars", "build at"], "never": "in std::|in alloc::", "packages": ["polars"]}
"""

import polars


def build(count):
    return polars.repeat(1, count, eager=True)


build(1 << 60)
