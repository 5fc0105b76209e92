"""Decoders of glibc's lock structures, `struct pthread` and futex waits. Nothing here knows of Python."""
