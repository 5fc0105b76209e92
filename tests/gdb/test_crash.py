"""`py-crash` on programs that crash in known ways: live, in cores of GDB and the kernel, with and without symbols."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support import cores, crashes, gdb_session, interpreters, launcher, samples

#: The broken rules of each story; the report must name these and no others.
RULES = {
    "use-after-free": {"impossible-object"},
    "use-after-free-debug": {"impossible-object"},
    "underflow": {"impossible-object"},
    "no-gil": {"no-thread-state"},
    "no-gil-error": {"no-thread-state"},
    "released": {"without-gil"},
    "finalised": {"after-finalisation"},
}
#: The threads that may have raced with the one that died, by role.
SUSPECTS = {"race": ["carol", "bob"], "handle": ["worker"], "handle-native": ["worker"]}


PAGE = 4096
# the instruction, and the function to which GDB attributes it, which may be an inlined one
FAULTS = {
    "null-read": (r"mov +0x18\(%rdi\),", "crash_read_field"),
    "null-call": (r"^=> 0x0:", None),
    "data-call": (r"^=> 0x[0-9a-f]+ <table>:", None),
    "wild": (r"mov +\(%r\w+\),", "crash_follow"),
    "misaligned": (r"movaps +\(%rsi\),", None),
    "truncated": (r"movzbl +\(%r\w+\),", "crash_sum"),
    "divide": (r"idiv", "crash_share"),
    "trap": (r"ud2", "crash_trap"),
    "use-after-free": (r"\(%r\w+\)", r"Py\w+"),
    "use-after-free-debug": (r"\(%r\w+\)", r"Py\w+"),
    "underflow": (r"\(%r\w+\)", r"_?Py\w+"),
    "overflow-c": (r"push|call|mov|or|sub", None),
    "no-gil": (r"\(%r\w+\)", r"\w+"),
    "no-gil-error": (r"\(%r\w+\)", r"\w+"),
    "released": (r"\(%r\w+\)", r"\w+"),
    "finalised": (r"\(%r\w+\)", r"\w+"),
    "handle": (r"mov +0x18\(%rdi\),", "crash::Data::GetHandle"),
    "handle-native": (r"mov +0x18\(%rdi\),", "crash::Data::GetHandle"),
    "race": (r"mov +\(%rax\),", None),
    "tsan-null": (r"0x18\(%r\w+\)", "crash_read_field"),
}
# functions that must be on the stack of a program that aborted
ABORTED_BY = {
    "abort": "(__GI_)?abort",
    "assert": "(__GI_)?__assert_fail",
    "heap": "malloc_printerr|abort",
    "fatal": "_?Py_FatalError\\w*",
    "rust-panic": "core::panicking::\\w+",
    "terminate": "std::terminate|__cxxabiv1::__terminate",
    "terminate-own": "std::terminate|__cxxabiv1::__terminate",
    "terminate-boundary": "std::terminate|__cxxabiv1::__terminate",
    "tsan": "__tsan::\\w+",
}
#: Plain GDB commands, which check that the programs die as they say, followed by `py-crash`.
COMMANDS = (
    'printf "%d %d %#lx\\n", $_siginfo.si_signo, $_siginfo.si_code, $_siginfo._sifields._sigfault.si_addr',
    'printf "%#lx %#lx\\n", $pc, $sp',
    "thread",
    "info registers",
    "x/i $pc",
    "thread apply all bt -no-filters 60",
    "py-crash",
    "py-crash --json",
)


@dataclass(frozen=True)
class Snapshot:
    """The output of GDB and `py-crash`, and the truth."""

    crash: crashes.Crash
    truth: crashes.Truth
    session: gdb_session.Result

    @property
    def page(self) -> str:
        """The crash report as text."""
        return self.session.outputs[6]

    @property
    def document(self) -> Any:
        """The crash report as JSON."""
        return self.session.document(7)

    def role(self, number: int) -> str | None:
        """The role of the thread with a GDB number."""
        (lwp,) = [thread["lwp"] for thread in self.document["threads"] if thread["number"] == number]
        return next((role for role, thread in self.truth.threads.items() if thread.tid == lwp), None)


    @property
    def registers(self) -> list[int]:
        """The values of all integer registers."""
        return [int(value, 16) for value in re.findall(r"^\w+ +(0x[0-9a-f]+)\b", self.session.outputs[3], re.MULTILINE)]

    @property
    def stacks(self) -> dict[int, list[str]]:
        """The functions on the stack of each LWP, innermost first."""
        _, *parts = re.split(r"^Thread \d+ ", self.session.outputs[5], flags=re.MULTILINE)
        found = {}
        for part in parts:
            lwp = re.search(r"LWP (\d+)", part)
            assert lwp, part
            rows = re.findall(r"^#\d+ +(?:0x[0-9a-f]+ in )?(<.+>|.+?(?= \())", part, re.MULTILINE)
            found[int(lwp.group(1))] = [row.partition("(")[0] for row in rows]
        return found


@pytest.fixture(scope="module", params=crashes.CASES, ids="-".join)
def snapshot(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Snapshot]:
    story, name, target = request.param
    with crashes.crash(story, name, target, tmp_path_factory.mktemp("crash")) as crash:
        session = gdb_session.batch(crash.gdb_args, COMMANDS, symbols=crash.symbols)
        yield Snapshot(crash, crash.truth, session)


def test_sample_dies_as_it_says(snapshot: Snapshot) -> None:
    truth = snapshot.truth
    assert truth.story == snapshot.crash.story
    check_signal(snapshot)
    check_stacks(snapshot)
    if truth.address is not None and truth.access == "execute":
        assert pc_and_sp(snapshot)[0] == truth.address
    if truth.value is not None:
        assert truth.value in snapshot.registers
    if truth.message:
        assert truth.message in snapshot.crash.errors
    if "stack" in truth.objects:
        check_overflow(snapshot)


def test_fault_is_reported(snapshot: Snapshot) -> None:
    assert snapshot.session.status == 0, snapshot.session
    assert "Traceback" not in snapshot.session.stderr
    truth, crash = snapshot.truth, snapshot.document["crash"]
    fault = crash["fault"]
    assert snapshot.role(crash["thread"]) == truth.dies
    first = truth.more.get("first")
    assert fault["signal"] in (truth.signals if first is None else first["signals"])
    assert fault["code"] == (truth.code if first is None else first["code"])
    assert fault["in_handler"] == (first is not None)
    assert re.fullmatch(crashes.KINDS[snapshot.crash.story], fault["kind"]), fault
    if truth.address is not None:
        assert int(fault["address"], 16) == truth.address
    elif first is not None:
        assert fault["address"] == first["address"]
    if truth.access is not None:
        assert fault["access"] == truth.access
    if truth.value is not None:
        assert any(int(operand["value"], 16) == truth.value for operand in fault["operands"]), fault
    sender = truth.more.get("sender")
    assert fault["sender"] == sender
    assert fault["text"] in snapshot.page.replace("\n", " ")


def test_message_is_reported(snapshot: Snapshot) -> None:
    fault = snapshot.document["crash"]["fault"]
    if snapshot.truth.message is None or snapshot.crash.story == "tsan":
        return
    if snapshot.crash.story == "rust-panic" and fault["message"] == "panic in a function that cannot unwind":
        return  # the message of the first panic is no longer on the stack
    assert snapshot.truth.message in fault["message"]
    exception = snapshot.truth.more.get("exception")
    if exception is not None:
        assert f"of type {exception}:" in fault["text"]


def test_stack_matches_the_truth(snapshot: Snapshot) -> None:
    truth, crash = snapshot.truth, snapshot.document["crash"]
    frames = [[frame["function"], frame["file"], frame["line"]] for frame in crash["stack"]
              if frame["language"] == "python"]
    expected = [list(frame) for frame in truth.victim.stack]
    recursion = truth.more.get("recursion")
    if recursion is not None:
        assert crash["recursion"] is not None
        looped = [[crash["stack"][index]["function"], crash["stack"][index]["file"], crash["stack"][index]["line"]]
                  for index in crash["recursion"]["round"]]
        assert list(recursion) in looped
        assert crash["recursion"]["rounds"] > 100
    elif not crash["frames_left_out"]:
        assert frames == expected
    if snapshot.crash.symbols:
        names = iter(frame["function"] or "" for frame in crash["stack"] if frame["language"] == "native")
        for function in truth.victim.functions:
            assert any(function in name for name in names), (function, crash["stack"][:12])


def test_only_broken_rules_are_reported(snapshot: Snapshot) -> None:
    findings = snapshot.document["crash"]["findings"]
    expected = RULES.get(snapshot.crash.story, set())
    if snapshot.crash.story in ("use-after-free", "use-after-free-debug", "underflow"):
        expected = {"impossible-object"}
    assert {finding["rule"] for finding in findings} == expected
    for finding in findings:
        assert snapshot.role(finding["thread"]) == snapshot.truth.dies
        if finding["rule"] == "impossible-object":
            assert f"{snapshot.truth.objects['object']:#x}" in finding["text"]
    # what the thread that died has done is above its stack
    first = " ".join(snapshot.page.partition("Instruction:")[0].split())
    assert all(" ".join(finding["text"].split()) in first for finding in findings), first


def test_suspects_are_reported(snapshot: Snapshot) -> None:
    suspects = snapshot.document["crash"]["suspects"]
    expected = SUSPECTS.get(snapshot.crash.story)
    roles = [snapshot.role(suspect["thread"]) for suspect in suspects]
    if expected is None:
        assert not suspects, suspects
    else:
        assert sorted(map(str, roles)) == sorted(expected)
    for suspect in suspects:
        assert suspect["reasons"]
        assert suspect["common_locks"] == []
        assert suspect["covered"].startswith("no lock in common")


# -- checks with plain GDB ------------------------------------------------------------------------------------


def check_signal(snapshot: Snapshot) -> None:
    truth, outputs = snapshot.truth, snapshot.session.outputs
    number, code, address = (int(part, 0) for part in outputs[0].split())
    assert number in [crashes.NUMBERS[name] for name in truth.signals]
    assert code == crashes.CODES[truth.code]
    if truth.address is not None:
        assert address == truth.address
    if truth.code == "SI_KERNEL":
        assert address == 0, "the kernel does not know it"
    if truth.code == "FPE_INTDIV":
        assert address == pc_and_sp(snapshot)[0]
    if truth.code in ("SI_USER", "SI_TKILL"):
        # the same bytes contain the pid and user of the sender
        sender = truth.more.get("sender", {"pid": truth.pid})["pid"]
        assert address & 0xFFFFFFFF == sender
    assert f"(LWP {truth.victim.tid})" in outputs[2] or f"LWP {truth.victim.tid}]" in outputs[2]


def check_stacks(snapshot: Snapshot) -> None:
    if snapshot.crash.target == "no-files":
        return
    truth, stacks = snapshot.truth, snapshot.stacks
    for role, thread in truth.threads.items():
        # without symbols a debugger knows only the exported functions
        known = [each for each in thread.functions if snapshot.crash.symbols or each not in ("release", "crash_throw")]
        rows = iter(stacks[thread.tid])
        for function in known:
            assert any(row == function or row.endswith(f"::{function}") for row in rows), (role, stacks[thread.tid])
        if thread.doing.endswith("waits in read()"):
            assert any("read" in function for function in stacks[thread.tid][:3])
    victim = stacks[truth.victim.tid]
    instruction, innermost = FAULTS.get(truth.story, (None, None))
    if instruction is not None:
        assert re.search(instruction, snapshot.session.outputs[4]), snapshot.session.outputs[4]
    if innermost is not None and snapshot.crash.symbols:
        assert re.fullmatch(innermost, victim[0]), victim
    if truth.story in ABORTED_BY:
        assert any(re.fullmatch(ABORTED_BY[truth.story], function) for function in victim), victim
    if truth.story == "faulthandler":
        assert victim.index("<signal handler called>") < victim.index("crash_read_field")


def check_overflow(snapshot: Snapshot) -> None:
    """Check that the fault address is below the stack and close to the stack pointer."""
    address = int(snapshot.session.outputs[0].split()[2], 0)
    _, sp = pc_and_sp(snapshot)
    lowest = snapshot.truth.objects["stack"]
    assert lowest - PAGE <= address < lowest + PAGE
    assert abs(address - sp) < 16 * PAGE


def pc_and_sp(snapshot: Snapshot) -> tuple[int, int]:
    pc, sp = (int(value, 0) for value in snapshot.session.outputs[1].split())
    return pc, sp


# -- incomplete cores ---------------------------------------------------------------------------------------------


def test_missing_files_are_named(tmp_path: Path) -> None:
    with crashes.crash("handle", "3.11", "no-files", tmp_path) as crash:
        session = gdb_session.batch(crash.gdb_args, ("py-crash --json", "py-crash"))
        truth = crash.truth
    assert session.status != 0
    assert "the executable is not known to GDB" in session.stderr
    report = session.document(0)["crash"]
    assert report["fault"]["kind"] == "null-member"
    assert report["fault"]["evidence"] == "inferred"
    assert report["fault"]["address"] == f"{truth.address:#x}"
    # the instruction is not in the core, and GDB reads zeros in its place
    assert report["fault"]["instruction"] is None
    assert len(report["stack"]) == 1
    assert re.search(r"crash_handles\.so \(build id [0-9a-f]{40}\): frames in it have no names", report["missing"][0])
    assert "libstdc++.so.6" in report["missing"][1]
    assert f"Missing: {report['missing'][0]}" in session.outputs[1]


def test_wrong_library_is_named_with_both_build_ids(tmp_path: Path) -> None:
    with crashes.crash("handle", "3.11", "kernel-core", tmp_path / "run") as crash:
        executable, core = map(Path, crash.gdb_args)
        whole = _whole(crash)
        library = re.search(r"(\S+crash_handles\.so)", gdb_session.batch(
            [executable, core], ("info sharedlibrary",), load=False).outputs[0])
        assert library is not None
        # the same file except for its build id, where GDB searches first
        root = tmp_path / "root"
        copy = root / library.group(1).lstrip("/")
        copy.parent.mkdir(parents=True)
        data = Path(library.group(1)).read_bytes()
        build_id = bytes.fromhex(_build_id(data))
        assert data.count(build_id) == 1
        other = bytes(byte ^ 0xFF for byte in build_id)
        copy.write_bytes(data.replace(build_id, other))
        session = gdb_session.batch(["-iex", f"set sysroot {root}", executable, core], ("py-crash --json",))
    document = session.document(0)
    assert session.status != 0
    assert "not the files that the core was made with" in session.stderr
    (problem,) = [each for each in document["problems"] if each["where"] == "crash_handles.so"]
    assert build_id.hex() in problem["why"]
    assert other.hex() in problem["why"]
    assert document["crash"]["fault"]["address"] == whole["crash"]["fault"]["address"]


@pytest.mark.parametrize("part", [0.8, 0.3])
def test_truncated_core_gives_a_partial_report(tmp_path: Path, part: float) -> None:
    with crashes.crash("handle", "3.11", "kernel-core", tmp_path) as crash:
        _, core = map(Path, crash.gdb_args)
        size = core.stat().st_size
        os.truncate(core, int(size * part))
        session = gdb_session.batch(crash.gdb_args, ("py-crash --json",))
        truth = crash.truth
    document = session.document(0)
    fault = document["crash"]["fault"]
    assert fault["signal"] == "SIGSEGV"
    assert fault["address"] == f"{truth.address:#x}"
    assert re.match(r"the core is truncated: [0-9,]+ of [0-9,]+ bytes are there", document["crash"]["missing"][0])


def test_process_without_a_crash_gives_one_line(tmp_path: Path) -> None:
    python, _ = interpreters.use("3.11")
    with samples.rapids(python, "rwlock", tmp_path) as sample:
        session = gdb_session.batch(["-p", str(sample.pid)], ("py-crash",))
    assert session.status != 0
    assert session.outputs == ("",)
    assert session.stderr.strip().splitlines()[-1] == (
        "py-crash: no thread was stopped by a signal that ends programs; `py-deadlocks` finds hangs; "
        "`info threads` shows all threads")


def _whole(crash: crashes.Crash) -> Any:
    return gdb_session.batch(crash.gdb_args, ("py-crash --json",)).document(0)


def _build_id(data: bytes) -> str:
    at = data.index(b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0")
    return data[at + 16:at + 36].hex()


def test_hang_ended_by_sigabrt_has_no_fault(tmp_path: Path) -> None:
    """A hung program that is sent SIGABRT to get a core: there is no fault, but a rule is broken."""
    python, _ = interpreters.use("3.11")
    with samples.rapids(python, "rwlock", tmp_path) as sample, cores.place(sample, python, "kernel-core") as where:
        session = gdb_session.batch(where, ("py-crash --json", "py-deadlocks --json"))
        main = sample.truth.threads["main"].tid
    assert session.status == 0
    document, verdict = session.document(0), session.document(1)
    crash = document["crash"]
    assert (crash["fault"]["kind"], crash["fault"]["code"]) == ("sent", "SI_USER")
    assert crash["fault"]["sender"]["pid"] == os.getpid()
    (finding,) = crash["findings"]
    assert finding["rule"] == "blocks-with-gil"
    lwps = {thread["number"]: thread["lwp"] for thread in document["threads"]}
    assert lwps[finding["thread"]] == main
    assert len(verdict["deadlocks"]) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_variables_of_another_users_core_are_in_no_file(tmp_path: Path) -> None:
    with crashes.crash("null-read", "3.11", "kernel-core", tmp_path / "crash") as crash:
        core = Path(crash.gdb_args[-1])

        def has_variables(*options: str) -> bool:
            page = tmp_path / "page.html"
            done = launcher.launch_by(launcher.command("report", core, "--html", page, "--json", *options, gdb=None))
            assert done.status == 1, done
            document = done.document()
            notes = [code["code"] for code in document.get("note_codes", ())]
            found = any(frame.get("locals") for frame in document["crash"]["stack"])
            assert ("values-withheld" in notes) == (not found)
            assert ("values of variables are left out of this file because the core" in page.read_text()) != found
            return found

        assert has_variables()
        os.chown(core, 65534, 65534)
        assert not has_variables()
        assert has_variables("--values")
