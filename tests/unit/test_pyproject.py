"""pyproject.toml: what an installed gdbext contains."""

from __future__ import annotations

from pathlib import Path

import pytest

HOME = Path(__file__).resolve().parents[2]


def test_all_data_files_are_installed() -> None:
    tomllib = pytest.importorskip("tomllib", reason="Python 3.11 has it first")
    data = tomllib.loads((HOME / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = data["tool"]["setuptools"]["package-data"]["gdbext"]
    installed = {path for pattern in patterns for path in (HOME / "gdbext").glob(pattern)}
    files = {path for path in (HOME / "gdbext").rglob("*")
             if path.is_file() and path.suffix != ".py" and "__pycache__" not in path.parts}
    assert files - installed == set()
