"""No message sends the reader to a file that only a checkout has: a wheel contains the package alone."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import gdbext

PACKAGE = Path(gdbext.__file__).resolve().parent
CHECKOUT_ONLY = re.compile(r"\b(docs|scripts|tests)/\w|\b(README|gdbinit\.example|pyproject)\b")


def texts(tree: ast.AST) -> Iterator[str]:
    """The string constants except docstrings."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        yield from texts(node)


def test_texts_have_no_docstrings() -> None:
    code = '"""docs/a"""\ndef f():\n    """docs/b"""\n    hint = f"{f} see docs/c"\n'
    assert list(texts(ast.parse(code))) == [" see docs/c"]
    assert CHECKOUT_ONLY.search(" see docs/c")


@pytest.mark.slow
def test_no_message_names_a_file_of_the_checkout() -> None:
    assert not (PACKAGE / "docs").exists()
    named = {str(path.relative_to(PACKAGE)): found for path in sorted(PACKAGE.rglob("*.py"))
             if (found := [text for text in texts(ast.parse(path.read_text("utf-8"))) if CHECKOUT_ONLY.search(text)])}
    assert named == {}
