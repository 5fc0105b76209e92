"""GDB/MI, by which CLion, Eclipse and the C/C++ extension of VS Code use GDB."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support import another_stack, cores, gdb_session, interpreters, roots, samples
from tests.support.editors import PROGRAM, configurations
from tests.support.interpreters import CHECKOUT

#: Where each GDB inspects a process, and the default one a core too.
WAYS = [("", "live"), ("", "gcore"), *((name, "live") for name in interpreters.GDBS)]
ways = pytest.mark.parametrize(("name", "target"), WAYS, ids=["-".join(way).strip("-") for way in WAYS])


def answers(name: str, place: Sequence[str | Path], commands: Sequence[str], home: Path, *,
            load: Sequence[str] = ("-iex", gdb_session.LOAD)) -> list[str]:
    """The results of commands of a GDB, in their order."""
    gdb = str(roots.use_gdb(name)) if name else gdb_session.executable()
    argv = [gdb, "-nx", "-q", "--interpreter=mi2", *gdb_session.settings(symbols=True), *load, *map(str, place)]
    typed = "".join(f"{number}{command}\n" for number, command in enumerate((*commands, "-gdb-exit")))
    done = subprocess.run(argv, input=typed, capture_output=True, text=True, timeout=gdb_session.TIMEOUT, check=False,
                          env=gdb_session.environment(home))
    found = re.findall(r"^(\d+)\^(.*)$", done.stdout, re.MULTILINE)
    assert [int(number) for number, _ in found] == [*range(len(commands) + 1)], done.stdout + done.stderr
    return [result for _, result in found[:-1]]


def level_of(stack: str, function: str) -> str:
    (level,) = re.findall(rf'level="(\d+)",func="{function}"', stack)
    return str(level)


@ways
def test_frames_and_variables(name: str, target: str, tmp_path: Path) -> None:
    python, _ = interpreters.use("3.12")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    with samples.running([python, program], tmp_path) as sample, cores.place(sample, python, target) as place:
        native, done, stack = answers(name, place, ["-stack-list-frames", "-enable-frame-filters",
                                                    "-stack-list-frames"], tmp_path)
        assert done == "done"
        line = PROGRAM.splitlines().index("    os.read(0, 1)") + 1
        assert f'func="hang",file="{program}",line="{line}"' in stack
        assert "_PyEval_EvalFrameDefault" in native
        assert "_PyEval_EvalFrameDefault" not in stack
        level = level_of(stack, "hang")
        hidden = str(int(level) + 1)
        enable = "-enable-frame-filters"
        _, shown, named, locals_shown, interpreters_own = answers(name, place, [
            enable, f"-stack-list-variables --thread 1 --frame {level} --all-values",
            f"-stack-list-variables --thread 1 --frame {level} --no-values",
            f"-stack-list-locals --thread 1 --frame {level} --all-values",
            f"-stack-list-variables --thread 1 --frame {hidden} --no-values"], tmp_path)
    for listed in (shown, locals_shown):
        assert {*re.findall(r'\{name="(\w+)",value=', listed)} == {"text", "number", "quoted", "thread"}
        assert r'{name="number",value="\"42\""}' in listed
    assert set(re.findall(r'name="(\w+)"', named)) == {"text", "number", "quoted", "thread"}
    # the frame with a number that is not in the list has its own variables, not those of the next one
    assert "number" not in re.findall(r'name="(\w+)"', interpreters_own)


#: A function with an argument that the compiler makes a constant.
REMOVED = """\
#include <unistd.h>
static __attribute__((noinline)) int inner(int descriptor, int unused, const char *always) {
    char byte;
    int result = read(descriptor, &byte, 1);
    __asm__ volatile("" : : "r"(always), "r"(unused) : "memory");
    return result + byte;
}
int main(int argc, char **argv) {
    (void) argv;
    write(1, "ready\\n", 6);
    return inner(argc - 1, 7, 0);
}
"""


@ways
def test_arguments(name: str, target: str, tmp_path: Path) -> None:
    """GDB by itself never ends for an argument that the compiler made a constant, once a frame filter is enabled."""
    python, _ = interpreters.use("3.12")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    with samples.running([python, program], tmp_path) as sample, cores.place(sample, python, target) as place:
        _, arguments, some, two = answers(name, place, [
            "-enable-frame-filters", "-stack-list-arguments 1", "-stack-list-arguments 0 0 1",
            "-stack-list-arguments --simple-values 0 1"], tmp_path)
    assert arguments.startswith('done,stack-args=[frame={level="0",args=[')
    # a Python frame has its arguments among its variables
    assert "args=[]" in arguments
    for listed in (some, two):
        assert len(re.findall(r"frame=\{", listed)) == 2


@pytest.mark.parametrize("name", ["", *interpreters.GDBS], ids=["default", *interpreters.GDBS])
def test_arguments_that_the_compiler_removed(name: str, tmp_path: Path) -> None:
    source, binary = tmp_path / "removed.c", tmp_path / "removed"
    source.write_text(REMOVED)
    subprocess.run(["gcc", "-g", "-O2", "-o", str(binary), str(source)], check=True, capture_output=True)
    with subprocess.Popen([binary], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        place = ["-p", str(process.pid)]
        try:
            raw, _, filtered = answers(name, place, ["-stack-list-arguments --all-values 0 2", "-enable-frame-filters",
                                                     "-stack-list-arguments --all-values 0 2"], tmp_path)
            gdb = [roots.use_gdb(name)] if name else []
            shown = gdb_session.batch(place, ["bt", "bt -no-filters"], gdb=gdb)
        finally:
            process.kill()
    assert 'name="descriptor"' in raw
    assert 'name="unused"' not in raw  # GDB's own answer leaves it out
    assert {*re.findall(r'name="(\w+)"', filtered)} >= {"descriptor", "unused", "always"}
    assert '{name="unused",value="7"}' in filtered
    assert "unused=7" in shown.outputs[0]
    # GDB writes "from" before a library without lines, but "at" in a frame that a filter has passed on
    assert shown.outputs[0] == re.sub(r" from (\S+)$", r" at \1", shown.outputs[1], flags=re.MULTILINE)


def test_variables_of_a_stack_that_cannot_be_merged(tmp_path: Path) -> None:
    """Each native frame has its own variables, whichever frame is asked for."""
    with another_stack.running("3.9", tmp_path) as (sample, _, _):
        place = ["-p", str(sample.pid)]
        commands = [f"-stack-list-variables --thread 1 --frame {level} --no-values" for level in range(4)]
        plain = answers("", place, commands, tmp_path)
        filtered = answers("", place, ["-enable-frame-filters", *commands], tmp_path)[1:]
    assert all(result.startswith("done,variables=") for result in plain)
    names = [{*re.findall(r'name="(\w+)', result)} for result in plain]
    assert len({frozenset(each) for each in names}) == len(commands)
    # frame filters also list variables without a value
    assert all(own <= {*re.findall(r'name="(\w+)', result)} for own, result in zip(names, filtered))


# -- docs/editors.md ------------------------------------------------------------------------------------------


def test_documented_file_of_vs_code(tmp_path: Path) -> None:
    """The C/C++ extension sends texts that begin with a hyphen as they are, and others as commands of the console."""
    python, _ = interpreters.use("3.12")
    (case,) = configurations()[2]["configurations"]
    assert (case["type"], case["MIMode"]) == ("cppdbg", "gdb")
    texts = [command["text"].replace("/path/to/checkout", str(CHECKOUT)) for command in case["setupCommands"]]
    setup = [text if text.startswith("-") else f"-interpreter-exec console {json.dumps(text)}" for text in texts]
    with samples.rapids(python, "rwlock", tmp_path) as sample:
        *ready, attached, stack, report = answers("", [str(python)], [
            *setup, f"-target-attach {sample.pid}", "-stack-list-frames --thread 1 0 1000",
            '-interpreter-exec console "py-deadlocks"'], tmp_path, load=())
        expected = [tuple(frame) for frame in sample.truth.threads["main"].stack]
    assert [*ready, attached, report] == ["done"] * (len(setup) + 2)
    found = re.findall(r'func="([^"]*)",file="([^"]*\.py)",line="(\d+)"', stack)
    assert [(function, file, int(line)) for function, file, line in found] == expected


def test_documented_line_of_the_init_file(tmp_path: Path) -> None:
    python, _ = interpreters.use("3.12")
    text = (CHECKOUT / "docs" / "editors.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"^    (interpreter-exec mi .*)$", text, re.MULTILINE)
    with samples.rapids(python, "rwlock", tmp_path) as sample:
        (stack,) = answers("", ["-p", str(sample.pid)], ["-stack-list-frames"], tmp_path,
                           load=("-iex", gdb_session.LOAD, "-iex", line))
        expected = [function for function, _, _ in sample.truth.threads["main"].stack]
    assert re.findall(r'func="([^"]*)",file="[^"]*\.py"', stack) == expected
