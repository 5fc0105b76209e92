#!/usr/bin/env python3
"""Write docs/support.md: what gdbext is tested with and what it decodes, as the tests and tables themselves list it.

The interpreters, scenarios, Debian releases and GDBs are those that the tests go through, the layouts those in
`gdbext/layout/tables`, the kinds of locks those of `gdbext/model/kinds.py` and `gdbext/libraries`, the crashes those of
`tests/support/crashes.py`, the precision that of
the headers of the programs in `tests/precision`, which the tests enforce, the rates those of `tests/rates`.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from gdbext.model import kinds  # noqa: E402
from gdbext.waits.lock_kinds import KINDS  # noqa: E402
from tests.crashes import harness as crash_rates  # noqa: E402
from tests.crashes import not_yet as crash_not_yet  # noqa: E402
from tests.precision import harness  # noqa: E402
from tests.rates import harness as rates  # noqa: E402
from tests.rates import not_yet  # noqa: E402
from tests.support import arm64, crashes, interpreters, musl, roots, samples, scenarios  # noqa: E402

PAGE = ROOT / "docs" / "support.md"
TABLES = ROOT / "gdbext" / "layout" / "tables"

_TABLE_NAME = re.compile(r"(cpython|glibc|libgomp|numpy)-(\d+(?:\.\d+)*)-(?:(.+)-)?(x86_64|aarch64)$")
_SEVERAL = {
    "shared": "two interpreters with one GIL",
    "ended": "two interpreters, one of them gone",
    "own": "three interpreters with a GIL each",
}

class Incomplete(Exception):
    """Something that the tests or tables list is not described here."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page, print it, or check it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}; else it is printed")
    choice.add_argument("--check", action="store_true", help="exit with status 1 if the page is out of date")
    options = parser.parse_args(arguments)
    try:
        made = page()
    except Incomplete as error:
        print(f"support_matrix: {error}", file=sys.stderr)
        return 1
    if options.check:
        if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != made:
            print("support_matrix: docs/support.md is out of date; scripts/support_matrix.py --write", file=sys.stderr)
            return 1
    elif options.write:
        PAGE.write_text(made, encoding="utf-8")
    else:
        print(made, end="")
    return 0


def page() -> str:
    """The text of docs/support.md.

    :raises Incomplete: something that is listed elsewhere is not described here.
    """
    parts = ["# What gdbext is tested with and decodes", "",
             "Made by `scripts/support_matrix.py --write` from the lists that the tests themselves go through; do not "
             "edit it.", "A test whose interpreter, Debian release or GDB is not available is skipped with the reason, "
             "unless `GDBEXT_REQUIRE`", "names it.", ""]
    for section in (_machines, _interpreters, _embedding, _roots, _gdbs, _locks, _libraries, _crashes, _precision,
                    _rates, _crash_rates, _layouts):
        parts += [*section(), ""]
    return "\n".join(parts[:-1]) + "\n"


def _interpreters() -> Iterator[str]:
    yield "## CPython"
    yield ""
    yield ("The deadlock of GIL and driver lock (`tests/gdb/test_main_job.py`), x86-64, default builds. `-stripped` is "
           "a copy without symbols, `debian` the system's own `python3`.")
    yield ("`.ci/run` tests Debian's Python, 3.9, 3.11, 3.13 and 3.13t, with every lock and every target of a row at "
           "least once. `.ci/run --all` tests all interpreters and all combinations, before an issue is closed.")
    yield ""
    rows = {}
    for name in interpreters.NAMES:
        cases = [case for case in scenarios.RAPIDS_CASES if case[0] == name]
        variants, targets = ([each for each in order if each in {case[i] for case in cases}]
                             for i, order in ((1, samples.RAPIDS_VARIANTS), (2, scenarios.RAPIDS_TARGETS)))
        if not variants:
            raise Incomplete(f"{name} is in no case of scenarios.py")
        never = name.removesuffix("-stripped") in interpreters.NEVER_RUN
        looked = "not yet: no such interpreter was available" if never else ", ".join(targets)
        rows[name] = (f"`{name}`", ", ".join(variants), looked)
    yield from _table(("interpreter", "the driver's lock", "inspected"), rows.values())


def _embedding() -> Iterator[str]:
    yield "## Programs that embed Python, several interpreters, Python that does not run"
    yield ""
    embedded: dict[str, list[str]] = {}
    for name, linked in scenarios.EMBEDDED:
        embedded.setdefault(linked, []).append(name)
    several: dict[str, list[str]] = {}
    for name, variant in scenarios.SUBINTERPRETERS:
        several.setdefault(variant, []).append(name)
    rows = [(f"embedded, {linked}", _names(names)) for linked, names in embedded.items()]
    rows += [(_SEVERAL[variant], _names(names)) for variant, names in several.items()]
    rows.append(("not initialised, finalising, finalised, initialised again", _names(scenarios.NOT_RUNNING)))
    rows.append(("ends while a daemon thread wants the GIL", _names(scenarios.ENDING)))
    yield from _table(("what", "interpreters"), rows)


def _machines() -> Iterator[str]:
    yield "## Processors and C libraries"
    yield ""
    yield "What programs of the tests ran on; the other sections have the details of the first two rows."
    yield ""
    arm = [*arm64.COMMANDS, *arm64.CRASHES]
    ran = [name for name in (*interpreters.VERSIONS, *interpreters.FREE_THREADED_VERSIONS)
           if name not in interpreters.NEVER_RUN]
    yield from _table(("processor", "C library", "Python", "inspected", "what"), [
        ("x86-64", "glibc of this machine", _names(ran), "live, cores", "all tests"),
        ("x86-64", f"glibc of {_names([*interpreters.SUITES, *interpreters.OLD_SUITES])}", "the release's own",
         "live, cores", "`test_roots.py`"),
        ("x86-64", "glibc, static, with and without symbols", "none", "live, cores", "`test_other_libc.py`: abba"),
        ("x86-64", f"musl: {_names(musl.LINKED)}", "none", "live; one core", f"`test_musl.py`: {_names(musl.WAYS)}"),
        ("arm64", "glibc 2.36 (Debian 12, emulated)", "none, 3.11", "cores, on x86-64 without GDB",
         f"`test_arm64.py`: {_names(arm)}"),
    ])


def _roots() -> Iterator[str]:
    yield "## Debian releases"
    yield ""
    yield ("Each with its own GDB, glibc and Python, inspected from inside and from a GDB outside, live and as a core "
           f"(`tests/gdb/test_roots.py`): {_names(interpreters.SUITES)}. Scenarios: "
           + ", ".join(f"{sample} {variant}" for sample, variant in scenarios.ROOT_SCENARIOS) + ".")
    yield ""
    yield ("Ubuntu releases, whose GDB may be too old, inspected by a GDB outside "
           f"(`test_roots.py`, scenarios of abba): {_names(interpreters.OLD_SUITES)}.")
    yield ""
    yield "Further interpreters that Debian packages for them, in whichever micro version there is:"
    yield ""
    if set(roots.PACKAGED) != set(interpreters.ROOT_PYTHONS):
        raise Incomplete("roots.PACKAGED and interpreters.ROOT_PYTHONS differ")
    rows = []
    for name in interpreters.ROOT_PYTHONS:
        packaged = roots.PACKAGED[name]
        variants = [variant for other, variant in scenarios.ROOT_PYTHON_CASES if other == name]
        rows.append((f"`{name}`", packaged.package, packaged.what, ", ".join(variants)))
    yield from _table(("name", "package", "build", "the driver's lock"), rows)


def _gdbs() -> Iterator[str]:
    yield "## GDB"
    yield ""
    yield (f"The system's, those of {_names(interpreters.SUITES)}, and {_names(interpreters.GDBS)}. The oldest is GDB "
           "10.1 of bullseye, which has Python 3.9 inside.")


def _locks() -> Iterator[str]:
    yield "## Kinds of locks"
    yield ""
    functions: dict[str, list[str]] = {row.kind: sorted(row.functions) for row in KINDS}
    known = kinds.all_kinds()
    missing = set(functions) - set(known)
    if missing:
        raise Incomplete(f"gdbext/model/kinds.py has no row for {sorted(missing)}")
    left = sorted(kind for kind, row in known.items() if kind not in functions and not row.waited_in)
    if left:
        raise Incomplete(f"no recogniser of lock_kinds.py finds {left}; if others do, their rows need `waited_in`")
    rows = [(f"`{kind}`", ", ".join(f"`{name}`" for name in functions.get(kind, ())) or row.waited_in, row.found)
            for kind, row in known.items()]
    yield from _table(("kind", "functions one blocks in", "how its holders are known"), rows)
    yield ""
    yield ("Native locks without Python (`tests/gdb/test_native.py`): " + ", ".join(samples.ABBA_VARIANTS)
           + ", two of them taken in opposite order.")


def _libraries() -> Iterator[str]:
    yield "## Libraries"
    yield ""
    yield "Rules, limits and layouts of single libraries:"
    yield ""
    for path in sorted((PAGE.parent / "libraries").glob("*.md")):
        title = path.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")
        yield f"- [{title}](libraries/{path.name})"


def _crashes() -> Iterator[str]:
    yield "## Crashes"
    yield ""
    yield ("What `py-crash` says of programs that die, each in its own way, and print the truth about it before "
           "(`tests/samples/crash*`, `tests/gdb/test_crash.py`): from the")
    yield ("kernel's core in all of the interpreters, otherwise in one of them. Kinds are those of "
           "[json.md](json.md#kinds-of-faults).")
    yield ""
    if set(crashes.KINDS) != set(crashes.STORIES):
        raise Incomplete("KINDS and STORIES of crashes.py differ")
    rows = []
    for story, kind in crashes.KINDS.items():
        names, targets = ([*dict.fromkeys(case[i] for case in crashes.CASES if case[0] == story)] for i in (1, 2))
        if not names:
            raise Incomplete(f"{story} is in no case of crashes.py")
        kinds = " or ".join(f"`{each}`" for each in kind.split("|"))
        # that has no Python in it, whichever interpreter it goes by
        pythons = "none" if crashes.STORIES[story].needs == "tsan" else _names(names)
        rows.append((story, kinds, pythons, ", ".join(targets)))
    yield from _table(("program", "kind of fault", "interpreters", "inspected"), rows)


def _precision() -> Iterator[str]:
    yield "## Precision"
    yield ""
    programs = harness.programs()
    yield (f"{len(programs)} programs after public reports of deadlocks, and of healthy programs of the same sort "
           "(`tests/precision`), each run with the interpreters that it is for.")
    yield (f"A deadlocked one is inspected as a process and as a core, a healthy one while it runs, with GDB and "
           f"several times without ({harness.LONG_LOOKS} and {harness.LONG_LOOKS_WITHOUT_GDB} times with "
           "`scripts/precision --long`), and as a core. "
           "Right: what is said is true and all of it")
    yield ("is said; silent: nothing is said of a deadlock; false: something is said that is not so. The tests fail "
           "where a program does worse than this. Each time they run a program with one of its interpreters, "
           "`scripts/precision` with all; both print the score.")
    yield ""
    counted: dict[tuple[str, str], list[int]] = {}
    for program in programs:
        for python in program.pythons:
            for target in ("live", "core") if program.core else ("live",):
                row = counted.setdefault((program.expect, target), [0, 0])
                row[not {target, f"{target}-{python}"}.isdisjoint(program.silent)] += 1
    rows = [(expect, "process" if target == "live" else "core", str(right), str(silent), "0")
            for (expect, target), (right, silent) in sorted(counted.items())]
    yield from _table(("program", "inspected", "right", "silent", "false"), rows)
    yield ""
    yield ("A core does not contain handlers of signals, and not every lock records its owner. So gdbext is silent "
           "about:")
    yield ""
    yield from (f"- {program.name} ({', '.join(program.silent)})" for program in programs if program.silent)


def _rates() -> Iterator[str]:
    yield "## Rates"
    yield ""
    programs = rates.programs()
    counted = [sum(program.expect == expect for program in programs) for expect in ("hang", "healthy")]
    yield (f"What `gdbext report` says of {counted[0]} programs that hang, most of them not because of locks in a "
           f"circle, and of {counted[1]} healthy programs that look the same (`tests/rates`).")
    yield (f"Right: the exit status is the right one, and the first {rates.FIRST_LINES} lines name the cause. Vague: a "
           "hang is reported, but these lines do not name its cause, or it is not proven where it could be. "
           "Unknown: status 3. False comfort: status 0 for a hang. False deadlock: a hang is called proven and is not. "
           "False alarm: status 1 for a healthy program; a weak one: status 5.")
    yield ("The tests fail where an answer is another one than here. `scripts/rates` runs them, with the packages that "
           "some programs take, and prints these rates. The wrong answers are listed in `tests/rates/not_yet.py`.")
    for expect, title in (("hang", "that hang"), ("healthy", "that are healthy")):
        outcomes = rates.OUTCOMES[expect]
        rows = []
        for target, name in (("live", "process"), ("core", "core")):
            found = [not_yet.outcome(f"{program.name}-{target}") or rates.RIGHT for program in programs
                     if program.expect == expect and target in program.targets]
            if found:
                rows.append((name, str(len(found)), *(f"{found.count(outcome)}" for outcome in outcomes)))
        yield ""
        yield from _table((f"programs {title}", "number", *outcomes), rows)


def _crash_rates() -> Iterator[str]:
    yield "## Rates of crashes"
    yield ""
    programs = crash_rates.programs()
    counted = [sum(program.expect == expect for program in programs) for expect in ("crash", "twin")]
    yield (f"What `gdbext report CORE` says of {counted[0]} programs that crash, and of {counted[1]} twins, which "
           "crash for another reason than the program that they resemble (`tests/crashes`); from the kernel's core, "
           "without GDB and by GDB, scripts with each of their interpreters.")
    yield (f"Right: the first {crash_rates.FIRST_LINES} lines name what died, why and where. Vague: they do not. "
           "Untrue: the report says something that is not so. The tests fail where an answer is another one than here.")
    outcomes, rows = crash_rates.OUTCOMES["crash"], []
    for expect, title in (("crash", "that crash"), ("twin", "twins")):
        for target in crash_rates.TARGETS:
            names = ["-".join(filter(None, (program.name, python, target))) for program in programs
                     if program.expect == expect for python in program.pythons]
            found = [crash_not_yet.outcome(name) or crash_rates.RIGHT for name in names]
            rows.append((title, "GDB" if target == "gdb" else "no GDB", str(len(found)),
                         *(f"{found.count(outcome)}" for outcome in outcomes)))
    yield ""
    yield from _table(("programs", "by", "reports", *outcomes), rows)


def _layouts() -> Iterator[str]:
    yield "## Layouts"
    yield ""
    yield ("Versions with a table of their own; another micro version takes the nearest table of its minor that the "
           "memory confirms, and the report says so. Minor versions without a table are refused. "
           "A table alone does not make a build or an architecture supported: see [layouts](internals/layouts.md).")
    yield ""
    known: dict[tuple[str, str, str], list[str]] = {}
    for path in sorted(TABLES.glob("*.json")):
        match = _TABLE_NAME.match(path.stem)
        if match is None:
            raise Incomplete(f"{path.name} is not called as tables are")
        runtime, version, build, machine = match.groups()
        known.setdefault((runtime, build or "", machine), []).append(version)
    rows = [(runtime, build, machine, ", ".join(sorted(versions, key=_numbers)))
            for (runtime, build, machine), versions in sorted(known.items())]
    yield from _table(("runtime", "build", "machine", "versions"), rows)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    for row in (header, ["---"] * len(header), *rows):
        yield f"| {' | '.join(row)} |".replace("|  |", "| |")


if __name__ == "__main__":
    sys.exit(main())
