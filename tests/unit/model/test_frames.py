from __future__ import annotations

import pytest

from gdbext.model import PyFrame
from gdbext.model.frames import library_of


@pytest.mark.parametrize(("file", "library"), [
    ("/usr/lib/python3.11/queue.py", "queue"), ("/usr/lib/python3.11/asyncio/tasks.py", "asyncio"),
    ("<frozen importlib._bootstrap>", "importlib"), ("/usr/lib/python312.zip/json/decoder.py", "json"),
    ("/v/lib/python3.11/site-packages/flask/app.py", "flask"), ("/v/lib64/python3.9/site-packages/six.py", "six"),
    ("/srv/app.py", None), ("/srv/lib/app.py", None), ("<stdin>", None), ("app.py", None), ("", None)])
def test_library_of_a_frame(file: str, library: str | None) -> None:
    assert library_of(PyFrame("f", "f", file, 1)) == library
