"""The verb `completion`: scripts of shtab that make shells complete verbs and options of `gdbext`."""

from __future__ import annotations

import argparse
from typing import Any

from gdbext.errors import MissingLibrary
from gdbext.launcher.output import write
from gdbext.launcher.status import NOTHING_FOUND
from gdbext.render.escape import cleaned

NAME = "completion"
HELP = "completion for a shell"
DESCRIPTION = "Prints a script that makes bash or zsh complete verbs, options, processes and files of `gdbext`."
EXAMPLES = """\
examples:
  gdbext completion bash > ~/.local/share/bash-completion/completions/gdbext
  gdbext completion zsh > "${fpath[1]}/_gdbext"
  source <(gdbext completion bash)      in this shell only"""

_PIDS = {"bash": "_gdbext_pids", "zsh": "_pids"}
_PIDS_AND_FILES = {"bash": "_gdbext_pids_and_files", "zsh": "{_pids; _files}"}
_PREAMBLE = """\
_gdbext_pids() {
  compgen -W "$(cd /proc && echo [0-9]*)" -- $1
}

_gdbext_pids_and_files() {
  _gdbext_pids $1
  compgen -f -- $1
}
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the verb."""
    parser.add_argument("shell", choices=("bash", "zsh"))


def run(options: argparse.Namespace) -> int:
    """Print the script."""
    write(cleaned(script(options.shell)))
    return NOTHING_FOUND


def script(shell: str) -> str:
    """The completion script of a shell.

    :raises MissingLibrary: shtab is not installed.
    """
    from gdbext.launcher.cli import parser

    try:
        import shtab
    except ImportError as error:
        raise MissingLibrary(f"completion needs shtab, which cannot be imported: {error}",
                             "pip install shtab") from None
    made = parser(brief=True)
    completers = {"FILE": shtab.FILE, "EXECUTABLE": shtab.FILE, "ADDRESS": shtab.FILE, "DIR": shtab.DIRECTORY,
                  "PID": _PIDS, "PID|CORE": _PIDS_AND_FILES, "DIR|CORE|PID": _PIDS_AND_FILES}
    verbs = next(action for action in made._actions if isinstance(action, argparse._SubParsersAction))
    actions: list[Any] = [action for verb in verbs.choices.values() for action in verb._actions]
    for action in actions:
        if action.metavar in completers:
            action.complete = completers[action.metavar]
    return str(shtab.complete(made, shell, preamble=_PREAMBLE if shell == "bash" else ""))
