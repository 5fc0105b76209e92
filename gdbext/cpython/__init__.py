"""Decoders of CPython's runtime state: interpreters, thread states, GIL, frames, objects."""
