"""What scripts/fuzz reports of its worker processes."""

from __future__ import annotations

import argparse
import os
import signal
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Callable

import pytest

from tests.support.fuzzing import Image
from tests.support.interpreters import CHECKOUT


def script() -> ModuleType:
    spec = spec_from_loader("fuzz", SourceFileLoader("fuzz", str(CHECKOUT / "scripts" / "fuzz")))
    assert spec is not None
    assert spec.loader is not None
    made = module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def end_by_exception() -> None:
    raise LookupError("a mistake of the worker")


def end_by_signal() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def hang() -> None:
    signal.pause()


class Mistaken:
    """A seed whose first check does not return."""

    name, layer = "mistaken", "memory"

    def __init__(self, end: Callable[[], None]) -> None:
        self._end = end

    def image(self, number: str) -> Image:
        return Image(self.name, number)

    def check(self, image: Image) -> str | None:
        if image.number.endswith(".0"):
            self._end()
        return None


@pytest.mark.parametrize(("end", "kind", "words"), [
    (end_by_exception, "died", ("exit status 1", "LookupError: a mistake of the worker", "in end_by_exception")),
    (end_by_signal, "died", ("signal 11 (Segmentation fault)", "in end_by_signal")),
    (hang, "hang", ("signal 15 (Terminated)", "in hang")),
])
def test_end_of_a_worker_is_reported_with_its_traceback(end: Callable[[], None], kind: str, words: tuple[str, ...],
                                                        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fuzz = script()
    if kind == "hang":
        monkeypatch.setattr(fuzz, "_HANGS", 1.0)
    options = argparse.Namespace(seed=1, images=1, seconds=60.0, jobs=1, layers=["memory"], folder=tmp_path)
    images, failures = fuzz.fuzz([Mistaken(end)], options)
    assert images == [1]
    assert list(failures) == [f"{kind} mistaken"]
    ((_, what, _),) = failures.values()
    assert all(word in what for word in words), what
