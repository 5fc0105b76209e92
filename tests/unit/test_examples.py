"""README.md and docs/ contain no output of gdbext that was typed by hand; how their examples are made."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from gdbext.narrate.sentences import TITLES
from tests.support import examples
from tests.support.examples import Example, comparable, folded, laid_out, shortened, with_blocks
from tests.support.interpreters import CHECKOUT

#: What lines of gdbext's output look like. Every block of the documents has one, so this list stays complete.
OUTPUT = re.compile(
    rf"""^\ *gdbext:\ .*\ PID\  | ^\ *({"|".join(map(re.escape, TITLES.values()))}): | How\ this\ is\ known:
        | ^\ *(Deadlock|Standstill)\ \d+: | ^\ *(Cycle|Wait|Stuck\ behind\ it): | ^\ *Thread\ \d+\ \(LWP\ \d+\)\ "
        | ^\ *(each\ )?(holds|needs|waits\ (for|to))\ | ^\ *[Tt]hread\ \d+\ ("[^"]*"\ )?waits\ | waits\ for\ the\ GIL
        | ^\ *Rwlock\ 0x | ^\ *SIG[A-Z]+\ \(SEGV_ | ^\ *Suspects\ of | ^\ *Instruction: | "schema":\ "gdbext
        | ^\ *CPython\ \d+\.\d+\.\d+,? | ^\ *Dask\ cluster\ | \d+\ (cores?|targets?|processes):\  | \d+\ x\ deadlock
        | its\ owner\ is\ gone | ^\ *\#\d+\ .*\ at\ /\S+\.py:\d+$ | \(recorded\)$""", re.VERBOSE | re.MULTILINE)
#: A command of gdbext at a prompt with output below it.
COMMAND = re.compile(r"^ *(\(gdb\) (py-|gil-holder|rwlock-owner|lock-owner)|\$ .*\bgdbext ).*\n"
                     r"(?! *(\(gdb\)|\$|gdb) |\n|\Z)", re.MULTILINE)


def unmarked_blocks(text: str) -> Iterator[str]:
    """The blocks of text of a document, indented or between ```, that no command makes."""
    rest, last = [], 0
    for _, begin, end in examples.blocks(text):
        rest.append(text[last:begin])
        last = end
    rest.append(text[last:])
    for part in rest:
        yield from (match[0] for match in re.finditer(r"(?:^ {4}.*\n(?:\n+(?= {4}))?)+", part, re.MULTILINE))
        yield from (match[1] for match in re.finditer(r"^ *```.*\n((?s:.*?))^ *```", part, re.MULTILINE))


def typed(text: str) -> list[str]:
    """The blocks of a document that look like output of gdbext and that no command makes."""
    return [block for block in unmarked_blocks(text) if OUTPUT.search(block) or COMMAND.search(block)]


@pytest.mark.parametrize("name", [str(path.relative_to(CHECKOUT)) for path in examples.documents()])
def test_no_output_is_typed_by_hand(name: str) -> None:
    found = typed((CHECKOUT / name).read_text(encoding="utf-8"))
    assert found == [], f"put a marker before it, see tests/support/examples.py:\n{found}"


def test_output_is_recognised() -> None:
    made = [text[begin:end] for path in examples.documents() for text in [path.read_text(encoding="utf-8")]
            for _, begin, end in examples.blocks(text)]
    assert len(made) >= 16
    # without the commands
    outputs = [re.sub(r"^ *(\(gdb\)|\$) .*\n", "", block, flags=re.MULTILINE) for block in made]
    assert [output for output in outputs if not OUTPUT.search(output)] == [], "add a word of these to OUTPUT"


def test_typed_output_is_found() -> None:
    marked = "<!-- example: rapids py-deadlocks -->\n\n    (gdb) py-deadlocks\n    Deadlock 1: 2 threads\n\n"
    assert typed(f"text\n\n{marked}text\n") == []
    assert typed("text\n\n    Deadlock 1: 2 threads\n\ntext\n") == ["    Deadlock 1: 2 threads\n"]
    assert typed("```\nCycle: thread 1 -> the GIL\n```\n") == ["Cycle: thread 1 -> the GIL\n"]
    assert typed("    (gdb) gil-holder\n    nobody\n") == ["    (gdb) gil-holder\n    nobody\n"]
    # commands alone are no output, and prose quotes words
    assert typed("    (gdb) py-deadlocks\n\n    gdb EXECUTABLE CORE\n    (gdb) py-crash\n") == []
    assert typed("`Cycle:` repeats the same.\n") == []


# -- how they are made ---------------------------------------------------------------------------------------


def test_another_word_is_a_difference() -> None:
    block = "    (gdb) gil-holder\n    GIL held by thread 1 (LWP 10)\n"
    assert comparable(block) == comparable(block.replace("LWP 10", "LWP 11"))
    assert comparable(block) != comparable(block.replace("held", "free"))
    assert comparable("    its owner had TID\n        2640, gone\n") == comparable("    its owner had TID 264, gone\n")
    worker = 'worker tcp://127.0.0.1:33101 (PID 70 on node1), partition-0, 0.31 s, thread "1-Dask-Default-Threads-70-0"'
    other = 'worker tcp://127.0.0.1:2 (PID 8 on node1), partition-1, 2 s, thread "0-Dask-Default-Threads-8-0"'
    assert comparable(worker) == comparable(other) != comparable(other.replace("worker", "client"))


def test_block_is_replaced_only_for_a_difference() -> None:
    example = Example("rapids", "py-deadlocks", "head -1")
    text = "a\n\n<!-- example: rapids py-deadlocks | head -1 -->\n\n    (gdb) py-deadlocks\n    LWP 1 waits\n\nb\n"
    assert [each for each, _, _ in examples.blocks(text)] == [example]
    assert with_blocks(text, {example: "(gdb) py-deadlocks\nLWP 2 waits"}) == text
    assert with_blocks(text, {example: "(gdb) py-deadlocks\n\n\nLWP 2 runs"}) == text.replace(
        "    LWP 1 waits", "\n\n    LWP 2 runs")
    assert with_blocks(text, {}) == text
    # a marker without a block gets one
    assert with_blocks("<!-- example: rapids py-deadlocks | head -1 -->\n\nb\n", {example: "x"}) == (
        "<!-- example: rapids py-deadlocks | head -1 -->\n\n    x\n\nb\n")


def test_lines_that_are_missing_leave_a_mark() -> None:
    text = "one\n\n  two\n  three\n\nfour"
    assert shortened(text, "head -1") == "one\n  ..."
    assert shortened(text, "sed '/^  /d'") == "one\n\n  ...\n\nfour"
    assert shortened(text, "grep -v '^$'") == "one\n  two\n  three\nfour"
    assert shortened(text, "cat") == text
    with pytest.raises(AssertionError, match="nothing is left"):
        shortened(text, "grep five")
    with pytest.raises(ValueError, match="not in list"):
        shortened(text, "sed s/one/two/")


def test_json_is_cut_visibly() -> None:
    document = {"frames": [1, 2, 3], "why": "x" * 101, "threads": [{"holds": []}]}
    assert folded(document) == document
    assert laid_out(folded(document, 2)) == (
        '{"frames": [1, 2, ...],\n "why": "' + "x" * 100 + '...",\n "threads": [{"holds": []}]}')


def test_members_that_are_missing_leave_a_mark() -> None:
    assert laid_out({"locks": [1], ...: ...}) == '{"locks": [1], ...}'


def test_json_is_laid_out_on_lines_that_fit() -> None:
    frame = {"function": "f" * 30, "file": "/" * 30, "line": 1}
    assert laid_out({"stack": [frame, frame], "none": [], "count": 2}) == (
        '{"stack": [{"function": "' + "f" * 30 + '", "file": "' + "/" * 30 + '", "line": 1},\n'
        '           {"function": "' + "f" * 30 + '", "file": "' + "/" * 30 + '", "line": 1}],\n'
        ' "none": [], "count": 2}')
