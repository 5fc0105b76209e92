"""Programs that run others in place of the processor."""

from __future__ import annotations

import pytest

from gdbext.narrate.reasons import explain
from gdbext.runtimes.emulators import find_emulator


@pytest.mark.parametrize(("executable", "arguments", "note"), [
    ("/usr/libexec/valgrind/memcheck-amd64-linux", "/usr/bin/valgrind.bin ./job",
     "the program runs under valgrind: native stacks are those of valgrind"),
    ("/usr/bin/qemu-aarch64-static", "/usr/bin/qemu-aarch64-static -L /arm ./job",
     "the program runs under qemu-aarch64-static: native stacks are those of qemu-aarch64-static"),
    ("/usr/bin/qemu-x86_64", "qemu-x86_64 ./job",
     "the program ./job runs under qemu-x86_64: native stacks are those of qemu-x86_64")])
def test_emulators(executable: str, arguments: str, note: str) -> None:
    found = find_emulator(executable, arguments)
    assert found is not None
    assert explain(found) == note


@pytest.mark.parametrize("executable", [
    None, "/usr/bin/python3.11", "/usr/bin/valgrind", "/usr/bin/qemu-system-aarch64", "/opt/my-amd64-linux-tool"])
def test_programs_of_the_processor(executable: str | None) -> None:
    assert find_emulator(executable, "job") is None
