"""How tests/ itself is built: who imports whom, what has a test file, which combinations run at each commit."""

from __future__ import annotations

from tests.support import combinations, interpreters, samples

TARGETS = ("live", "gcore", "kernel-core")


def test_a_covering_part_has_every_lock_and_target_with_every_interpreter() -> None:
    names, variants = interpreters.MAIN_NAMES, samples.RAPIDS_VARIANTS
    cases = combinations.covering(names, variants, TARGETS)
    assert len(cases) == len(names) * len(variants)
    assert {case[:2] for case in cases} == {(name, variant) for name in names for variant in variants}
    assert {case[::2] for case in cases} == {(name, target) for name in names for target in TARGETS}
    # and each lock is seen on each target, with interpreters that have symbols and with some that have none
    for stripped in (True, False):
        assert {case[1:] for case in cases if case[0].endswith("-stripped") == stripped} == {
            (variant, target) for variant in variants for target in TARGETS}
