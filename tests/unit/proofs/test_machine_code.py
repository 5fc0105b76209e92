"""Code that is too large is unknown."""

from __future__ import annotations

import pytest

from gdbext.proofs import machine_code
from tests.support.flow_program import ARGUMENT, KEEP, STEP, Program


def test_helper_that_is_too_large_to_analyse_may_release_any_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_code, "_MAX_FUNCTION", 8 * STEP)
    large = "nop\n" * 10
    for end, expected in (("mov (%rdi),%rdi\ncall release\nret", set()), ("call other\nret", ARGUMENT)):
        program = Program(f=f"{KEEP}\ncall acquire\ncall large\nhere: call other\nret", large=large + end)
        assert program.held() == expected
