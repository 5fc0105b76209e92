"""Only narrate/ contains sentences about a report; renderers and commands contain none."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import gdbext

HOME = Path(gdbext.__file__).resolve().parent
MODULES = [str(path.relative_to(HOME)) for folder in ("render", "commands", "launcher")
           for path in sorted(HOME.glob(f"{folder}/**/*.py"))]
#: Texts that look like such sentences but are not: the beginning of each, by module.
EXCEPTIONS: dict[str, tuple[str, ...]] = {
    # about missing or newer files and libraries of the reader's own machine
    "render/html.py": ("default-src 'none'; base-uri",),
    "render/source.py": (" is newer than the ", ": its lines may differ", " more source files are newer",
                         "; `help set gdbext source-path`", " MiB) is reached: lines of"),
    "render/style.py": ("pygments cannot be imported", "); source has no colour"),
    # parts of an error message
    "commands/lock_owner.py": (", held or waited for", "the memory does not match"),
    "launcher/cluster/remote.py": ("the snapshot ended with ", "gdbext is not installed for ",
                                   "run `pip install", "from __future__ import", "import sys; sys.path"),
    "launcher/snapshots/classes.py": ("its report cannot be read: ", "install the same version"),
    "launcher/snapshots/containers.py": ("files of another container, read",),
    "launcher/snapshots/elf.py": ("only x86-64 and arm64 are decoded",),
    "launcher/snapshots/server.py": ("import sys; sys.path",),
    "launcher/snapshots/finding.py": ("install one that has Python inside", "python\nimport json", '" + json.dumps('),
    # about the program, test or command that was started, not about a report
    "launcher/api.py": ("gdbext.launcher.watching.on_s",), "launcher/pytest_plugin.py": ("",),
    "launcher/verbs/run.py": (
        "has done nothing for ", "gdbext run: the page is ", "gdbext run: its core is ", "; its largest process used ",
        ": the kernel has killed ", " since then because memory", ": by a process, not by the kernel"),
    "launcher/watching/deadlines.py": ("",), "launcher/watching/helper.py": ("import sys; sys.path",),
    "launcher/verbs/dask.py": (" is not a Dask scheduler, or",),
    # every text is about the reader's own machine and files
    "launcher/kernel_cores.py": ("",),
    "launcher/snapshots/cores.py": ("",), "launcher/snapshots/rights.py": ("",), "launcher/verbs/doctor.py": ("",),
    "launcher/verbs/install.py": ("",),
    # commands of GDB and of a shell
    "launcher/snapshots/by_gdb.py": ("set ", "python ", "py-threads-locks", "Operation not permitted"),
    "launcher/verbs/attach.py": ("set auto-load", "set gdbext "),
    "launcher/verbs/completion.py": ("_gdbext_pids() {",),
}
_WORD = re.compile(r"[A-Za-z][a-z']+(?=[\s,.;:?!)]|$)")
#: Calls whose arguments describe a command, and arguments that do so in any call.
_DESCRIBES = {"Command", "Option", "add_argument", "add_argument_group"}
_DESCRIBING = {"help", "description", "usage", "epilog"}
#: Calls that make or print an error of one line, or a note on how a target was read; and names that hold one.
_ERRORS = {"GdbextError", "UsageError", "Unreadable", "TooSlow", "NoGdb", "Unanswered", "Failure", "Finding", "say"}
_ERROR_TEXTS = {"problem", "hint", "DESCRIPTION", "EXAMPLES", "_DESCRIPTION", "_EXAMPLES", "HELP"}


def sentences(tree: ast.AST) -> Iterator[str]:
    """The string constants with at least four words, except docstrings, help texts and error messages."""
    for node in ast.iter_child_nodes(tree):
        name = getattr(node.func, "attr", getattr(node.func, "id", "")) if isinstance(node, ast.Call) else ""
        docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        described = name in _DESCRIBES | _ERRORS or (isinstance(node, ast.keyword) and node.arg in _DESCRIBING)
        if docstring or described or isinstance(node, ast.Raise) or _is_error_text(node):
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            is_help = "\n\nUsage: " in node.value
            if len(_WORD.findall(node.value)) >= 4 and not is_help:
                yield node.value
        yield from sentences(node)


def _is_error_text(node: ast.AST) -> bool:
    """Whether an assignment is to a name that holds the text of an error or of a help page."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AugAssign) else []
    return any(getattr(target, "attr", getattr(target, "id", "")) in _ERROR_TEXTS for target in targets)


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
            'x.problem = "its machine does not answer"\nsay("what went wrong with it")\n'
            'a = "not four words"\nb = f"thread {n} waits for the lock"\nc = "the lock is held by"')
    assert list(sentences(ast.parse(code))) == [" waits for the lock", "the lock is held by"]
