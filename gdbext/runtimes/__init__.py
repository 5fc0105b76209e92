"""Decoders of run-time libraries other than CPython and the C library: libgomp, libstdc++, Rust, other Pythons."""
