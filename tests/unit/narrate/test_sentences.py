"""Only narrate/ contains sentences about a report; renderers and commands contain none."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import gdbext

HOME = Path(gdbext.__file__).resolve().parent
MODULES = [str(path.relative_to(HOME)) for folder in ("render", "commands")
           for path in sorted(HOME.glob(f"{folder}/*.py"))]
#: Texts that look like such sentences but are not: the beginning of each, by module.
EXCEPTIONS: dict[str, tuple[str, ...]] = {
    # about missing or newer files and libraries of the reader's own machine
    "render/html.py": ("default-src 'none'; base-uri",),
    "render/source.py": (" is newer than the ", ": its lines may differ", " more source files are newer",
                         "; `help set gdbext source-path`", " MiB) is reached: lines of"),
    "render/style.py": ("pygments cannot be imported", "); source has no colour"),
    # parts of an error message
    "commands/lock_owner.py": (", held or waited for", "the memory does not match"),
}
_WORD = re.compile(r"[A-Za-z][a-z']+(?=[\s,.;:?!)]|$)")
#: Calls whose arguments describe a command, and arguments that do so in any call.
_DESCRIBES, _DESCRIBING = {"Command", "Option", "add_argument"}, {"help", "description", "usage", "epilog"}


def sentences(tree: ast.AST) -> Iterator[str]:
    """The string constants with at least four words, except docstrings, help texts and error messages."""
    for node in ast.iter_child_nodes(tree):
        name = getattr(node.func, "attr", getattr(node.func, "id", "")) if isinstance(node, ast.Call) else ""
        docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        described = name in _DESCRIBES or (isinstance(node, ast.keyword) and node.arg in _DESCRIBING)
        if docstring or described or isinstance(node, ast.Raise):
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            is_help = "\n\nUsage: " in node.value
            if len(_WORD.findall(node.value)) >= 4 and not is_help:
                yield node.value
        yield from sentences(node)


def found_in(module: str) -> list[str]:
    return list(sentences(ast.parse((HOME / module).read_text(encoding="utf-8"))))


@pytest.mark.parametrize("module", MODULES)
def test_no_sentences_outside_narrate(module: str) -> None:
    assert [text for text in found_in(module) if not text.startswith(EXCEPTIONS.get(module, ("\0",)))] == []


@pytest.mark.parametrize("module", EXCEPTIONS)
def test_exceptions_are_still_needed(module: str) -> None:
    texts = found_in(module)
    assert [start for start in EXCEPTIONS[module] if not any(text.startswith(start) for text in texts)] == []


def test_what_counts_as_a_sentence() -> None:
    code = ('"""Docstring of a module here."""\nraise Error("what is wrong with it")\nf(help="what it does for you")\n'
            'a = "not four words"\nb = f"thread {n} waits for the lock"\nc = "the lock is held by"')
    assert list(sentences(ast.parse(code))) == [" waits for the lock", "the lock is held by"]
