"""Checks docs/internals/architecture.md: the rooms that each module imports, and the members that decoders read."""

from __future__ import annotations

import ast
import functools
import importlib.util
import sysconfig
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import pytest

import gdbext
from gdbext.layout.members import read_specs
from gdbext.layout.select import debug_offsets
from gdbext.worklist import walk

HOME = Path(gdbext.__file__).resolve().parent
MODULES = {".".join(path.relative_to(HOME.parent).with_suffix("").parts).replace(".__init__", ""): path
           for path in sorted(HOME.rglob("*.py"))}
#: The rooms from the first that data comes to: each may import those before it, and modules at the top go with them.
ORDER = ("record", "remembered", "errors", "worklist", "library", "libraries", "model", "redact", "inferior", "elf",
         "dwarf", "layout", "arch", "runtimes", "musl", "glibc", "cpython", "targets", "proofs", "threads", "locks",
         "libraries.*", "waits", "holders", "stacks", "tasks", "verdict", "known", "jobs", "crash", "snapshot",
         "glance", "narrate", "schema", "processes", "render", "commands", "launcher", "direct", "debugger")
#: What is not of the standard library, and who may import it; `typing_extensions` is there for type checkers only.
FOREIGN = {"gdb": "gdbext.debugger", "shtab": "gdbext.launcher", "tqdm": "gdbext.launcher",
           "capstone": "gdbext.arch",
           "jinja2": "gdbext.render.html", "markupsafe": "gdbext.render.html",
           "pygments": "gdbext.render.style", "pytest": "gdbext.launcher.pytest_plugin",
           "distributed": "gdbext.launcher.verbs.dask",
           "typing_extensions": "gdbext.record"}


@functools.cache
def parsed(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text(encoding="utf-8"))


def imported(module: str) -> Iterator[str]:
    """Everything a module imports anywhere, `from x import y` as ``x`` or, where y is a module, as ``x.y``."""
    for node in ast.walk(parsed(module)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} has a relative import"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if whole in MODULES else str(node.module)


def layer(module: str) -> str:
    """The folder of a module; the module itself if it is at the top.

    A library describes itself in the ``__init__.py`` of its folder. Its other modules, which see the target, are a room
    above the threads.
    """
    parts = module.split(".")
    return "gdbext.libraries.*" if parts[1:2] == ["libraries"] and len(parts) > 3 else ".".join(parts[:2])


def test_the_parser_sees_the_modules() -> None:
    assert len(MODULES) > 30
    assert "gdbext.snapshot" in MODULES
    assert {"gdbext.cpython.gil", "gdbext.model", "gdbext.errors"} <= set(imported("gdbext.threads.python_side"))


@pytest.mark.parametrize("module", MODULES)
def test_a_room_imports_only_rooms_before_it(module: str) -> None:
    room = layer(module).partition(".")[2]
    ours = {layer(name).partition(".")[2] for name in imported(module) if name.partition(".")[0] == "gdbext"}
    if room == "__main__" or module == "gdbext":
        assert ours <= {"launcher"}
    elif room:
        if module in ("gdbext.launcher.cli", "gdbext.launcher.verbs.issue"):
            ours -= {""}  # the version
        assert ours <= {room, *ORDER[:ORDER.index(room)]}  # a ValueError here: say in ORDER where the new room belongs
    else:
        assert not ours


def circles(graph: Mapping[str, Collection[str]]) -> list[set[str]]:
    """The sets of nodes that lead to each other."""
    reached = {node: set(walk(graph[node], graph.__getitem__)) for node in graph}
    return [set(each) for each in {frozenset(other for other in reached[node] if node in reached[other])
                                   for node in graph if node in reached[node]}]


def test_circles_are_found() -> None:
    assert circles({"a": "b", "b": "c", "c": "b", "d": "a"}) == [{"b", "c"}]
    assert circles({"a": "b", "b": ""}) == []


def test_modules_do_not_import_each_other_in_a_circle() -> None:
    """Imports inside of functions and for type checkers count too."""
    graph = {module: {name for name in imported(module) if name in MODULES and name != module} for module in MODULES}
    assert circles(graph) == []


def test_libraries_do_not_know_each_other() -> None:
    for module in MODULES:
        if module.startswith("gdbext.libraries."):
            own = ".".join(module.split(".")[:3])
            assert {name for name in imported(module) if name.startswith("gdbext.libraries")
                    and name != own and not name.startswith(f"{own}.")} == set(), module


def test_renderers_see_nothing_of_the_target() -> None:
    for module in MODULES:
        if layer(module) == "gdbext.render":
            assert {layer(name) for name in imported(module) if name.startswith("gdbext")} <= {
                "gdbext.model", "gdbext.record", "gdbext.errors", "gdbext.narrate", "gdbext.render"}


def test_a_verdict_is_a_function_of_a_report() -> None:
    """Nothing is read from the target, so a report from JSON is judged in the same way."""
    for module in MODULES:
        if layer(module) == "gdbext.verdict":
            assert {layer(name) for name in imported(module) if name.startswith("gdbext")} <= {
                "gdbext.model", "gdbext.record", "gdbext.errors", "gdbext.verdict"}


def test_words_are_chosen_without_markup_and_without_escaping() -> None:
    for module in MODULES:
        if layer(module) == "gdbext.narrate":
            assert {layer(name) for name in imported(module) if name.startswith("gdbext")} <= {
                "gdbext.jobs", "gdbext.library", "gdbext.libraries", "gdbext.model", "gdbext.record", "gdbext.verdict",
                "gdbext.narrate"}
    assert all(layer(name) != "gdbext.verdict" or name in ("gdbext.verdict.judge", "gdbext.verdict.changes")
               for module in MODULES
               if layer(module) == "gdbext.narrate" for name in imported(module))
    # and what comes from the target becomes HTML in one place
    renderers = [module for module in MODULES if layer(module) == "gdbext.render"]
    assert [module for module in renderers if {"html", "jinja2", "markupsafe"} & {*imported(module)}] == [
        "gdbext.render.html"]


#: The modules that write for people; their parameters are `Safe`, or they escape what they are given.
WRITERS = {"gdbext.launcher.output", "gdbext.debugger.output", "gdbext.launcher.snapshots.progress",
           "gdbext.launcher.pytest_plugin"}


def writes(node: ast.AST) -> bool:
    """Whether a call writes to a stream of the user, or makes an error that GDB shows."""
    if not isinstance(node, ast.Call):
        return False
    called = ast.unparse(node.func)
    to_file = any(keyword.arg == "file" and not ast.unparse(keyword.value).startswith("sys.")
                  for keyword in node.keywords)
    return called in ("sys.stdout.write", "sys.stderr.write", "sys.stdout.writelines", "gdb.write", "gdb.GdbError"
                      ) or called == "print" and not to_file


def test_calls_that_write_are_found() -> None:
    for text in ("print(1)", "print(1, file=sys.stderr)", "sys.stdout.write('')", "raise gdb.GdbError('')"):
        assert any(map(writes, ast.walk(ast.parse(text)))), text
    for text in ("print(1, file=answer)", "write('')", "except_for(gdb.GdbError)"):
        assert not any(map(writes, ast.walk(ast.parse(text)))), text


@pytest.mark.parametrize("module", MODULES)
def test_text_reaches_people_at_one_place(module: str) -> None:
    if module not in WRITERS:
        assert [ast.unparse(node) for node in ast.walk(parsed(module)) if writes(node)] == []
    if layer(module) != "gdbext.render":
        made = [ast.unparse(node) for node in ast.walk(parsed(module)) if isinstance(node, ast.Call)
                and ast.unparse(node.func) in ("Safe", "cast") and "Safe" in ast.unparse(node)]
        assert made == [], "only gdbext.render may say that text is safe"


def of_standard_library(name: str) -> bool:
    """Whether a top-level module came with Python itself."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        return False
    if spec.origin in ("built-in", "frozen"):
        return True
    paths = sysconfig.get_paths()
    roots = [Path(paths[key]).resolve() for key in ("stdlib", "platstdlib")]
    path = Path(spec.origin).resolve()
    return any(root in path.parents for root in roots) and not {"site-packages", "dist-packages"} & set(path.parts)


def test_what_counts_as_standard_library() -> None:
    assert all(of_standard_library(name) for name in ("sys", "os", "json", "struct", "collections", "_thread"))
    assert not any(of_standard_library(name) for name in ("pytest", "gdbext", "no_such_module"))


@pytest.mark.parametrize("module", MODULES)
def test_only_the_standard_library_is_sure_to_exist_inside_gdb(module: str) -> None:
    for name in {name.partition(".")[0] for name in imported(module)} - {"gdbext"}:
        if name in FOREIGN:
            assert module == FOREIGN[name] or module.startswith(FOREIGN[name] + "."), f"{module} imports {name}"
        else:
            assert of_standard_library(name), f"{module} imports {name}"


def test_the_launcher_runs_without_gdb() -> None:
    """It reads documents, as other people's scripts do; the model says what the words in them mean."""
    for module in MODULES:
        if layer(module) == "gdbext.launcher":
            ours = {name for name in imported(module) if layer(name).startswith("gdbext.")}
            rooms = {"gdbext.launcher", "gdbext.inferior", "gdbext.processes"}
            assert {name for name in ours if layer(name) not in rooms} <= {
                "gdbext.commands", "gdbext.commands.answer", "gdbext.commands.report_options",
                "gdbext.elf.core_contents", "gdbext.elf.core_file", "gdbext.elf.headers", "gdbext.elf.notes",
                "gdbext.errors", "gdbext.glance", "gdbext.jobs.job", "gdbext.known.fingerprint", "gdbext.model",
                "gdbext.model.kinds", "gdbext.narrate.brief",
                "gdbext.model.reasons", "gdbext.model.verdict", "gdbext.narrate", "gdbext.narrate.classes",
                "gdbext.narrate.cluster", "gdbext.narrate.deadlocks", "gdbext.narrate.frames", "gdbext.narrate.issue",
                "gdbext.narrate.known", "gdbext.narrate.names",
                "gdbext.narrate.operations", "gdbext.narrate.processes", "gdbext.narrate.ranks",
                "gdbext.narrate.reasons", "gdbext.narrate.sentences", "gdbext.narrate.threads",
                "gdbext.narrate.verdict", "gdbext.narrate.watching", "gdbext.narrate.words",
                "gdbext.record", "gdbext.redact", "gdbext.render.brief", "gdbext.render.changes",
                "gdbext.render.dot", "gdbext.render.escape", "gdbext.render.html", "gdbext.render.issue",
                "gdbext.render.output_file",
                "gdbext.render.plain_text", "gdbext.render.py_spy",
                "gdbext.render.shown", "gdbext.render.style", "gdbext.render.text",
                "gdbext.schema.ranks", "gdbext.schema.read", "gdbext.schema.shapes", "gdbext.schema.write",
                "gdbext.verdict.changes", "gdbext.verdict.graph", "gdbext.verdict.judge"}, module


# -- members --------------------------------------------------------------------------------------------------

def declared() -> dict[str, set[str]]:
    """Structure -> members that layout/members.json lists, by the names that decoders use."""
    return {name: {member.partition("=")[0].strip() for member in spec.members}
            for runtime in ("cpython", "glibc", "libgomp") for name, spec in read_specs(runtime).items()}


def strings(node: ast.AST | None) -> list[str]:
    """The strings that an expression may be or hold: a literal, either branch of a condition, items, keys."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    if isinstance(node, ast.IfExp):
        return strings(node.body) + strings(node.orelse)
    if isinstance(node, (ast.List, ast.Tuple)):
        return [text for item in node.elts for text in strings(item)]
    if isinstance(node, ast.Dict):
        return [text for key in node.keys for text in strings(key)]
    if isinstance(node, ast.BinOp):
        return strings(node.left) + strings(node.right)
    return []


class Asks(ast.NodeVisitor):
    """Collects (structures, member) that one function asks its layouts for."""

    def __init__(self) -> None:
        self.found: list[tuple[tuple[str, ...], str, int]] = []
        self.structures: list[tuple[str, int]] = []
        self.unresolved: list[int] = []
        self._structs: dict[str, list[str]] = {}
        self._texts: dict[str, list[str]] = {}

    def _struct_of(self, node: ast.AST | None) -> list[str]:
        """Names of the structures that an expression may be the layout of."""
        if isinstance(node, ast.IfExp):
            return self._struct_of(node.body) + self._struct_of(node.orelse)
        if isinstance(node, ast.Name):
            return self._structs.get(node.id, [])
        if isinstance(node, ast.Subscript):
            text = ast.unparse(node.value)
            if text in ("layouts", "table") or text.endswith("layouts"):
                return self._resolve(node.slice)
        return []

    def _resolve(self, node: ast.AST) -> list[str]:
        if isinstance(node, ast.Name):
            return self._texts.get(node.id, [])
        if isinstance(node, ast.Starred):
            return self._resolve(node.value)
        return strings(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        outer = dict(self._structs), dict(self._texts)
        self.generic_visit(node)
        self._structs, self._texts = outer

    def visit_For(self, node: ast.For) -> None:
        if isinstance(node.target, ast.Name):
            self._texts[node.target.id] = self._resolve(node.iter)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        if isinstance(node.target, ast.Name):
            self._texts[node.target.id] = self._resolve(node.iter)
        self.generic_visit(node)

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> None:
        for generator in node.generators:
            self.visit(generator)
        self.visit(node.elt)

    def visit_Assign(self, node: ast.Assign) -> None:
        target = node.targets[0]
        if isinstance(target, ast.Name):
            structs = self._struct_of(node.value)
            if structs:
                self._structs[target.id] = structs
            elif strings(node.value):
                self._texts[target.id] = strings(node.value)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name) and node.target.id in self._texts:
            self._texts[node.target.id] = self._texts[node.target.id] + strings(node.value)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Attribute):
            structs = self._struct_of(node.func.value)
            if node.func.attr in ("reader", "optional", "packed", "offset") and structs:
                for argument in node.args:
                    self._ask(structs, self._resolve(argument), node.lineno)
            elif node.func.attr in ("read_member", "read_members") and len(node.args) > 2:  # of `Objects`
                names = self._resolve(node.args[0])
                self.structures += [(name, node.lineno) for name in names]
                for argument in node.args[2:]:
                    self._ask(names, self._resolve(argument), node.lineno)
            elif node.func.attr == "has" and len(node.args) == 2:
                self._ask(self._resolve(node.args[0]), self._resolve(node.args[1]), node.lineno)
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self.structures += [(name, node.lineno) for name in self._struct_of(node)]
        structs = self._struct_of(node.value)
        if structs:
            self._ask(structs, self._resolve(node.slice), node.lineno)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        if isinstance(node.ops[0], (ast.In, ast.NotIn)):
            structs = self._struct_of(node.comparators[0])
            if structs:
                self._ask(structs, self._resolve(node.left), node.lineno)
        self.generic_visit(node)

    def _ask(self, structs: list[str], members: list[str], line: int) -> None:
        if not structs or not members:
            self.unresolved.append(line)
        self.found += [(tuple(structs), member, line) for member in members]


#: The modules that ask layouts for members by name.
DECODERS = [module for module in MODULES if layer(module) in (
    "gdbext.cpython", "gdbext.glibc", "gdbext.threads", "gdbext.locks", "gdbext.libraries.*", "gdbext.waits",
    "gdbext.holders", "gdbext.stacks", "gdbext.verdict", "gdbext.crash", "gdbext.snapshot")]
#: Where names are computed: all members of a table, or those of a table of this module's own.
COMPUTED = {"gdbext.cpython.runtime": 1}


def asks(module: str) -> Asks:
    made = Asks()
    made.visit(parsed(module))
    return made


@pytest.mark.parametrize("module", DECODERS)
def test_every_member_that_a_decoder_asks_for_is_listed(module: str) -> None:
    listed, found = declared(), asks(module)
    for name, line in found.structures:
        assert name in listed, f"{module}:{line} asks for {name}"
    for structs, member, line in found.found:
        # where it may be one of two structures, either may have the member
        assert any(member in listed.get(name, ()) for name in structs), f"{module}:{line}: {structs} has no {member}"
    assert len(found.unresolved) <= COMPUTED.get(module, 0), f"{module}:{found.unresolved} cannot be resolved"


def test_the_collector_sees_what_decoders_ask_for() -> None:
    found = {(name, member) for module in DECODERS for structs, member, _ in asks(module).found for name in structs}
    assert {
        ("pthread_rwlock_t", "__cur_writer"), ("pthread_mutex_t", "__kind"), ("struct pthread", "joinstate"),
        ("_gil_runtime_state", "switch_cond"), ("PyThreadState", "eval_breaker"), ("PyThreadState", "root_cframe"),
        ("_PyInterpreterFrame", "instr_ptr"), ("_PyInterpreterFrame", "f_code"), ("_PyInterpreterFrame", "is_entry"),
        ("PyDictUnicodeEntry", "me_value"), ("PyFrameObject", "f_lasti"), ("PyCodeObject", "co_qualname"),
        ("_stoptheworld_state", "requester"), ("PySetObject", "table"), ("PyLongObject", "lv_tag"),
    } <= found
    assert len(found) > 70


def test_debug_offsets_are_laid_over_listed_members() -> None:
    listed = declared()
    for group, (name, members) in debug_offsets().items():
        for theirs, ours in members.items():
            assert ours in listed[name], f"{group}.{theirs}"
            assert f"{group}.{theirs}" in listed["_Py_DebugOffsets"], f"{group}.{theirs}"
