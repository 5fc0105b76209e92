"""The output in README.md and docs/ is what the commands print today."""

from __future__ import annotations

import pytest

from tests.support import examples

DOCUMENTS = examples.documents()
COMMANDS = {program: sorted({command for found in DOCUMENTS.values() for name, command in found if name == program})
            for program in sorted({program for found in DOCUMENTS.values() for program, _ in found})}


def test_every_program_is_in_a_document() -> None:
    assert set(COMMANDS) == set(examples.PROGRAMS)


@pytest.mark.parametrize("program", COMMANDS)
def test_blocks_show_the_output_of_today(program: str) -> None:
    made = dict(zip(COMMANDS[program], examples.output(program, COMMANDS[program])))
    for path in DOCUMENTS:
        text = path.read_text(encoding="utf-8")
        for name, command, begin, end in examples.blocks(text):
            if name == program:
                assert examples.comparable(text[begin:end]) == examples.comparable(made[command]), (
                    f"{path.name} is out of date; run scripts/examples --write")


def test_another_word_is_a_difference() -> None:
    block = "    (gdb) gil-holder\n    GIL held by thread 1 (LWP 10)\n"
    assert examples.comparable(block) == examples.comparable(block.replace("LWP 10", "LWP 11"))
    assert examples.comparable(block) != examples.comparable(block.replace("held", "free"))
