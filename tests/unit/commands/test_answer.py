"""Where the sources of a core are read from."""

from __future__ import annotations

from pathlib import Path

import pytest

from gdbext.commands.answer import source_of_core


@pytest.mark.parametrize("is_in_tree", [True, False])
def test_source_of_a_core_is_read_from_its_tree_before_this_machine(tmp_path: Path, is_in_tree: bool) -> None:
    here, root = tmp_path / "job.py", tmp_path / "root"
    here.write_text("of_this_machine()\n")
    here.chmod(0o644)
    there = root / str(here).lstrip("/")
    there.parent.mkdir(parents=True)
    if is_in_tree:
        there.write_text("of_the_tree()\n")
    files = source_of_core(None, lambda: None, root=str(root))
    assert files(str(here), 1) == ("of_the_tree()" if is_in_tree else files(str(here), 1))
    assert files(str(here), 1) != "of_this_machine()" or not is_in_tree
    assert source_of_core(None, lambda: None)(str(here), 1) != "of_the_tree()"
