"""Damaged memory and files: a part of what `scripts/fuzz` does, for some seconds.

In CI, and if GDBEXT_LONG is set, for three minutes.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from gdbext.inferior.protocol import Memory
from tests.support import combinations, fuzzing, gdb_session
from tests.support.fuzz_decoders import Call, DecoderSeed
from tests.support.fuzz_gdb import GdbSeed, end_gdb
from tests.support.fuzz_seeds import FEW, HANGS, seeds
from tests.support.fuzzing import FileSeed, Fuzzed, Image, Seed

#: Seconds for damage that is the same at each commit, and for new damage.
FIXED, FRESH = (120.0, 60.0) if combinations.LONG or "CI" in os.environ else (8.0, 4.0)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Fuzzed]]:
    names = HANGS if combinations.LONG else FEW
    with seeds(tuple(names), tmp_path_factory.mktemp("fuzz"), ("memory", "decoders")) as memory, seeds(
            ("abba-stripped",), tmp_path_factory.mktemp("fuzz-files"), ("files", "gdb")) as files:
        if not memory:
            pytest.skip("no core could be made")
        yield [*memory, *files]


@pytest.mark.parametrize("damage", ["fixed", "fresh"])
def test_damage_makes_no_exception_and_no_invalid_report(found: Sequence[Fuzzed], damage: str) -> None:
    number = 1 if damage == "fixed" else random.SystemRandom().randrange(1_000_000_000)
    made = fuzzing.run(found, number, 1_000_000, FIXED if damage == "fixed" else FRESH)
    assert made.images > 10
    assert {kind: f"{image.as_json()}\n{what}" for kind, (image, what) in made.failures.items()} == {}, (
        f"scripts/fuzz --seed {number}")


def test_undamaged_seeds_have_their_reports(found: Sequence[Fuzzed]) -> None:
    """The checks see a whole report: of most seeds one with a deadlock."""
    memory = [seed for seed in found if isinstance(seed, Seed)]
    assert [seed.check(Image(seed.name, "undamaged")) for seed in found] == [None] * len(found)
    assert sum(bool(seed.healthy.deadlocks) for seed in memory) >= len(memory) // 2
    assert all(seed.healthy.threads for seed in memory)


def test_damage_is_noticed(found: Sequence[Fuzzed]) -> None:
    """Damaged memory changes reports, so a run without failures means something."""
    reports = [seed for seed in found if isinstance(seed, (Seed, FileSeed))]
    fuzzing.run(reports, 2, 8 * len(reports), 30.0)
    assert sum(seed._check.different for seed in reports) > len(reports) * 2


def test_mistakes_of_gdbext_are_found(found: Sequence[Fuzzed], monkeypatch: pytest.MonkeyPatch) -> None:
    def mistaken(_target: object, budget: object) -> None:
        raise IndexError("list index out of range")

    def endless(_target: object, budget: object) -> None:
        while True:
            pass

    image = found[0].image("1.1")
    decoder = next(seed for seed in found if isinstance(seed, DecoderSeed))
    monkeypatch.setattr(fuzzing, "take_snapshot", mistaken)
    assert (found[0].check(image) or "").startswith("IndexError: list index")
    monkeypatch.setattr(fuzzing, "take_snapshot", endless)
    monkeypatch.setattr(fuzzing, "LONGEST", 0.1)
    assert (found[0].check(image) or "").startswith("Overtime: more than 0.1 s")

    def careless(memory: Memory, address: int) -> int:
        return [0][memory.read(address, 1)[0]]

    address = next(address for address, page in decoder._memory._pages.items() if page and not page[0])
    monkeypatch.setattr(decoder, "calls", [Call(careless, [decoder._memory, address])])
    wrong = [decoder.check(decoder.image(f"1.{number}")) or "" for number in range(20)]
    assert sum(each.startswith("IndexError: list index") for each in wrong) > 5


@pytest.mark.parametrize(("script", "said", "is_failure"), [
    ("echo a warning >&2; exit 3", "GDB ended with exit status 3\na warning\n", False),
    ("kill -SEGV $$", "GDB ended with signal 11 (Segmentation fault)\n", False),
    ("echo 'Traceback (most recent call last):' >&2; echo KeyError >&2; exit 1",
     "GDB ended with exit status 1\nTraceback (most recent call last):\nKeyError\n", True),
])
def test_how_gdb_ended_is_written(found: Sequence[Fuzzed], script: str, said: str, is_failure: bool, tmp_path: Path,
                                  monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "gdb"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    seed = next(seed for seed in found if isinstance(seed, GdbSeed))
    end_gdb()
    monkeypatch.setattr(gdb_session, "executable", lambda: str(program))
    assert seed.check(Image(seed.name, "1.1")) == (said if is_failure else None)
    assert capsys.readouterr().err == f"{seed.name} 1.1: {said}\n"


def test_failure_is_reduced_to_the_change_that_matters() -> None:
    image = Image("seed", "1.1", [(at, b"\0" * 8) for at in range(0, 800, 8)], [0x1000], {(1, "rip"): 0})
    smaller = fuzzing.minimised(image, lambda other: (80, b"\0" * 8) in other.patches and 0x1000 in other.gone)
    assert smaller.parts() == [(80, b"\0" * 8), 0x1000]
    assert Image.of_json(json.loads(json.dumps(smaller.as_json()))) == smaller
