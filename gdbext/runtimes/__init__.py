"""Decoders of run-time libraries besides CPython and the C library: libgomp, libstdc++, Rust, other Pythons."""
