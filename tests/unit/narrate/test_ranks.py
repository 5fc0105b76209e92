"""The lines about a job of several ranks."""

from __future__ import annotations

from gdbext.narrate import ranks


def test_why_no_operation_is_recorded() -> None:
    assert ranks.how_known("recorded", ["libtorch_cpu.so"]).endswith("(recorded)")
    assert ranks.how_known("inferred").endswith("(inferred)")
    assert ranks.how_known("inferred", ["libtorch_cpu.so"]).endswith(
        ". A flight recorder is not found without the symbols that libtorch_cpu.so has lost")
