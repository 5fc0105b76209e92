"""Source lines of the frames of one report; tests/unit/direct/test_symbols.py has those of made-up libraries."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from gdbext.dwarf.sections import Budget, OutOfTime
from gdbext.model import MixedStack, NativeFrame, Part, PyFrame
from gdbext.model.reasons import because, joined
from gdbext.targets.source_lines import SourceLines, replaced, with_frames
from gdbext.targets.symbols import LoadedFile
from tests.support import dwarf_files

BIAS = 0x10000


def loaded(made: Path) -> LoadedFile:
    return LoadedFile(dwarf_files.opened(made), BIAS, str(made), lambda place: None)


def test_names_are_those_of_the_source(tmp_path: Path) -> None:
    made = dwarf_files.build(tmp_path)
    lines, file = SourceLines(), loaded(made)
    addresses = dwarf_files.function(made, "bank::transfer(int volatile*)")
    found = [lines.find(file, BIAS + address) for address in addresses]
    assert {symbol.function for symbol in found if symbol is not None} == {"bank::transfer"}
    names = {call.function for symbol in found if symbol is not None for call in symbol.inlined}
    assert "bank::(anonymous namespace)::pay" in names


def test_what_was_found_for_one_core_serves_the_next(tmp_path: Path) -> None:
    """It passes through JSON, and takes no time then."""
    made = dwarf_files.build(tmp_path, "-Wl,--build-id")
    first, file = SourceLines(), loaded(made)
    addresses = [BIAS + at for at in dwarf_files.function(made, "bank::transfer(int volatile*)")]
    found = [first.find(file, address) for address in addresses]
    assert any(symbol is not None and symbol.inlined for symbol in found)
    second = SourceLines(json.loads(json.dumps(first.found())))
    second._budget = Budget(0)
    assert [second.find(file, address) for address in addresses] == found
    assert second.found() == []


def test_file_without_build_id_is_not_known_again(tmp_path: Path) -> None:
    """Another file may have its path."""
    made = dwarf_files.build(tmp_path, "-Wl,--build-id=none")
    lines = SourceLines()
    assert lines.find(loaded(made), BIAS + dwarf_files.function(made, " main").start) is not None
    assert lines.found() == []


def test_native_frames_are_replaced_everywhere() -> None:
    frames = (NativeFrame("one", "x", 1), PyFrame("f", "f", "x.py", 1), NativeFrame("two", "x", 2))
    stack = MixedStack(frames, (Part(frames[:1]), Part(frames[1:])))
    found = replaced(stack, NativeFrame, lambda frame: dataclasses.replace(frame, line=7) if frame.pc == 1 else frame)
    assert found.frames == (NativeFrame("one", "x", 1, line=7), *frames[1:])
    assert found.parts == (Part(found.frames[:1]), stack.parts[1])
    assert found.parts[1] is stack.parts[1]
    assert replaced(stack, NativeFrame, lambda frame: frame) is stack


def test_reason_has_the_new_name_of_a_frame() -> None:
    """The symbol table may have a longer name than debug information has."""
    frames = (NativeFrame("lock()::{lambda()#1}::_FUN", "x", 1), NativeFrame("unlock", "x", 2))
    reasons = [because("proven-by-instruction", function=frame.function, module="x") for frame in frames]
    value = (*frames, joined(reasons), because("several-proven", threads=2))
    found = with_frames(value, lambda frame: dataclasses.replace(frame, function="_FUN") if frame.pc == 1 else frame)
    assert found == (dataclasses.replace(frames[0], function="_FUN"), frames[1],
                     joined([because("proven-by-instruction", function="_FUN", module="x"), reasons[1]]), value[3])


def test_time_is_shared_by_all_files(tmp_path: Path) -> None:
    made = dwarf_files.build(tmp_path)
    lines = SourceLines()
    lines._budget = Budget(0)
    with pytest.raises(OutOfTime):
        lines.find(loaded(made), BIAS + dwarf_files.function(made, " main").start)


def test_file_without_debug_information_takes_no_time(tmp_path: Path) -> None:
    made = dwarf_files.build(tmp_path, "-g0")
    lines = SourceLines()
    lines._budget = Budget(0)
    assert lines.find(loaded(made), BIAS + dwarf_files.function(made, " main").start) is None
