"""Paths through landing pads, with a subclass that notes what guards of Rust release."""

from __future__ import annotations

import pytest

from gdbext.libraries.rust.guards import Cleanup
from tests.support.landing_pad import LOCK, RELEASE, RESUME, STACK, Frame


@pytest.mark.parametrize("test", ["cmpb $0x0,0x10(%rsp)", "test %r12b,%r12b"])
def test_guard_that_was_dropped_already_releases_nothing(test: str) -> None:
    """The compiler keeps a flag for it."""
    frame = Frame(f"mov %rax,%rbx\n{test}\nje end\n{RELEASE.format('%rbp')}\nend: mov %rbx,%rdi\ncall resume")
    assert frame.released(r12=0) == set()
    frame.memory.write(STACK + 0x10, b"\1")
    assert frame.released(r12=1) == {LOCK}


def test_release_on_one_of_two_paths_is_no_release() -> None:
    pad = f"mov %rax,%rbx\ntest %r14,%r14\nje end\n{RELEASE.format('%rbp')}\nend: mov %rbx,%rdi\ncall resume"
    cleanup = Frame(pad).cleanup()
    assert cleanup == Cleanup(frozenset())


def test_handler_is_not_followed() -> None:
    """The function that begins it gets the exception."""
    assert Frame(f"mov %rax,%rdi\ncall other\n{RELEASE.format('%rbp')}\n{RESUME}").released() == set()


def test_destructor_in_a_function_of_its_own_is_followed() -> None:
    frame = Frame(f"mov %rax,%rbx\nlea 0x8(%rsp),%rdi\ncall destroy\n{RESUME}",
                  destroy=f"cmpb $0x0,0x8(%rdi)\nje end\nmov (%rdi),%rdi\n{RELEASE.format('%rdi')}\nend: ret")
    frame.memory.u64(STACK + 8, LOCK, 1)
    assert frame.released() == {LOCK}
    frame.memory.u64(STACK + 8, LOCK, 0)
    assert frame.released() == set()


@pytest.mark.parametrize("pad", [
    f"mov %rax,%rbx\ncall *%r14\n{RELEASE.format('%rbp')}\n{RESUME}",
    f"mov %rax,%rbx\n{RELEASE.format('%r14')}\n{RESUME}",
    "loop: jmp loop",
    f"{RELEASE.format('%rbp')}\nret",
], ids=["unknown call", "unknown lock", "endless", "returns"])
def test_path_that_cannot_be_followed_proves_nothing(pad: str) -> None:
    assert Frame(pad).cleanup() is None
