"""Why a thread died: fault, pointers, abort messages, rules of the Python API, other threads that may have raced."""
