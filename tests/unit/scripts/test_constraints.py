"""constraints.txt has one fitting version of each package that pyproject.toml names, for each Python."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

HOME = Path(__file__).resolve().parent.parent.parent.parent
PROJECT = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli").loads(
    (HOME / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def held(version: str) -> dict[str, str]:
    """The versions of all packages for a version of Python."""
    lines = (HOME / "constraints.txt").read_text(encoding="utf-8").splitlines()
    environment = {"python_version": version, "python_full_version": f"{version}.2", "sys_platform": "linux",
                   "platform_machine": "x86_64", "implementation_name": "cpython"}
    made = [Requirement(line) for line in lines if not line.startswith("#")]
    fitting = [each for each in made if each.marker is None or each.marker.evaluate(environment)]
    assert len({each.name for each in fitting}) == len(fitting)
    return {each.name.lower().replace("_", "-"): str(each.specifier)[2:] for each in fitting}


@pytest.mark.parametrize("version", ["3.9", "3.10", "3.11", "3.12", "3.13", "3.14"])
def test_each_dependency_has_one_version_that_fits(version: str) -> None:
    versions = held(version)
    wanted = [Requirement(text) for text in PROJECT["dependencies"] + PROJECT["optional-dependencies"]["dev"]]
    wrong = [str(each) for each in wanted if not each.specifier.contains(versions.get(each.name.lower(), "0"))]
    assert wrong == [], "constraints.txt is out of date: run scripts/constraints"
