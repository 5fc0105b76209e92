"""Fixtures that several of the tests with GDB share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import cores, interpreters, samples
from tests.support.samples import Sample


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sample]:
    """A native program deadlocked over two locks taken in opposite order."""
    with samples.abba("rwlock", tmp_path_factory.mktemp("abba")) as sample:
        yield sample


@pytest.fixture(scope="module")
def kernel_core(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Sample]]:
    """A kernel core of a deadlock between the GIL and a rwlock, and the program, which has ended."""
    python, _ = interpreters.use(interpreters.ANY)
    with samples.rapids(python, "rwlock", tmp_path_factory.mktemp("rapids")) as sample:
        yield cores.kernel_core(sample), sample
