"""The verb `completion`: what makes shells complete verbs and options of `gdbext`."""

from __future__ import annotations

import argparse
import sys

from gdbext.launcher.status import NOTHING_FOUND

NAME = "completion"
HELP = "completion for a shell"
DESCRIPTION = "Prints what makes bash or zsh complete verbs, options, processes and files of `gdbext`."
EXAMPLES = """\
examples:
  gdbext completion bash > ~/.local/share/bash-completion/completions/gdbext
  gdbext completion zsh > "${fpath[1]}/_gdbext"
  source <(gdbext completion bash)      in this shell only"""

_BASH = """\
# bash completion of gdbext
_gdbext() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}} verb=${{COMP_WORDS[1]}} options=
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        mapfile -t COMPREPLY < <(compgen -W '{verbs}' -- "$word")
        return
    fi
    case $verb,$before in
{choices}
    esac
    case $verb in
{options}
    esac
    case $before in
        --sysroot|--search|--state) mapfile -t COMPREPLY < <(compgen -d -- "$word"); return ;;
    esac
    case $word in
        -*) mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word") ;;
        [0-9]*) mapfile -t COMPREPLY < <(cd /proc && compgen -W '[0-9]*' -- "$word"; compgen -f -- "$word") ;;
        *) mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
    esac
}}
complete -o filenames -F _gdbext gdbext
"""
_ZSH = """\
#compdef gdbext
# zsh completion of gdbext
_gdbext() {{
    local -a verbs
    verbs=(
{verbs}
    )
    if (( CURRENT == 2 )); then
        _describe verb verbs
        return
    fi
    case $words[2] in
{cases}
    esac
}}
_gdbext "$@"
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the verb understands."""
    parser.add_argument("shell", choices=("bash", "zsh"))


def run(options: argparse.Namespace) -> int:
    """Print it."""
    from gdbext.launcher.cli import parser

    verbs = verbs_of(parser())
    sys.stdout.write(bash(verbs) if options.shell == "bash" else zsh(verbs))
    return NOTHING_FOUND


def verbs_of(parser: argparse.ArgumentParser) -> dict[str, tuple[str, list[argparse.Action]]]:
    """Of each verb what it is for, and its arguments."""
    action = next(found for found in parser._actions if isinstance(found, argparse._SubParsersAction))
    helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
    return {name: (helps.get(name, ""), verb._actions) for name, verb in action.choices.items()}


def bash(verbs: dict[str, tuple[str, list[argparse.Action]]]) -> str:
    """What bash sources."""
    choices, options = [], []
    for name, (_, actions) in verbs.items():
        for action in actions:
            if action.choices and action.option_strings:
                words = " ".join(map(str, action.choices))
                flags = "|".join(f"{name},{flag}" for flag in action.option_strings)
            elif action.choices:
                words, flags = " ".join(map(str, action.choices)), f"{name},{name}"
            else:
                continue
            choices.append(f"        {flags}) mapfile -t COMPREPLY < <(compgen -W '{words}' -- \"$word\"); return ;;")
        flags = " ".join(flag for action in actions for flag in action.option_strings)
        options.append(f"        {name}) options='{flags}' ;;")
    return _BASH.format(verbs=" ".join(verbs), choices="\n".join(choices), options="\n".join(options))


def zsh(verbs: dict[str, tuple[str, list[argparse.Action]]]) -> str:
    """What zsh loads."""
    described = "\n".join(f"        {_quoted(f'{name}:{text}')}" for name, (text, _) in verbs.items())
    cases = []
    for name, (_, actions) in verbs.items():
        lines = [f"        {name}) shift words; (( CURRENT-- )); _arguments -s \\"]
        for place, action in enumerate([action for action in actions if not action.option_strings], 1):
            number = "*" if action.nargs in ("*", "+") else f"{place}:" if action.nargs == "?" else str(place)
            lines.append(f"            {_quoted(f'{number}:{action.dest}:{_completer(action)}')} \\")
        for action in actions:
            text = (action.help or "").replace("[", "(").replace("]", ")").replace(":", " -")
            for flag in action.option_strings:
                value = "" if action.nargs == 0 else f":{action.metavar or action.dest}:{_completer(action)}"
                again = "*" if isinstance(action, argparse._AppendAction) else ""
                lines.append(f"            {_quoted(f'{again}{flag}[{text}]{value}')} \\")
        cases.append("\n".join([*lines, "            ;;"]).replace(" \\\n            ;;", " ;;"))
    return _ZSH.format(verbs=described, cases="\n".join(cases))


def _completer(action: argparse.Action) -> str:
    if action.choices:
        return f"({' '.join(map(str, action.choices))})"
    if action.dest in ("sysroot", "search", "state"):
        return "_files -/"
    return "{_pids; _files}" if action.dest == "target" else "_files"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
