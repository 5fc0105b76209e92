"""What tests of editors share: a program, and the files in docs/editors.md."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.support.interpreters import CHECKOUT

#: Code without a file, a variable with a non-ASCII value, and values that look like others.
PROGRAM = '''\
import json, os


def hang():
    text, number, quoted = "na\\u00efve", 42, 'a "word"'
    thread = {"tid": os.getpid(), "python_name": "MainThread", "blocked": True, "syscall": "read", "stack": []}
    print(json.dumps({"sample": "dap", "variant": "", "pid": os.getpid(), "threads": {"main": thread},
                      "locks": {}, "deadlock": [], "stuck_behind": []}), flush=True)
    os.read(0, 1)


exec(compile("\\nhang()", "made.py", "exec"))
'''


def configurations() -> list[dict[str, Any]]:
    """The files of JSON in docs/editors.md, in its order."""
    text = (CHECKOUT / "docs" / "editors.md").read_text(encoding="utf-8")
    return [json.loads(block) for block in re.findall(r"^```json\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)]
