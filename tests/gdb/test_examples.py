"""The output in README.md and docs/ is what the commands print today."""

from __future__ import annotations

import pytest

from tests.support import examples

EXAMPLES = examples.examples_by_program()


def test_every_program_is_in_a_document() -> None:
    assert EXAMPLES.keys() == examples.PROGRAMS.keys()


@pytest.mark.parametrize("program", EXAMPLES)
def test_blocks_show_the_output_of_today(program: str) -> None:
    made = examples.output(program, EXAMPLES[program])
    for path in examples.documents():
        text = path.read_text(encoding="utf-8")
        for example, begin, end in examples.blocks(text):
            if example.program == program:
                assert examples.comparable(text[begin:end]) == examples.comparable(made[example]), (
                    f"{path.name} is out of date; run scripts/examples --write")
