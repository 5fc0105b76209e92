"""The generated tables: each can be read, and agrees with the C sources and live processes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Optional

import pytest

import gdbext.layout
from gdbext.errors import UnknownLayout
from gdbext.layout import select
from gdbext.layout.members import StructSpec, read_specs
from gdbext.layout.table import Layouts, parse_table

FOLDER = Path(gdbext.layout.__file__).parent / "tables"
PATHS = sorted(FOLDER.glob("*.json"))
Places = dict[str, Optional[int]]
Members = dict[str, Places]
SPECS = {name: read_specs(name) for name in ("cpython", "glibc", "libgomp", "numpy")}

#: Members that no table has, with the reason.
NO_TABLE_HAS: dict[str, str] = {}
#: Structures that only source files declare and that are not Python objects.
NOT_OBJECTS = ("ThreadHandle", "wait_entry", "mutex_entry", "asyncio_state", "_Py_AsyncioModuleDebugOffsets")


def read(name: str) -> Layouts:
    return parse_table((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def offsets(layouts: Layouts, asked: Places) -> Places:
    found: Places = {}
    for path in asked:
        struct, _, member = path.rpartition(".")
        found[path] = layouts[struct].offset(member) if layouts.has(struct, member) else None
    return found


def logical_names(spec: StructSpec) -> list[str]:
    return [member.split("=")[0].strip() for member in spec.members]


# -- every table ------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_file_name_matches_the_table(path: Path) -> None:
    layouts = parse_table(path.read_text(encoding="utf-8"))
    parts = [layouts.runtime, layouts.version, layouts.build, layouts.machine]
    if layouts.runtime != "cpython":
        parts.remove("default")
    assert path.stem == "-".join(parts)
    assert layouts.producer


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_tables_have_only_listed_members_within_structures(path: Path) -> None:
    layouts = parse_table(path.read_text(encoding="utf-8"))
    specs = SPECS[layouts.runtime]
    for name, struct in layouts.structs.items():
        assert set(struct.fields) <= set(logical_names(specs[name])), name
        assert struct.fields, f"{name} has no members"
        for member, field in struct.fields.items():
            assert 0 <= field.offset <= struct.size, (name, member)
            # an array at the end of a structure has no length
            assert field.offset + field.size <= max(struct.size, field.offset + 8), (name, member)
            if field.bits is not None:
                assert sum(field.bits) <= 8 * field.size, (name, member)


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_tables_contain_no_local_paths(path: Path) -> None:
    assert "/" not in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_tables_have_one_structure_per_line(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    lines = [line.strip().rstrip(",") for line in text.splitlines()]
    structs = json.loads(text)["structs"]
    starts = [line.split('"')[1] for line in lines if '"members"' in line]
    assert starts == sorted(structs)


@pytest.mark.parametrize("runtime", sorted(SPECS))
def test_each_listed_member_is_in_some_table(runtime: str) -> None:
    tables = [parse_table(path.read_text(encoding="utf-8")) for path in PATHS if path.name.startswith(runtime)]
    missing = {f"{name}.{member}" for name, spec in SPECS[runtime].items() for member in logical_names(spec)
               if not any(table.has(name, member) for table in tables)}
    assert missing == {name for name in NO_TABLE_HAS if name.partition(".")[0] in SPECS[runtime]}


@pytest.mark.parametrize("build", ["default", "free-threaded"])
@pytest.mark.parametrize("minor", ["3.13", "3.14", "3.15"])
def test_selection_finds_a_table_for_both_builds(minor: str, build: str) -> None:
    layouts = next(select.cpython_candidates(f"{minor}.99", build, "x86_64"))
    assert layouts.version.startswith(minor + ".")
    assert layouts.build == build


# -- CPython ----------------------------------------------------------------------------------------------------
# The numbers below were read from live processes and from headers of the named versions, by other means than the
# script that makes the tables. None: the version lacks the member.

RUNTIME: Members = {
    "3.7.16": {"interpreters_head": 24, "interpreters_main": 32, "finalizing": 8, "main_thread": None,
               "ceval_gil": 1264, "tstate_current": 1480},
    "3.8.18": {"interpreters_head": 32, "finalizing": 16, "main_thread": 72, "ceval_gil": 1152,
               "tstate_current": 1368},
    "3.9.18": {"interpreters_head": 32, "finalizing": 16, "main_thread": 72, "ceval_gil": 352,
               "tstate_current": 568},
    "3.10.13": {"interpreters_head": 32, "finalizing": 16, "main_thread": 72, "ceval_gil": 352,
                "tstate_current": 568},
    "3.11.7": {"interpreters_head": 40, "finalizing": 24, "main_thread": 80, "ceval_gil": 360,
               "tstate_current": 576},
    "3.12.1": {"interpreters_head": 40, "finalizing": 24, "main_thread": 64, "ceval_gil": None,
               "tstate_current": None},
    "3.13.0": {"interpreters_head": 632, "finalizing": 608, "main_thread": 656, "ceval_gil": None,
               "stoptheworld": 10336},
    "3.13.5": {"interpreters_head": 632, "stoptheworld": 10336},
    "3.13.18": {"interpreters_head": 632, "stoptheworld": 10360},
    "3.14.10": {"interpreters_head": 808, "finalizing": 784, "main_thread": 832},
    "3.15.2": {"interpreters_head": 936, "finalizing": 912, "main_thread": 960},
}

INTERPRETER: Members = {
    "3.6.15": {"next": 0, "id": None, "tstate_head": 8, "modules": 16},
    "3.7.16": {"next": 0, "id": 16, "tstate_head": 8, "modules": 40},
    "3.8.18": {"next": 0, "id": 16, "tstate_head": 8, "modules": 56},
    "3.9.18": {"next": 0, "id": 24, "tstate_head": 8, "modules": 856, "gil_drop_request": 76, "gil": None},
    "3.10.13": {"next": 0, "id": 24, "tstate_head": 8, "modules": 856, "gil_drop_request": 72},
    "3.11.7": {"next": 0, "id": 48, "tstate_head": 16, "modules": 888, "gil_drop_request": 104},
    "3.12.1": {"next": 0, "id": 8, "tstate_head": 72, "modules": 944, "gil_drop_request": 372, "gil": 384,
               "own_gil": 392},
    "3.13.0": {"next": 7264, "id": 7272, "tstate_head": 7344, "modules": 7656, "gil": 16, "own_gil": 24},
    "3.14.10": {"next": 7272, "id": 7280, "tstate_head": 7344, "modules": 7688, "gil": 16, "own_gil": 24},
    "3.15.2": {"next": 7264, "id": 7272, "tstate_head": 7336, "modules": 7592, "gil": 16, "own_gil": 24},
}

THREAD: Members = {
    "3.6.15": {"prev": 0, "next": 8, "interp": 16, "frame": 24, "thread_id": 152, "on_delete_data": 184},
    "3.7.16": {"interp": 16, "frame": 24, "thread_id": 176, "on_delete_data": 208},
    "3.8.18": {"interp": 16, "frame": 24, "thread_id": 176, "on_delete_data": 208},
    "3.9.18": {"interp": 16, "frame": 24, "cframe": None, "thread_id": 176, "native_thread_id": None},
    "3.10.13": {"interp": 16, "frame": 24, "thread_id": 176, "on_delete_data": 208},
    "3.11.7": {"interp": 16, "frame": None, "cframe": 56, "thread_id": 152, "native_thread_id": 160,
               "on_delete_data": 192},
    "3.12.1": {"interp": 16, "cframe": 56, "thread_id": 136, "native_thread_id": 144, "on_delete_data": 176,
               "status": 24},
    "3.13.0": {"interp": 16, "current_frame": 72, "cframe": None, "state": 40, "thread_id": 152,
               "native_thread_id": 160, "critical_section": 176, "eval_breaker": 24, "status": 32,
               "on_delete_data": None},
    "3.14.10": {"current_frame": 72, "state": 44, "thread_id": 152, "native_thread_id": 160,
                "critical_section": 176, "holds_gil": 36, "gil_requested": None},
    "3.15.2": {"current_frame": 72, "base_frame": 80, "state": 48, "thread_id": 176, "native_thread_id": 184,
               "critical_section": 200, "holds_gil": 36, "gil_requested": 40},
}

FRAME: Members = {
    "3.11.7": {"f_code": 32, "f_executable": None, "previous": 48, "f_funcobj": 0, "frame_obj": 40,
               "prev_instr": 56, "stacktop": 64, "is_entry": 68, "owner": 69, "localsplus": 72},
    "3.12.1": {"f_code": 0, "previous": 8, "f_funcobj": 16, "frame_obj": 48, "prev_instr": 56, "stacktop": 64,
               "return_offset": 68, "owner": 70, "localsplus": 72, "is_entry": None},
    "3.13.0": {"f_executable": 0, "f_code": None, "previous": 8, "f_funcobj": 16, "frame_obj": 48,
               "instr_ptr": 56, "prev_instr": None, "stacktop": 64, "return_offset": 68, "owner": 70,
               "localsplus": 72},
    "3.14.10": {"f_executable": 0, "previous": 8, "instr_ptr": 56, "stackpointer": 64, "return_offset": 72,
                "owner": 74, "localsplus": 80, "tlbc_index": None},
    "3.15.2": {"f_executable": 0, "previous": 8, "instr_ptr": 56, "stackpointer": 64, "owner": 74,
               "localsplus": 80},
}

FRAME_OBJECT: Members = {
    "3.6.15": {"f_back": 24, "f_code": 32, "f_valuestack": 64, "f_stacktop": 72, "f_lasti": 120, "f_iblock": 128,
               "f_executing": 132, "f_blockstack": 136, "f_localsplus": 376},
    "3.7.16": {"f_lasti": 104, "f_iblock": 112, "f_executing": 116, "f_blockstack": 120, "f_localsplus": 360},
    "3.9.18": {"f_back": 24, "f_code": 32, "f_valuestack": 64, "f_stacktop": 72, "f_lasti": 104, "f_iblock": 112,
               "f_executing": 116, "f_blockstack": 120, "f_localsplus": 360},
    "3.10.13": {"f_stackdepth": 80, "f_stacktop": None, "f_lasti": 96, "f_iblock": 104, "f_state": 108,
                "f_blockstack": 112, "f_localsplus": 352},
}

CODE: Members = {
    "3.6.15": {"co_nlocals": 24, "co_stacksize": 28, "co_flags": 32, "co_firstlineno": 36, "co_filename": 96,
               "co_name": 104, "co_linetable": 112},
    "3.8.18": {"co_nlocals": 28, "co_stacksize": 32, "co_varnames": 72, "co_filename": 104, "co_name": 112,
               "co_linetable": 120},
    "3.10.13": {"co_firstlineno": 40, "co_filename": 104, "co_name": 112, "co_linetable": 120},
    "3.11.7": {"co_nlocalsplus": 76, "co_stacksize": 68, "co_flags": 48, "co_firstlineno": 72,
               "co_localsplusnames": 96, "co_localspluskinds": 104, "co_filename": 112, "co_name": 120,
               "co_qualname": 128, "co_linetable": 136, "co_exceptiontable": 40, "co_code_adaptive": 184},
    "3.12.1": {"co_nlocalsplus": 72, "co_stacksize": 64, "co_firstlineno": 68, "co_linetable": 136,
               "co_code_adaptive": 192},
    "3.13.0": {"co_nlocalsplus": 72, "co_firstlineno": 68, "co_code_adaptive": 200},
    "3.14.10": {"co_firstlineno": 68, "co_code_adaptive": 208, "co_tlbc": None},
    "3.15.2": {"co_firstlineno": 68, "co_code_adaptive": 208},
}

OBJECTS: Members = {
    "3.9.18": {"PyObject.ob_type": 8, "PyTypeObject.tp_name": 24, "PyTypeObject.tp_flags": 168,
               "PyASCIIObject.length": 16, "PyASCIIObject.state_kind": 32, "PyBytesObject.ob_sval": 32,
               "PyTupleObject.ob_item": 24, "PyListObject.ob_item": 24, "PyLongObject.ob_digit": 24,
               "PyDictObject.ma_keys": 32, "PyDictObject.ma_values": 40, "PyDictKeysObject.dk_size": 8,
               "PyDictKeysObject.dk_nentries": 32, "PyDictKeysObject.dk_indices": 40,
               "PyModuleObject.md_dict": 16, "PyWeakReference.wr_object": 16},
    "3.12.1": {"PyLongObject.lv_tag": 16, "PyLongObject.ob_digit": 24, "PyDictKeysObject.dk_log2_size": 8,
               "PyDictKeysObject.dk_log2_index_bytes": 9, "PyDictKeysObject.dk_kind": 10,
               "PyDictKeysObject.dk_nentries": 24, "PyDictKeysObject.dk_indices": 32,
               "PyDictValues.values": 0},
    "3.13.0": {"PyTupleObject.ob_item": 24, "PyDictValues.capacity": 0, "PyDictValues.values": 8},
    "3.14.10": {"PyTupleObject.ob_item": 32, "PyMethodObject.im_func": 16, "PyCFunctionObject.m_self": 24},
}


def flatten(table: Members, struct: str) -> list[tuple[str, Places]]:
    return [(version, {f"{struct}.{member}": at for member, at in members.items()})
            for version, members in table.items()]


@pytest.mark.parametrize(
    ("version", "expected"),
    [*flatten(RUNTIME, "_PyRuntimeState"), *flatten(INTERPRETER, "PyInterpreterState"),
     *flatten(THREAD, "PyThreadState"), *flatten(FRAME, "_PyInterpreterFrame"),
     *flatten(FRAME_OBJECT, "PyFrameObject"), *flatten(CODE, "PyCodeObject"), *OBJECTS.items()],
    ids=lambda value: value if isinstance(value, str) else next(iter(value)).partition(".")[0])
def test_cpython_members(version: str, expected: Places) -> None:
    assert offsets(read(f"cpython-{version}-default-x86_64"), expected) == expected


@pytest.mark.parametrize("version", ["3.7.16", "3.8.18", "3.9.2", "3.9.18", "3.10.13", "3.11.2", "3.11.7", "3.12.1",
                                     "3.13.0", "3.13.5", "3.13.18", "3.14.10", "3.15.2"])
def test_gil_is_the_same_in_all_default_builds(version: str) -> None:
    gil = read(f"cpython-{version}-default-x86_64")["_gil_runtime_state"]
    assert gil.size == 208
    assert {name: field.offset for name, field in gil.fields.items()} == {
        "interval": 0, "last_holder": 8, "locked": 16, "switch_number": 24, "cond": 32, "mutex": 80,
        "switch_cond": 120, "switch_mutex": 168}
    assert (gil["locked"].size, gil["locked"].signed) == (4, True)
    assert (gil["last_holder"].size, gil["last_holder"].signed) == (8, False)


#: Free-threaded builds with a table, and default builds of the same version, or of a version with the same common
#: members.
FREE_THREADED = [("3.13.5", "3.13.5"), ("3.13.15", "3.13.18"), ("3.13.18", "3.13.18"), ("3.14.4", "3.14.4"),
                 ("3.14.10", "3.14.10"), ("3.15.2", "3.15.2")]


@pytest.mark.parametrize(("version", "counterpart"), FREE_THREADED)
def test_free_threaded_builds(version: str, counterpart: str) -> None:
    layouts = read(f"cpython-{version}-free-threaded-x86_64")
    default = read(f"cpython-{counterpart}-default-x86_64")
    assert layouts["_gil_runtime_state"].size == 216
    assert layouts["_gil_runtime_state"].offset("enabled") == 0
    assert layouts["_gil_runtime_state"].offset("locked") == 24
    expected: Places = {
        "PyObject.ob_tid": 0, "PyObject.ob_mutex": 10, "PyObject.ob_ref_local": 12, "PyObject.ob_ref_shared": 16,
        "PyObject.ob_type": 24, "PyTypeObject.tp_name": 40, "PyTypeObject.tp_flags": 184,
        "PyTypeObject.tp_dictoffset": 304, "PyBytesObject.ob_sval": 48, "PyDictObject.ma_keys": 48,
        "PyModuleObject.md_dict": 32, "PyWeakReference.wr_object": 32, "PyCodeObject.co_firstlineno": 84,
        "PyCodeObject.co_linetable": 152, "PyCodeObject.co_exceptiontable": 56}
    assert offsets(layouts, expected) == expected
    assert layouts["PyObject"].size == 32
    assert layouts["PyASCIIObject"].size == 56
    assert dict(layouts["PyThreadState"].fields) == dict(default["PyThreadState"].fields)
    assert dict(layouts["_PyRuntimeState"].fields)["interpreters_head"] == default["_PyRuntimeState"][
        "interpreters_head"]


def test_other_members_move_in_free_threaded_builds() -> None:
    for version in ("3.13.5", "3.13.15"):
        assert read(f"cpython-{version}-free-threaded-x86_64")["PyCodeObject"].offset("co_code_adaptive") == 216
        assert read(f"cpython-{version}-free-threaded-x86_64")["PyInterpreterState"].offset("modules") == 7664
    for version, modules in (("3.14.4", 7712), ("3.14.10", 7712), ("3.15.2", 7592)):
        layouts = read(f"cpython-{version}-free-threaded-x86_64")
        assert layouts["PyCodeObject"].offset("co_code_adaptive") == 232
        assert layouts["PyInterpreterState"].offset("modules") == modules
        frame = layouts["_PyInterpreterFrame"]
        assert (frame.offset("tlbc_index"), frame.offset("return_offset"), frame.offset("owner")) == (72, 76, 78)


@pytest.mark.parametrize(("version", "counterpart"), FREE_THREADED)
def test_free_threaded_tables_have_all_structures(version: str, counterpart: str) -> None:
    layouts = read(f"cpython-{version}-free-threaded-x86_64")
    default = read(f"cpython-{counterpart}-default-x86_64")
    assert set(default.structs) - set(layouts.structs) == set()
    for name, struct in default.structs.items():
        assert set(struct.fields) - set(layouts[name].fields) == ({"ob_refcnt"} if name == "PyObject" else set()), name
    own = {"_brc_bucket", "_PyCodeArray", "PyCriticalSection", "PyCriticalSection2"}
    if version.startswith("3.13."):
        own.remove("_PyCodeArray")
    assert own <= set(layouts.structs)


@pytest.mark.parametrize(("version", "counterpart"), FREE_THREADED)
def test_source_only_structures_move_by_the_object_header(version: str, counterpart: str) -> None:
    layouts = read(f"cpython-{version}-free-threaded-x86_64")
    default = read(f"cpython-{counterpart}-default-x86_64")
    private = [name for name, spec in SPECS["cpython"].items()
               if spec.home.split()[0].endswith(".c") and name in default]
    assert len(private) >= 16
    header = layouts["PyObject"].size - default["PyObject"].size
    for name in private:
        grown = 0 if name in NOT_OBJECTS else header
        assert {member: field.offset - grown for member, field in layouts[name].fields.items()} == {
            member: field.offset for member, field in default[name].fields.items()}, name
        # members that only one of the builds has are behind the listed ones
        ends = {"asyncio_state": -16 if version.startswith("3.13.") else 0,
                "TaskObj": 0 if version.startswith("3.13.") else 8}
        assert layouts[name].size - default[name].size == grown + ends.get(name, 0), name


#: Bytes on which threads park: (3.13.0, 3.14.10, 3.15.2 of the default build, free-threaded 3.13.15).
PARKED_ON: dict[str, tuple[int | None, ...]] = {
    "_PyRuntimeState.interpreters_mutex": (624, 800, 928, 624),
    "_PyRuntimeState.xi_registry_mutex": (680, 856, 984, 680),
    "_PyRuntimeState.allocators_mutex": (696, 872, 1000, 696),
    "_PyRuntimeState.atexit_mutex": (2248, 2432, 2552, 2248),
    "_PyRuntimeState.extensions_mutex": (2536, 2720, 2840, 2536),
    "_PyRuntimeState.pending_mainthread_mutex": (2648, 2856, 2984, 2672),
    "_PyRuntimeState.sys_trace_profile_mutex": (9872, None, None, 9896),
    "_PyRuntimeState.stoptheworld_mutex": (10328, 10544, 10664, 10352),
    "_PyRuntimeState.audit_hooks_mutex": (10416, 10632, 10752, 10440),
    "_PyRuntimeState.unicode_ids_mutex": (10448, 10664, 10776, 10472),
    "_PyRuntimeState.tracemalloc_tables_lock": (None, 10432, 10568, None),
    "PyInterpreterState.pending_mutex": (40, 40, 40, 40),
    "PyInterpreterState.imports_lock": (7704, 7736, 7688, 7712),
    "PyInterpreterState.xi_registry_mutex": (10608, 10656, 10616, 10624),
    "PyInterpreterState.warnings_mutex": (10680, None, None, 10696),
    "PyInterpreterState.warnings_lock": (None, 10744, 10720, None),
    "PyInterpreterState.qsbr_mutex": (10784, 10864, 10840, 10800),
    "PyInterpreterState.code_mutex": (82544, 79800, 79808, 85632),
    "PyInterpreterState.mem_free_queue_mutex": (82676, 79924, 79932, 85764),
    "PyInterpreterState.ast_once": (82696, 79944, 79952, 85784),
    "PyInterpreterState.types_mutex": (193064, 190336, 190504, 196152),
    "PyInterpreterState.sys_profile_once_flag": (None, 223256, 223528, 196239),
    "PyInterpreterState.asyncio_tasks_lock": (None, 10896, 10872, None),
    "PyInterpreterState.dict_watcher_mutex": (None, 79820, 79828, None),
    "PyInterpreterState.codecs_search_path_mutex": (None, None, None, 8000),
    "PyInterpreterState.brc_table": (None, None, None, 11136),
    "PyInterpreterState.weakref_locks": (None, None, None, 17304),
    "PyInterpreterState.func_mutex": (None, None, None, 20088),
    "PyInterpreterState.memerrors_lock": (None, None, None, 85748),
}


@pytest.mark.parametrize(("column", "build"), enumerate(["3.13.0-default", "3.14.10-default", "3.15.2-default",
                                                         "3.13.15-free-threaded"]))
def test_bytes_that_threads_park_on(column: int, build: str) -> None:
    layouts = read(f"cpython-{build}-x86_64")
    expected = {path: places[column] for path, places in PARKED_ON.items()}
    assert offsets(layouts, expected) == expected
    sizes = {path: layouts[struct][member].size for path in expected
             for struct, _, member in [path.rpartition(".")] if layouts.has(struct, member)}
    # PyMutex and _PyOnceFlag; a _PyRWMutex; two arrays
    wide = {"_PyRuntimeState.stoptheworld_mutex": 8, "PyInterpreterState.weakref_locks": 127,
            "PyInterpreterState.brc_table": 257 * 24}
    assert sizes == {path: wide.get(path, 1) for path in sizes}


def test_bytes_that_only_free_threaded_builds_park_on() -> None:
    expected: dict[str, Places] = {
        "3.14.4": {"gc_mutex": 7688, "imports_lazy_mutex": None, "atexit_ll_callbacks_lock": 10824,
                   "unique_ids_mutex": 17432, "tlbc_indices_mutex": 17592, "asyncio_tasks_lock": 17648,
                   "interned_mutex": 230744, "descriptor_mutex": None},
        "3.14.10": {"gc_mutex": 7688, "imports_lazy_mutex": None, "atexit_ll_callbacks_lock": 10824,
                    "unique_ids_mutex": 17104, "tlbc_indices_mutex": 17264, "asyncio_tasks_lock": 17320,
                    "interned_mutex": 230416, "descriptor_mutex": None},
        "3.15.2": {"gc_mutex": None, "imports_lazy_mutex": 7684, "atexit_ll_callbacks_lock": 10776,
                   "unique_ids_mutex": 17056, "tlbc_indices_mutex": 17216, "asyncio_tasks_lock": 17272,
                   "interned_mutex": 230632, "descriptor_mutex": 230712}}
    for version, members in expected.items():
        paths = {f"PyInterpreterState.{member}": at for member, at in members.items()}
        assert offsets(read(f"cpython-{version}-free-threaded-x86_64"), paths) == paths
        default = read(f"cpython-{version}-default-x86_64")
        assert [member for member in members if default.has("PyInterpreterState", member)] == ["asyncio_tasks_lock"]


@pytest.mark.parametrize("version", ["3.6.15", "3.9.18", "3.11.7", "3.12.1"])
def test_locks_in_older_versions_differ(version: str) -> None:
    layouts = read(f"cpython-{version}-default-x86_64")
    older = [path for path in PARKED_ON for struct, _, member in [path.rpartition(".")] if layouts.has(struct, member)]
    assert older == []
    assert "PyMutex" not in layouts


@pytest.mark.parametrize("version", ["3.13.5", "3.13.15", "3.13.18", "3.14.4", "3.14.10", "3.15.2"])
def test_locks_of_a_free_threaded_build(version: str) -> None:
    expected: Places = {
        "PyMutex._bits": 0, "_PyRecursiveMutex.mutex": 0, "_PyRecursiveMutex.thread": 8, "_PyRecursiveMutex.level": 16,
        "_PyRWMutex.bits": 0, "PyEvent.v": 0, "_PyOnceFlag.v": 0, "PyCriticalSection._cs_prev": 0,
        "PyCriticalSection._cs_mutex": 8, "PyCriticalSection2._cs_base": 0, "PyCriticalSection2._cs_mutex2": 16,
        "_brc_bucket.mutex": 0, "PyDictKeysObject.dk_mutex": 11}
    layouts = read(f"cpython-{version}-free-threaded-x86_64")
    assert offsets(layouts, expected) == expected
    assert [layouts[name].size for name in ("PyMutex", "_PyRecursiveMutex", "_PyRWMutex", "PyEvent", "_PyOnceFlag",
                                            "PyCriticalSection", "PyCriticalSection2", "_brc_bucket")] == [
        1, 24, 8, 1, 1, 16, 24, 24]
    if not version.startswith("3.13."):
        assert (layouts["_PyCodeArray"].offset("size"), layouts["_PyCodeArray"].offset("entries")) == (0, 8)


@pytest.mark.parametrize(("name", "at"), [
    ("3.11.7-default-x86_64", None), ("3.12.1-default-x86_64", 464), ("3.13.0-default-x86_64", 1080),
    ("3.13.5-default-aarch64", 1080), ("3.13.15-free-threaded-x86_64", 1080), ("3.14.10-default-x86_64", 1256),
    ("3.14.10-free-threaded-x86_64", 1256), ("3.15.2-default-x86_64", 1384)])
def test_signal_handlers(name: str, at: int | None) -> None:
    runtime = read(f"cpython-{name}")["_PyRuntimeState"]
    if at is None:
        assert "signal_handlers" not in runtime
        return
    # 65 elements of an int and a pointer
    assert (runtime["signal_handlers"].offset, runtime["signal_handlers"].size) == (at, 65 * 16)
    assert (runtime["signal_handlers_func"].offset, runtime["signal_handlers_func"].size) == (at + 8, 8)


def test_bit_fields_of_a_string() -> None:
    state = read("cpython-3.11.7-default-x86_64")["PyASCIIObject"]
    assert [(state[name].offset, state[name].bits) for name in
            ("state_interned", "state_kind", "state_compact", "state_ascii")] == [
                (32, (0, 2)), (32, (2, 3)), (32, (5, 1)), (32, (6, 1))]
    # since 3.14 a free-threaded build has `interned` in a separate byte, written atomically
    state = read("cpython-3.14.10-free-threaded-x86_64")["PyASCIIObject"]
    assert (state["state_interned"].offset, state["state_interned"].size, state["state_interned"].bits) == (
        48, 1, None)
    assert [(state[name].offset, state[name].bits) for name in
            ("state_kind", "state_compact", "state_ascii")] == [(48, (8, 3)), (48, (11, 1)), (48, (12, 1))]


@pytest.mark.parametrize(("version", "size", "compact"), [("3.9.18", 48, 72), ("3.11.7", 48, 72), ("3.12.1", 40, 56),
                                                           ("3.13.0", 40, 56), ("3.15.2", 40, 56)])
def test_offset_of_the_characters_of_a_string(version: str, size: int, compact: int) -> None:
    layouts = read(f"cpython-{version}-default-x86_64")
    assert (layouts["PyASCIIObject"].size, layouts["PyCompactUnicodeObject"].size) == (size, compact)


def test_gil_holder_is_a_bit_in_3_13() -> None:
    status = read("cpython-3.13.0-default-x86_64")["PyThreadState"]
    assert (status["status_holds_gil"].offset, status["status_holds_gil"].bits) == (32, (5, 1))
    status = read("cpython-3.12.1-default-x86_64")["PyThreadState"]
    assert (status["status_active"].offset, status["status_active"].bits) == (24, (4, 1))


@pytest.mark.parametrize("version", ["3.7.16", "3.9.18", "3.11.7"])
def test_atomic_wrappers_have_the_size_of_their_value(version: str) -> None:
    runtime = read(f"cpython-{version}-default-x86_64")["_PyRuntimeState"]
    assert (runtime["tstate_current"].size, runtime["finalizing"].size) == (8, 8)


@pytest.mark.parametrize(("version", "current"), [("3.9.2", 584), ("3.11.2", 592)])
def test_mutex_is_larger_on_aarch64(version: str, current: int) -> None:
    layouts = read(f"cpython-{version}-default-aarch64")
    assert layouts["_gil_runtime_state"].offset("switch_cond") == 128
    assert layouts["_gil_runtime_state"].offset("switch_mutex") == 176
    assert layouts["_PyRuntimeState"].offset("tstate_current") == current


@pytest.mark.parametrize(("version", "size", "stackpointer", "base_frame"), [
    ("3.13.0", 584, None, None), ("3.13.5", 584, None, None), ("3.13.18", 584, None, None),
    ("3.14.10", 760, 296, None), ("3.15.2", 888, 360, 216)])
def test_debug_offsets(version: str, size: int, stackpointer: int | None, base_frame: int | None) -> None:
    layouts = read(f"cpython-{version}-default-x86_64")
    expected: Places = {
        # behind the cookie, the version, the free-threading flag and the size of the first group
        "_Py_DebugOffsets.runtime_state.finalizing": 32, "_Py_DebugOffsets.runtime_state.interpreters_head": 40,
        "_Py_DebugOffsets.interpreter_frame.stackpointer": stackpointer,
        "_Py_DebugOffsets.thread_state.base_frame": base_frame}
    found = {path: layouts["_Py_DebugOffsets"].fields.get(path.partition(".")[2]) for path in expected}
    assert {path: field.offset if field else None for path, field in found.items()} == expected
    assert layouts["_Py_DebugOffsets"].size == size


@pytest.mark.parametrize("version", ["3.13.5", "3.13.18", "3.14.10", "3.15.2"])
def test_debug_offsets_are_the_same_in_all_builds(version: str) -> None:
    default = read(f"cpython-{version}-default-x86_64")["_Py_DebugOffsets"]
    assert read(f"cpython-{version}-free-threaded-x86_64")["_Py_DebugOffsets"] == default
    assert read(f"cpython-{version}-default-aarch64")["_Py_DebugOffsets"] == default


def test_debug_offsets_used_by_selection_are_listed() -> None:
    used = {f"{group}.{theirs}" for group, (_, members) in select.debug_offsets().items() for theirs in members}
    assert used <= set(SPECS["cpython"]["_Py_DebugOffsets"].members)
    targets = {(struct, ours) for struct, members in select.debug_offsets().values() for ours in members.values()}
    assert targets <= {(name, member) for name, spec in SPECS["cpython"].items() for member in logical_names(spec)}


# -- glibc ------------------------------------------------------------------------------------------------------

GLIBC_VERSIONS = ["2.31", "2.36", "2.41", "2.43"]
OLD_GLIBC_VERSIONS = ["2.17", "2.19", "2.21", "2.23"]
NEW_GLIBC = [(version, machine) for version in GLIBC_VERSIONS for machine in ("x86_64", "aarch64")]
NEW_GLIBC += [(version, "x86_64") for version in ("2.25", "2.27", "2.39")]
ALL_GLIBC = [*NEW_GLIBC, *((version, "x86_64") for version in OLD_GLIBC_VERSIONS)]


@pytest.mark.parametrize(("version", "machine"), ALL_GLIBC)
def test_members_that_are_the_same_in_every_glibc(version: str, machine: str) -> None:
    layouts = read(f"glibc-{version}-{machine}")
    expected: Places = {
        "pthread_mutex_t.__lock": 0, "pthread_mutex_t.__count": 4, "pthread_mutex_t.__owner": 8,
        "pthread_mutex_t.__nusers": 12, "pthread_mutex_t.__kind": 16, "pthread_mutex_t.__list": 24,
        "pthread_rwlock_t.__shared": 28, "pthread_rwlock_t.__flags": 48,
        "struct _IO_FILE._chain": 104, "struct _IO_FILE._fileno": 112, "struct _IO_FILE._lock": 136,
        "_IO_lock_t.lock": 0, "_IO_lock_t.cnt": 4, "_IO_lock_t.owner": 8,
        "struct robust_list_head.list": 0, "struct robust_list_head.futex_offset": 8,
        "struct robust_list_head.list_op_pending": 16}
    assert offsets(layouts, expected) == expected
    assert layouts["pthread_mutex_t"].size == (40 if machine == "x86_64" else 48)
    assert layouts["pthread_rwlock_t"].size == 56
    assert layouts["pthread_cond_t"].size == 48


@pytest.mark.parametrize(("version", "machine"), NEW_GLIBC)
def test_locks_of_glibc(version: str, machine: str) -> None:
    expected: Places = {
        "pthread_rwlock_t.__readers": 0, "pthread_rwlock_t.__writers": 4, "pthread_rwlock_t.__wrphase_futex": 8,
        "pthread_rwlock_t.__writers_futex": 12, "pthread_rwlock_t.__pad3": 16, "pthread_rwlock_t.__pad4": 20,
        "pthread_rwlock_t.__cur_writer": 24, "pthread_rwlock_t.__nr_readers": None,
        "sem_t.data": 0, "sem_t.private": 8, "sem_t.value": None,
        "pthread_barrier_t.in": 0, "pthread_barrier_t.current_round": 4, "pthread_barrier_t.count": 8,
        "pthread_barrier_t.shared": 12, "pthread_barrier_t.out": 16, "pthread_barrier_t.left": None,
        "pthread_cond_t.__futex": None}
    assert offsets(read(f"glibc-{version}-{machine}"), expected) == expected


@pytest.mark.parametrize("version", OLD_GLIBC_VERSIONS)
def test_locks_of_glibc_before_2_25(version: str) -> None:
    expected: Places = {
        "pthread_rwlock_t.__lock": 0, "pthread_rwlock_t.__nr_readers": 4, "pthread_rwlock_t.__readers_wakeup": 8,
        "pthread_rwlock_t.__writer_wakeup": 12, "pthread_rwlock_t.__nr_readers_queued": 16,
        "pthread_rwlock_t.__nr_writers_queued": 20, "pthread_rwlock_t.__writer": 24,
        "pthread_rwlock_t.__cur_writer": None,
        "pthread_cond_t.__lock": 0, "pthread_cond_t.__futex": 4, "pthread_cond_t.__total_seq": 8,
        "pthread_cond_t.__wakeup_seq": 16, "pthread_cond_t.__woken_seq": 24, "pthread_cond_t.__mutex": 32,
        "pthread_cond_t.__nwaiters": 40, "pthread_cond_t.__broadcast_seq": 44, "pthread_cond_t.__wrefs": None}
    assert offsets(read(f"glibc-{version}-x86_64"), expected) == expected


@pytest.mark.parametrize(("version", "expected"), [
    ("2.17", {"value": 0, "private": 4, "nwaiters": 8, "data": None}),
    ("2.19", {"value": 0, "private": 4, "nwaiters": 8, "data": None}),
    ("2.21", {"value": None, "private": 8, "nwaiters": None, "data": 0}),
])
def test_semaphores_before_and_since_2_21(version: str, expected: Places) -> None:
    paths = {f"sem_t.{name}": at for name, at in expected.items()}
    assert offsets(read(f"glibc-{version}-x86_64"), paths) == paths


@pytest.mark.parametrize(("version", "expected"), [
    ("2.17", {"curr_event": 0, "lock": 4, "left": 8, "init_count": 12, "private": 16, "in": None}),
    ("2.21", {"curr_event": 0, "lock": 4, "left": 8, "init_count": 12, "private": 16, "in": None}),
    ("2.23", {"curr_event": None, "left": None, "in": 0, "current_round": 4, "count": 8, "shared": 12, "out": 16}),
])
def test_barriers_before_and_since_2_23(version: str, expected: Places) -> None:
    paths = {f"pthread_barrier_t.{name}": at for name, at in expected.items()}
    assert offsets(read(f"glibc-{version}-x86_64"), paths) == paths


@pytest.mark.parametrize(("name", "size", "expected"), [
    ("2.17-x86_64", 3960, (2312, 2352, None)), ("2.19-x86_64", 3968, (2312, 2352, None)),
    ("2.23-x86_64", 3968, (2312, 2352, None)), ("2.27-x86_64", 3960, (2312, 2352, None)),
    ("2.31-x86_64", 4000, (2312, 2352, None)), ("2.36-x86_64", 4336, (2568, 2608, 2648)),
    ("2.39-x86_64", 4352, (2568, 2608, 2648)), ("2.41-x86_64", 2888, (2568, 2608, 2648)),
    ("2.43-x86_64", 2120, (1800, 1840, 1880)), ("2.31-aarch64", 4160, (2440, 2488, None)),
    ("2.36-aarch64", 4520, (2696, 2744, 2792)), ("2.41-aarch64", 3040, (2696, 2744, 2792)),
    ("2.43-aarch64", 2272, (1928, 1976, 2024)),
])
def test_structure_of_the_dynamic_linker(name: str, size: int, expected: tuple[int | None, ...]) -> None:
    names = ("_dl_load_lock", "_dl_load_write_lock", "_dl_load_tls_lock")
    paths = {f"struct rtld_global.{member}": at for member, at in zip(names, expected)}
    layouts = read(f"glibc-{name}")
    assert offsets(layouts, paths) == paths
    assert layouts["struct rtld_global"].size == size


@pytest.mark.parametrize(("version", "expected"), [
    ("2.31", {"__wseq": 0, "__g1_start": 8, "__g_refs": 16, "__g_size": 24, "__g1_orig_size": 32, "__wrefs": 36,
              "__g_signals": 40}),
    ("2.36", {"__wseq": 0, "__g1_start": 8, "__g_refs": 16, "__g_size": 24, "__g1_orig_size": 32, "__wrefs": 36,
              "__g_signals": 40}),
    ("2.41", {"__wseq": 0, "__g1_start": 8, "__g_refs": None, "__g_size": 16, "__g1_orig_size": 24, "__wrefs": 28,
              "__g_signals": 32}),
    ("2.43", {"__wseq": 0, "__g1_start": 8, "__g_refs": None, "__g_size": 16, "__g1_orig_size": 24, "__wrefs": 28,
              "__g_signals": 32}),
])
@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_condition_variables_before_and_since_2_41(version: str, machine: str, expected: Places) -> None:
    paths = {f"pthread_cond_t.{name}": at for name, at in expected.items()}
    assert offsets(read(f"glibc-{version}-{machine}"), paths) == paths


@pytest.mark.parametrize(("version", "machine"), ALL_GLIBC)
def test_cancellation_of_a_thread(version: str, machine: str) -> None:
    field = read(f"glibc-{version}-{machine}")["struct pthread"]["cancelhandling"]
    assert (field.offset, field.size, field.signed) == (776 if machine == "x86_64" else 264, 4, True)


@pytest.mark.parametrize(("name", "size", "expected"), [
    ("2.17-x86_64", 2304, {"self": 16, "tid": 720, "robust_head": 736, "lock": 1560, "joinid": 1576,
                           "stackblock": 1680, "stackblock_size": 1688, "exit_lock": None, "joinstate": None}),
    ("2.23-x86_64", 2304, {"self": 16, "tid": 720, "robust_head": 736, "joinid": 1576, "start_routine": 1600}),
    ("2.27-x86_64", 2304, {"self": 16, "tid": 720, "robust_head": 736, "joinid": 1576, "start_routine": 1600}),
    ("2.31-x86_64", 2304, {"self": 16, "tid": 720, "robust_head": 736, "lock": 1560, "joinid": 1576,
                           "stackblock": 1680, "stackblock_size": 1688, "exit_lock": None, "joinstate": None}),
    ("2.36-x86_64", 2368, {"self": 16, "tid": 720, "robust_head": 736, "lock": 1560, "joinid": 1568,
                           "start_routine": 1592, "stackblock": 1680, "exit_lock": 2300}),
    ("2.41-x86_64", 2368, {"tid": 720, "lock": 1560, "joinid": 1568, "exit_lock": 2308}),
    ("2.43-x86_64", 2368, {"tid": 720, "lock": 1568, "joinid": None, "joinstate": 1576, "start_routine": 1600,
                           "exit_lock": 2308}),
    ("2.31-aarch64", 1792, {"self": None, "tid": 208, "robust_head": 224, "lock": 1048, "joinid": 1056,
                            "stackblock": 1168}),
    ("2.36-aarch64", 1856, {"tid": 208, "joinid": 1056, "start_routine": 1080, "exit_lock": 1788}),
    ("2.41-aarch64", 1824, {"tid": 208, "joinid": 1056, "exit_lock": 1796}),
    ("2.43-aarch64", 1824, {"tid": 208, "lock": 1056, "joinid": None, "joinstate": 1064, "start_routine": 1088}),
])
def test_struct_pthread(name: str, size: int, expected: Places) -> None:
    layouts = read(f"glibc-{name}")
    paths = {f"struct pthread.{member}": at for member, at in expected.items()}
    assert offsets(layouts, paths) == paths
    assert layouts["struct pthread"].size == size


# -- NumPy ------------------------------------------------------------------------------------------------------

def test_numpy_arrays() -> None:
    layouts = select.numpy_layouts("x86_64")
    expected: Places = {
        "PyArrayObject.nd": 24, "PyArrayObject.dimensions": 32, "PyArrayObject.descr": 56,
        "PyArray_Descr.typeobj": 16, "PyArray_Descr.elsize": 40, "PyArray_Descr.alignment": 48,
        "PyArray_DescrProto.typeobj": 16, "PyArray_DescrProto.elsize": 32, "PyArray_DescrProto.alignment": 36}
    assert offsets(layouts, expected) == expected
    # NumPy 2 counts bytes of an element with 64 bits
    assert (layouts["PyArray_Descr"]["elsize"].size, layouts["PyArray_DescrProto"]["elsize"].size) == (8, 4)
    assert layouts["PyArrayObject"]["ob_base"].size == read("cpython-3.11.7-default-x86_64")["PyObject"].size
    with pytest.raises(UnknownLayout):
        select.numpy_layouts("aarch64")
