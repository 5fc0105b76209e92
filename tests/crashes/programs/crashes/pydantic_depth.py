"""A thread with a small stack validates a deep value; the extension has no symbols.

Truth: {"says": ["SIGSEGV", "the stack is used up, 64 KiB", "recursion: \\d+ native frames; \\d+ times", "check at"], "packages": ["pydantic_core"]}
"""

import threading

from pydantic_core import SchemaValidator

item = {"type": "definition-ref", "schema_ref": "node"}
validator = SchemaValidator({"type": "definitions", "schema": item, "definitions": [
    {"type": "list", "ref": "node", "items_schema": item}]})


def check():
    value = []
    for _ in range(240):
        value = [value]
    validator.validate_python(value)


threading.stack_size(64 << 10)
thread = threading.Thread(target=check)
thread.start()
thread.join()
