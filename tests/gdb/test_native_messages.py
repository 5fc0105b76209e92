"""Last messages of stripped programs that died: exceptions, panics, fatal errors, texts of glibc."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support import combinations, cores, gdb_session, interpreters, packages, roots, samples
from tests.support.samples import HERE, Place

# prints what the decoders find on the stack of the thread that ended the process, and the class of an object
SCRIPT = """
import dataclasses, json
from gdbext.debugger.target import session
from gdbext.arch import x86_64
from gdbext.errors import MemoryUnreadable
from gdbext.runtimes import libstdcxx
from gdbext.runtimes import messages

NAMES = "rax rbx rcx rdx rsi rdi rbp r8 r9 r10 r11 r12 r13 r14 r15".split()
CONSTANT = (".text", ".rodata")

def words_of_stack(memory, start):
    for address in range(start, start + (1 << 17), 8):
        try:
            yield int.from_bytes(memory.read(address, 8), "little")
        except MemoryUnreadable:
            return

with session() as target:
    memory, modules = target.memory, target.modules()
    thread = target.threads()[0]
    registers = target.registers(thread, ("rip", "rsp", *NAMES))
    words = list(words_of_stack(memory, registers["rsp"]))
    values = [registers[name] for name in NAMES]
    constant = [section for module in modules for section in module.sections if section.name in CONSTANT]
    in_image = lambda address: any(module.contains(address) for module in modules)
    is_read_only = lambda address: any(section.start <= address < section.end for section in constant)
    (libc,) = [module for module in modules if module.name.startswith(("libc.so", "libc-2"))]
    exceptions = libstdcxx.find_exceptions(memory, [*values, *words], in_image)
    pythons = [module for module in modules if "python" in module.name]
    panic = messages.rust_panic(memory, words, in_image)
    carried = [messages.pybind11_error(memory, exception) for exception in exceptions]
    print(json.dumps({
        "exceptions": [dataclasses.asdict(exception) for exception in exceptions],
        "class": libstdcxx.class_of(memory, in_image, OBJECT),
        "heap": [libstdcxx.class_of(memory, in_image, word) for word in words if not in_image(word)],
        "abort": messages.abort_message(memory, libc),
        "fatal": [dataclasses.asdict(error) for python in pythons for error in
                  messages.fatal_errors(x86_64, memory, python, libc, words, values, is_read_only)],
        "panic": dataclasses.asdict(panic) if panic else None,
        "python": [dataclasses.asdict(error) for error in carried if error],
    }))
"""
# shared by the Python programs: they announce their start, and continue after reading a line
PYTHON = """
import ctypes, os, sys
print('{"sample": "messages", "variant": "python", "pid": %d, "threads": {}, "locks": {}, "deadlock": [], '
      '"stuck_behind": []}' % os.getpid(), flush=True)
sys.stdin.readline()
"""


def last_words(
    argv: Sequence[str | Path], directory: Path, *, place: Place = HERE, options: Sequence[str] = (),
    variables: dict[str, str] | None = None
) -> dict[str, Any]:
    """Decode the last messages of a program that dies of SIGABRT, from the kernel's core.

    :param options: GDB options to find the files of another place.
    """
    (found,) = last_words_of_stories(argv[0], {"": argv[1:]}, directory, place=place, options=options,
                                     variables=variables)
    return found[1]


def last_words_of_stories(
    program: str | Path, stories: Mapping[str, Sequence[str | Path]], directory: Path, *, place: Place = HERE,
    options: Sequence[str] = (), variables: dict[str, str] | None = None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Decode the last messages of each run of a program; one GDB reads all cores.

    :param stories: the arguments of each run.
    """
    commands = []
    written = []
    for story, arguments in stories.items():
        script = directory / story / "look.py"
        with samples.running([program, *arguments], directory / story, place=place, variables=variables) as sample:
            address = sample.truth.variant if sample.truth.variant.startswith("0x") else "0"
            script.write_text(f"OBJECT = {address}\n{SCRIPT}")
            sample.send("\n")
            os.waitid(os.P_PID, sample.pid, os.WEXITED | os.WNOWAIT)
            # the process is already dead, so the signal that this sends has no effect
            written.append(cores.kernel_core(sample))
        commands += [f"core-file {written[-1]}", f"source {script}"]
    executable = place.outside(Path(program))
    executable = executable if executable.exists() else Path(program)
    session = gdb_session.batch([*options, executable], commands, symbols=False)
    for core in written:
        core.unlink()
    assert session.status == 0, session
    for number, story in enumerate(stories):
        yield story, session.document(2 * number + 1)


# -- C++ ------------------------------------------------------------------------------------------------------

RUNTIME, LOGIC = "text of its std::runtime_error", "text of its std::logic_error"
LONG = "handle 8 is not ready, and this text is too long for a short string"
ON_FILES = "filesystem error: cannot copy: Input/output error [/from/there] [/to/here]"
THROWN = {
    "runtime_error": [("St13runtime_error", "handle 7 is not ready", "recorded", RUNTIME)],
    "noexcept-runtime_error": [("St13runtime_error", "handle 7 is not ready", "recorded", RUNTIME)],
    "derived": [("N7samples8NotReadyE", LONG, "recorded", RUNTIME)],
    "own-string": [("N7samples11HandleErrorE", "handle 9 is gone", "inferred", "the first std::string in the object")],
    "own-short": [("N7samples11HandleErrorE", "gone", "inferred", "the first std::string in the object")],
    "silent": [("N7samples6SilentE", None, None, None)],
    "constant": [("N7samples8ConstantE", "a constant text", "inferred",
                  "the first constant text that the object points to")],
    "virtual-base": [("N7samples7LocatedE", "a text behind the position", "recorded", LOGIC)],
    "bad_alloc": [("St9bad_alloc", None, None, None)],
    "system_error": [("St12system_error", "opening the device: No such device", "recorded", RUNTIME)],
    "filesystem": [("NSt10filesystem7__cxx1116filesystem_errorE", ON_FILES, "recorded",
                    "text of its std::filesystem::filesystem_error")],
    "literal": [("PKc", "only a text", "recorded", "the thrown value")],
    "string": [("NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE", "a string, as it is", "recorded",
                "the thrown value")],
    "number": [("i", "42", "recorded", "the thrown value")],
    "plain": [("N7samples5PlainE", None, None, None)],
    "dependent": [("St13runtime_error", "thrown again", "recorded", RUNTIME)],
    "nested": [("St17_Nested_exceptionISt13runtime_errorE", "the outer one", "recorded", RUNTIME),
               ("St12out_of_range", "the inner one", "recorded", LOGIC)],
    "in-handler": [("St11logic_error", "thrown by the handler", "recorded", LOGIC),
                   ("St13runtime_error", "the handled one", "recorded", RUNTIME)],
}
CXX = ("-O2", "-std=gnu++20", "-Wall", "-Wextra")
LINKS = {"shared": ("-lstdc++",), "static-libstdc++": ("-Wl,-Bstatic", "-lstdc++", "-Wl,-Bdynamic"),
         "no-pie": ("-no-pie", "-lstdc++")}


def check_thrown(found: dict[str, Any], story: str) -> None:
    rows = [(row["type"], row["text"], row["evidence"], row["why"]) for row in found["exceptions"]]
    assert rows == THROWN[story]
    assert all(row["is_caught"] for row in found["exceptions"])
    assert found["class"] == "N7samples6SquareE"
    # the stack points to no other objects than these and parts of the streams
    others = {name for name in found["heap"] if name} - {row[0] for row in rows} - {"N7samples6SquareE"}
    assert all(name.startswith(("St", "NSt", "N10__cxxabiv1")) for name in others)
    assert (found["panic"], found["fatal"], found["abort"]) == (None, [], None)


@pytest.mark.parametrize("story", THROWN)
def test_cxx_exception(story: str, tmp_path: Path) -> None:
    program = samples.compiled("messages-cc", "messages.cc", CXX, LINKS["shared"], strip=True)
    check_thrown(last_words([program, story], tmp_path), story)


@pytest.mark.parametrize("link", [link for link in LINKS if link != "shared"])
@pytest.mark.parametrize("story", ["virtual-base", "own-string"])
def test_cxx_exception_by_kind_of_linking(story: str, link: str, tmp_path: Path) -> None:
    program = samples.compiled("messages-cc", "messages.cc", CXX, LINKS[link], strip=True)
    check_thrown(last_words([program, story], tmp_path), story)


def test_handled_cxx_exceptions_are_not_reported(tmp_path: Path) -> None:
    """The stack still contains addresses of exceptions that were handled."""
    program = samples.compiled("messages-cc", "messages.cc", CXX, LINKS["shared"], strip=True)
    found = last_words([program, "abort"], tmp_path)
    assert found["exceptions"] == []
    assert found["class"] == "N7samples6SquareE"


@pytest.mark.parametrize("suite", ["bullseye", "trixie", "sid"])
def test_cxx_exception_of_other_libraries(suite: str, tmp_path: Path) -> None:
    root = roots.use(suite)
    program = samples.compiled("messages-cc", "messages.cc", CXX, LINKS["shared"], strip=True, place=root.place)
    stories = {story: [story] for story in ("derived", "own-string", "filesystem", "nested")}
    for story, found in last_words_of_stories(program, stories, tmp_path, place=root.place, options=root.sysroot):
        check_thrown(found, story)


@pytest.mark.parametrize("version", ["3.11", "3.13"])
def test_python_exception_in_pybind11(version: str, tmp_path: Path) -> None:
    python, _ = interpreters.use(f"{version}-stripped")
    folder = packages.use(version)
    flags = (*CXX, "-DWITH_PYBIND11", "-shared", "-fPIC", "-fvisibility=hidden", *samples.extension_flags(python),
             "-isystem", str(folder / "pybind11/include"))
    extension = samples.compiled("messages.so", "messages.cc", flags, LINKS["shared"], strip=True)
    code = f"{PYTHON}sys.path.insert(0, {str(extension.parent)!r})\nimport messages\nmessages.call(lambda: {{}}['key'])"
    found = last_words([python, "-c", code], tmp_path)
    (thrown,) = found["exceptions"]
    assert thrown["type"] == "N8pybind1117error_already_setE"
    assert (thrown["text"], thrown["evidence"]) == (None, None)
    (carried,) = found["python"]
    # std::terminate() calls what() of the exception, which adds to its name
    assert carried["text"].startswith("KeyError: 'key'\n\nAt:\n")
    assert carried["type"]
    assert carried["value"]
    assert found["fatal"] == []


# -- glibc ----------------------------------------------------------------------------------------------------

C = ("-O2", "-std=gnu11", "-Wall", "-Wextra", "-pthread", "-fstack-protector-all", "-U_FORTIFY_SOURCE",
     "-D_FORTIFY_SOURCE=2")
ABORTED = {
    "assert": 'Assertion `handles > 10 && "enough handles"\' failed.',
    "double-free": "double free or corruption",
    "invalid-free": "free(): invalid pointer",
    "smashed": "*** stack smashing detected ***",
    "overflow": "*** buffer overflow detected ***",
}


def check_aborted(found: dict[str, Any], story: str) -> None:
    assert found["abort"] is not None
    assert ABORTED[story] in found["abort"]
    assert not found["abort"].endswith("\n")
    assert (found["exceptions"], found["fatal"], found["panic"]) == ([], [], None)


@pytest.mark.parametrize("story", ABORTED)
def test_text_of_glibc(story: str, tmp_path: Path) -> None:
    program = samples.compiled("messages-c", "messages.c", C, strip=True)
    check_aborted(last_words([program, story], tmp_path), story)


def test_plain_abort_has_no_message(tmp_path: Path) -> None:
    program = samples.compiled("messages-c", "messages.c", C, strip=True)
    found = last_words([program, "abort"], tmp_path)
    assert found["abort"] is None
    assert (found["exceptions"], found["fatal"], found["panic"]) == ([], [], None)


@pytest.mark.parametrize("suite", ["bionic", "bullseye", "noble", "trixie", "sid"])
def test_text_of_other_glibcs(suite: str, tmp_path: Path) -> None:
    root = roots.use(suite)
    program = samples.compiled("messages-c", "messages.c", C, strip=True, place=root.place)
    # every text is stored at the same place
    chosen = ABORTED if combinations.LONG else ("assert", "double-free", "smashed")
    stories = {story: [story] for story in chosen}
    for story, found in last_words_of_stories(program, stories, tmp_path, place=root.place, options=root.sysroot):
        check_aborted(found, story)


# -- Rust -----------------------------------------------------------------------------------------------------

PANICS = {
    "text": ("a handle is not ready", 'panic!("a handle is not ready")'),
    "formatted": ("handle 3 of formatted is not ready", 'panic!("handle {}'),
    "unwrap": ("called `Option::unwrap()` on a `None` value", "unwrap()"),
    "expect": ("the variable: NotPresent", 'expect("the variable")'),
    "index": ("index out of bounds: the len is 3 but the index is 5", "handles[story.len()]"),
}
RUST = ("--edition", "2021", "-O")


def rust(flags: Sequence[str]) -> Path:
    return samples.compiled("messages-rs", "messages.rs", (*RUST, *flags), strip=True)


@pytest.mark.parametrize("story", PANICS)
def test_panic_that_aborts(story: str, tmp_path: Path) -> None:
    found = last_words([rust(("-C", "panic=abort")), story], tmp_path)
    message, code = PANICS[story]
    source = (samples.SOURCES / "messages.rs").read_text().splitlines()
    (line,) = [number for number, text in enumerate(source, 1) if code in text]
    panic = found["panic"]
    assert panic["message"] == message
    assert panic["file"].endswith("messages.rs")
    assert panic["line"] == line
    assert 1 < panic["column"] <= len(source[line - 1])


def test_panic_that_cannot_unwind(tmp_path: Path) -> None:
    found = last_words([rust(()), "formatted"], tmp_path)
    assert found["panic"]["message"] == "panic in a function that cannot unwind"
    assert found["panic"]["file"].endswith("library/core/src/panicking.rs")
    assert found["exceptions"] == []


@pytest.mark.parametrize("flags", [(), ("-C", "panic=abort")], ids=["unwind", "abort"])
def test_rust_program_without_a_panic(flags: tuple[str, ...], tmp_path: Path) -> None:
    assert last_words([rust(flags), "none"], tmp_path)["panic"] is None


# -- Python ---------------------------------------------------------------------------------------------------

WITHOUT_GIL = "GIL is released (the current Python thread state is NULL)"
FATAL = {
    # through a function that reports for its callers that they have no thread state
    "PyThreadState_Get": ("ctypes.CDLL(None).PyThreadState_Get()", WITHOUT_GIL, False),
    "PyEval_RestoreThread": ("ctypes.CDLL(None).PyEval_RestoreThread(None)", WITHOUT_GIL, False),
    "PyThreadState_Delete": ("get = ctypes.pythonapi.PyThreadState_Get\nget.restype = ctypes.c_void_p\n"
                             "ctypes.pythonapi.PyThreadState_Delete(ctypes.c_void_p(get()))",
                             "tstate %p is still current", True),
}
# faulthandler handles SIGABRT, and raises it again
HANDLED = f"{PYTHON}import faulthandler\nfaulthandler.enable()\n{FATAL['PyEval_RestoreThread'][0]}"


@pytest.mark.parametrize("name", ["3.9", "3.11", "3.12", "3.13", "3.9-stripped", "3.11-stripped", "3.13-stripped",
                                  "3.13t", "debian"])
def test_fatal_error(name: str, tmp_path: Path) -> None:
    python, _ = interpreters.use(name)
    stories = {story: ["-c", PYTHON + code] for story, (code, _, _) in FATAL.items()}
    for story, found in last_words_of_stories(python, stories, tmp_path):
        _, message, is_format = FATAL[story]
        (error,) = found["fatal"]
        assert error["function"] in (story, f"_{story}")
        assert message in error["message"], story
        assert error["is_format"] is is_format, story
        assert error["evidence"] in ("derived", "inferred"), story
        assert found["exceptions"] == []


# faulthandler in CPython 3.12 and 3.13 crashes itself if there is no thread state
@pytest.mark.parametrize("name", ["3.9-stripped", "3.11", "debian"])
def test_fatal_error_and_faulthandler(name: str, tmp_path: Path) -> None:
    python, _ = interpreters.use(name)
    (error,) = last_words([python, "-c", HANDLED], tmp_path)["fatal"]
    assert error["function"] == "PyEval_RestoreThread"
    assert WITHOUT_GIL in error["message"]


def test_fatal_error_within_another(tmp_path: Path) -> None:
    """Python frees memory while it writes about the first error, which the memory checks do not allow."""
    python, _ = interpreters.use("3.11-stripped")
    found = last_words([python, "-c", HANDLED], tmp_path, variables={"PYTHONMALLOC": "debug"})
    inner = found["fatal"][0]
    assert inner["function"] == "_PyMem_DebugFree"
    assert inner["message"] == "Python memory allocator called without holding the GIL"
    assert inner["evidence"] == "derived"


@pytest.mark.parametrize("name", ["3.11", "3.13-stripped"])
def test_fatal_error_message_of_a_caller(name: str, tmp_path: Path) -> None:
    python, _ = interpreters.use(name)
    found = last_words([python, "-c", f"{PYTHON}ctypes.pythonapi.Py_FatalError(b'the text of a caller')"], tmp_path)
    assert found["fatal"] == [{"function": None, "message": "the text of a caller", "evidence": "inferred",
                               "is_format": False}]


@pytest.mark.parametrize("name", ["3.11", "3.13-stripped", "debian"])
def test_python_abort_has_no_message(name: str, tmp_path: Path) -> None:
    python, _ = interpreters.use(name)
    found = last_words([python, "-c", f"{PYTHON}os.abort()"], tmp_path)
    assert (found["fatal"], found["exceptions"], found["panic"], found["abort"]) == ([], [], None, None)
