from __future__ import annotations

import pytest

from gdbext.narrate.greeting import greeting
from gdbext.narrate.words import Foreign
from gdbext.render.plain_text import one_line


@pytest.mark.parametrize(("crashed", "command"), [(True, "py-crash"), (False, "py-deadlocks")])
def test_greeting_has_three_lines(crashed: bool, command: str) -> None:
    lines = [one_line(words) for words in greeting("core\x1b\nb", ("found ", Foreign("\x1b")), crashed)]
    assert lines[0] == "core\\x1b\\x0ab: found \\x1b"
    assert lines[1].startswith(f"{command} explains it, ")
    assert lines[2] == "help gdbext lists all commands"
    assert len(lines) == 3
