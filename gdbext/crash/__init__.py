"""Crashes: the fault, its pointers, abort messages, broken rules of the Python API, threads that may have raced."""
