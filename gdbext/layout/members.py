"""Every structure and member that the decoders ask for, with its home in the C sources.

`scripts/gen_layouts.py` reads this list to make the tables; a test checks that each member is found in some
table and that no decoder asks for one that is not listed. A member that a version does not have is simply
absent from that version's table: decoders ask ``Struct.__contains__``.

A member is written as the C path below the structure (``ceval.gil``); a step into an array goes to its first
element. A name to the left of ``=`` is what decoders call it when the path differs between versions; the alternatives
are tried in order.
"""

from __future__ import annotations

from typing import NamedTuple


class StructSpec(NamedTuple):
    """One structure: the tags or typedefs under which DWARF knows it, and the members asked for."""

    c_names: tuple[str, ...]
    members: tuple[str, ...]
    home: str


CPYTHON: dict[str, StructSpec] = {
    "_PyRuntimeState": StructSpec(
        ("pyruntimestate",),
        ("interpreters_head = interpreters.head", "interpreters_main = interpreters.main",
         "finalizing = _finalizing | finalizing", "main_thread", "ceval_gil = ceval.gil",
         "tstate_current = gilstate.tstate_current", "stoptheworld",
         # since 3.12: an array of Py_NSIG (65) elements, and `func` of the first one
         "signal_handlers = signals.handlers", "signal_handlers_func = signals.handlers.func",
         # since 3.13: bytes that threads park on, each a PyMutex, and a _PyRWMutex. By the last step of the path, since
         # older versions have pointers to locks of other kinds in members of the same names
         "stoptheworld_mutex", "allocators_mutex = allocators.mutex._bits", "atexit_mutex = atexit.mutex._bits",
         "audit_hooks_mutex = audit_hooks.mutex._bits", "extensions_mutex = imports.extensions.mutex._bits",
         "interpreters_mutex = interpreters.mutex._bits",
         "pending_mainthread_mutex = ceval.pending_mainthread.mutex._bits",
         "sys_trace_profile_mutex = ceval.sys_trace_profile_mutex._bits",
         "tracemalloc_tables_lock = tracemalloc.tables_lock._bits",
         "unicode_ids_mutex = unicode_state.ids.mutex._bits",
         "xi_registry_mutex = xi.data_lookup.registry.mutex._bits | xi.registry.mutex._bits"),
        "Include/internal/pycore_runtime.h (3.14 and later: pycore_runtime_structs.h)"),
    "_Py_DebugOffsets": StructSpec(
        ("_Py_DebugOffsets",),
        ("runtime_state.finalizing", "runtime_state.interpreters_head", "interpreter_state.id",
         "interpreter_state.next", "interpreter_state.threads_head", "interpreter_state.imports_modules",
         "interpreter_state.sysdict", "interpreter_state.ceval_gil", "interpreter_state.gil_runtime_state",
         "interpreter_state.gil_runtime_state_locked", "interpreter_state.gil_runtime_state_holder",
         "thread_state.prev", "thread_state.next", "thread_state.interp", "thread_state.current_frame",
         "thread_state.base_frame", "thread_state.thread_id", "thread_state.native_thread_id",
         "thread_state.datastack_chunk", "thread_state.holds_gil", "thread_state.gil_requested",
         "interpreter_frame.previous", "interpreter_frame.executable", "interpreter_frame.instr_ptr",
         "interpreter_frame.localsplus", "interpreter_frame.owner", "interpreter_frame.stackpointer",
         "code_object.filename", "code_object.name", "code_object.qualname", "code_object.linetable",
         "code_object.firstlineno", "code_object.localsplusnames", "code_object.localspluskinds",
         "code_object.co_code_adaptive", "pyobject.ob_type", "type_object.tp_name", "type_object.tp_flags",
         "tuple_object.ob_item", "list_object.ob_item", "dict_object.ma_keys", "dict_object.ma_values",
         "long_object.lv_tag", "long_object.ob_digit", "bytes_object.ob_sval", "unicode_object.length"),
        "Include/internal/pycore_runtime.h (3.13), pycore_debug_offsets.h (3.14 and later): first in _PyRuntime"),
    "PyInterpreterState": StructSpec(
        ("_is",),
        ("next", "id", "tstate_head = threads.head | tstate_head", "gil = ceval.gil", "own_gil = ceval.own_gil",
         "gil_embedded = _gil", "gil_drop_request = ceval.gil_drop_request", "modules = imports.modules | modules",
         "sysdict", "finalizing = _finalizing | finalizing", "stoptheworld", "asyncio_tasks_head",
         # since 3.13: bytes that threads park on, as in _PyRuntimeState; imports_lock and warnings_lock are each the
         # first member of a _PyRecursiveMutex, *_once and *_once_flag a _PyOnceFlag, the others a PyMutex
         "ast_once = ast.once.v", "asyncio_tasks_lock", "code_mutex = code_state.mutex._bits",
         "dict_watcher_mutex = dict_state.watcher_mutex._bits",
         "dict_watcher_setup_once = dict_state.watcher_setup_once.v",
         "imports_lock = imports.lock.mutex._bits", "mem_free_queue_mutex = mem_free_queue.mutex._bits",
         "pending_mutex = ceval.pending.mutex._bits", "qsbr_mutex = qsbr.mutex._bits",
         "sys_profile_once_flag", "sys_trace_once_flag", "types_mutex = types.mutex._bits",
         "warnings_lock = warnings.lock.mutex._bits", "warnings_mutex = warnings.mutex._bits",
         "xi_registry_mutex = xi.data_lookup.registry.mutex._bits | xi.registry.mutex._bits",
         # the same in free-threaded builds only; weakref_locks are many, and brc_table has one in each _brc_bucket
         "atexit_ll_callbacks_lock = atexit.ll_callbacks_lock._bits", "brc_table = brc.table",
         "codecs_search_path_mutex = codecs.search_path_mutex._bits",
         "descriptor_mutex = cached_objects.descriptor_mutex._bits", "func_mutex = func_state.mutex._bits",
         "gc_mutex = gc.mutex._bits", "imports_lazy_mutex = imports.lazy_mutex._bits",
         "interned_mutex = cached_objects.interned_mutex._bits",
         "memerrors_lock = exc_state.memerrors_lock._bits", "tlbc_indices_mutex = tlbc_indices.mutex._bits",
         "unique_ids_mutex = unique_ids.mutex._bits", "weakref_locks"),
        "Include/internal/pycore_interp.h (3.6, 3.7: Include/pystate.h; 3.14 and later: pycore_interp_structs.h)"),
    "PyThreadState": StructSpec(
        ("_ts",),
        ("prev", "next", "interp", "frame", "cframe", "current_frame", "base_frame", "thread_id",
         "native_thread_id", "id", "state", "status = _status", "status_active = _status.active",
         "status_holds_gil = _status.holds_gil", "holds_gil", "gil_requested", "eval_breaker",
         "critical_section", "on_delete_data", "datastack_chunk", "root_cframe", "dict"),
        "Include/cpython/pystate.h"),
    "_PyCFrame": StructSpec(
        ("_PyCFrame", "_cframe"), ("current_frame", "previous"),
        "Include/cpython/pystate.h (3.10 - 3.12)"),
    "PyFrameObject": StructSpec(
        ("_frame",),
        ("f_back", "f_code", "f_valuestack", "f_stacktop", "f_stackdepth", "f_lasti", "f_iblock", "f_executing",
         "f_state", "f_blockstack", "f_localsplus", "f_frame", "f_lineno", "f_globals"),
        "Include/frameobject.h; since 3.9 Include/cpython/frameobject.h; since 3.11 pycore_frame.h"),
    "PyTryBlock": StructSpec(("PyTryBlock",), ("b_type", "b_handler", "b_level"), "Include/cpython/frameobject.h"),
    "_PyInterpreterFrame": StructSpec(
        ("_PyInterpreterFrame",),
        ("f_code", "f_executable", "previous", "f_funcobj = f_funcobj | f_func", "frame_obj", "prev_instr",
         "instr_ptr", "stacktop", "stackpointer", "tlbc_index", "return_offset", "owner", "is_entry",
         "localsplus", "f_locals", "f_globals"),
        "Include/internal/pycore_frame.h (3.11 and later; 3.15: pycore_interpframe_structs.h)"),
    "_PyCodeArray": StructSpec(
        ("_PyCodeArray",), ("size", "entries"), "Include/cpython/code.h (3.14 and later, free-threaded)"),
    "PyCodeObject": StructSpec(
        ("PyCodeObject",),
        ("co_nlocals", "co_nlocalsplus", "co_stacksize", "co_flags", "co_firstlineno", "co_code", "co_consts",
         "co_names", "co_varnames", "co_freevars", "co_cellvars", "co_localsplusnames", "co_localspluskinds",
         "co_filename", "co_name", "co_qualname", "co_linetable = co_linetable | co_lnotab", "co_exceptiontable",
         "_co_firsttraceable", "co_code_adaptive", "co_tlbc"),
        "Include/cpython/code.h (3.7 and earlier: Include/code.h)"),
    "PyObject": StructSpec(
        ("_object",), ("ob_refcnt", "ob_type", "ob_tid", "ob_mutex", "ob_ref_local", "ob_ref_shared"),
        "Include/object.h"),
    "PyVarObject": StructSpec(("PyVarObject",), ("ob_size",), "Include/object.h"),
    "PyTypeObject": StructSpec(
        ("_typeobject",),
        ("tp_name", "tp_basicsize", "tp_itemsize", "tp_flags", "tp_dictoffset", "tp_base", "tp_dict", "tp_mro"),
        "Include/cpython/object.h (3.7 and earlier: Include/object.h)"),
    "PyHeapTypeObject": StructSpec(
        ("_heaptypeobject",), ("ht_cached_keys", "ht_name", "ht_qualname"), "Include/cpython/object.h"),
    "PyASCIIObject": StructSpec(
        ("PyASCIIObject",),
        ("length", "state_kind = state.kind", "state_compact = state.compact", "state_ascii = state.ascii",
         "state_interned = state.interned"),
        "Include/cpython/unicodeobject.h (3.6 - 3.11: also Include/unicodeobject.h)"),
    "PyCompactUnicodeObject": StructSpec(
        ("PyCompactUnicodeObject",), ("utf8", "utf8_length"), "Include/cpython/unicodeobject.h"),
    "PyUnicodeObject": StructSpec(("PyUnicodeObject",), ("data",), "Include/cpython/unicodeobject.h"),
    "PyBytesObject": StructSpec(("PyBytesObject",), ("ob_sval",), "Include/cpython/bytesobject.h"),
    "PyTupleObject": StructSpec(("PyTupleObject",), ("ob_item",), "Include/cpython/tupleobject.h"),
    "PyListObject": StructSpec(("PyListObject",), ("ob_item", "allocated"), "Include/cpython/listobject.h"),
    "PyLongObject": StructSpec(
        ("_longobject",), ("lv_tag = long_value.lv_tag", "ob_digit = long_value.ob_digit | ob_digit"),
        "Include/cpython/longintrepr.h"),
    "PyFloatObject": StructSpec(
        ("PyFloatObject",), ("ob_fval",), "Include/cpython/floatobject.h (3.9 and earlier: Include/floatobject.h)"),
    "PyComplexObject": StructSpec(
        ("PyComplexObject",), ("real = cval.real", "imag = cval.imag"),
        "Include/cpython/complexobject.h (3.10 and earlier: Include/complexobject.h)"),
    "PyByteArrayObject": StructSpec(
        ("PyByteArrayObject",), ("ob_start",),
        "Include/cpython/bytearrayobject.h (3.8 and earlier: Include/bytearrayobject.h)"),
    "PySliceObject": StructSpec(("PySliceObject",), ("start", "stop", "step"), "Include/sliceobject.h"),
    "rangeobject": StructSpec(("rangeobject",), ("start", "stop", "step"), "Objects/rangeobject.c"),
    "PyBaseExceptionObject": StructSpec(
        ("PyBaseExceptionObject",), ("args",), "Include/cpython/pyerrors.h (3.7 and earlier: Include/pyerrors.h)"),
    "PyDictObject": StructSpec(("PyDictObject",), ("ma_used", "ma_keys", "ma_values"), "Include/cpython/dictobject.h"),
    "PyDictKeysObject": StructSpec(
        ("_dictkeysobject",),
        ("dk_size", "dk_log2_size", "dk_log2_index_bytes", "dk_kind", "dk_mutex", "dk_nentries", "dk_indices"),
        "Objects/dict-common.h; since 3.11 Include/internal/pycore_dict.h"),
    "PyDictKeyEntry": StructSpec(
        ("PyDictKeyEntry",), ("me_hash", "me_key", "me_value"), "Objects/dict-common.h; since 3.11 pycore_dict.h"),
    "PyDictUnicodeEntry": StructSpec(
        ("PyDictUnicodeEntry",), ("me_key", "me_value"), "Include/internal/pycore_dict.h (3.11 and later)"),
    "PyDictValues": StructSpec(
        ("_dictvalues",), ("values", "capacity", "size", "embedded", "valid"),
        "Include/internal/pycore_dict.h (3.11 and later)"),
    "PyModuleObject": StructSpec(
        ("PyModuleObject",), ("md_dict", "md_state"),
        "Objects/moduleobject.c; since 3.11 Include/internal/pycore_moduleobject.h"),
    "PyMethodObject": StructSpec(("PyMethodObject",), ("im_func", "im_self"), "Include/cpython/classobject.h"),
    "PyCFunctionObject": StructSpec(("PyCFunctionObject",), ("m_ml", "m_self"), "Include/cpython/methodobject.h"),
    "PyMethodDescrObject": StructSpec(
        ("PyMethodDescrObject",), ("d_type = d_common.d_type", "d_name = d_common.d_name"),
        "Include/cpython/descrobject.h"),
    "PyMemberDescrObject": StructSpec(
        ("PyMemberDescrObject",), ("d_member",), "Include/cpython/descrobject.h (3.10 and earlier: descrobject.h)"),
    "PyMemberDef": StructSpec(
        ("PyMemberDef",), ("type", "offset"), "Include/descrobject.h (3.11 and earlier: structmember.h)"),
    "PyMethodDef": StructSpec(("PyMethodDef",), ("ml_name",), "Include/methodobject.h"),
    "PyFunctionObject": StructSpec(
        ("PyFunctionObject",), ("func_name", "func_qualname", "func_closure", "func_code"),
        "Include/cpython/funcobject.h"),
    "PyCellObject": StructSpec(("PyCellObject",), ("ob_ref",), "Include/cpython/cellobject.h"),
    "PyGenObject": StructSpec(
        ("PyGenObject", "_PyGenObject"), ("gi_frame", "gi_iframe", "gi_frame_state"),
        "Include/cpython/genobject.h (3.14 and later: internal/pycore_interpframe_structs.h)"),
    "PyWeakReference": StructSpec(("_PyWeakReference",), ("wr_object",), "Include/cpython/weakrefobject.h"),
    "_gil_runtime_state": StructSpec(
        ("_gil_runtime_state",),
        ("enabled", "interval", "last_holder", "locked", "switch_number", "cond", "mutex", "switch_cond",
         "switch_mutex"),
        "Include/internal/pycore_gil.h (3.7: Include/internal/gil.h)"),
    "_stoptheworld_state": StructSpec(
        ("_stoptheworld_state",),
        ("mutex", "requested", "world_stopped", "is_global", "stop_event", "thread_countdown", "requester"),
        "Include/internal/pycore_interp.h (3.13 and later)"),
    "PyMutex": StructSpec(("PyMutex",), ("_bits",), "Include/cpython/lock.h (3.13 and later; 3.15: pylock.h)"),
    "_PyRecursiveMutex": StructSpec(
        ("_PyRecursiveMutex",), ("mutex", "thread", "level"),
        "Include/internal/pycore_lock.h (3.13 and later)"),
    "_PyRWMutex": StructSpec(("_PyRWMutex",), ("bits",), "Include/internal/pycore_lock.h (3.13 and later)"),
    "PyEvent": StructSpec(("PyEvent",), ("v",), "Include/internal/pycore_lock.h (3.13 and later)"),
    "_PyOnceFlag": StructSpec(("_PyOnceFlag",), ("v",), "Include/internal/pycore_lock.h (3.13 and later)"),
    "PyCriticalSection": StructSpec(
        ("PyCriticalSection",), ("_cs_prev", "_cs_mutex"),
        "Include/cpython/critical_section.h (3.13 and later, free-threaded; 3.15: critical_section.h, any build)"),
    "PyCriticalSection2": StructSpec(
        ("PyCriticalSection2",), ("_cs_base", "_cs_mutex2"),
        "Include/cpython/critical_section.h (3.13 and later, free-threaded; 3.15: critical_section.h, any build)"),
    "_brc_bucket": StructSpec(
        ("_brc_bucket",), ("mutex", "root"),
        "Include/internal/pycore_brc.h (3.13 and later, free-threaded): elements of brc.table"),
    "lockobject": StructSpec(("lockobject",), ("lock_lock", "lock"), "Modules/_threadmodule.c"),
    "rlockobject": StructSpec(
        ("rlockobject",),
        ("rlock_lock", "rlock_owner", "rlock_count", "mutex = lock.mutex", "thread = lock.thread",
         "level = lock.level"),
        "Modules/_threadmodule.c"),
    "ThreadHandle": StructSpec(
        ("ThreadHandle",), ("node", "ident", "state", "thread_is_exiting"), "Modules/_threadmodule.c (3.13 and later)"),
    "PyThreadHandleObject": StructSpec(
        ("PyThreadHandleObject",), ("handle",), "Modules/_threadmodule.c (3.13 and later)"),
    "simplequeueobject": StructSpec(
        ("simplequeueobject",), ("lock", "has_threads_waiting"), "Modules/_queuemodule.c (3.7 and later)"),
    "buffered": StructSpec(("buffered",), ("lock", "owner"), "Modules/_io/bufferedio.c"),
    "textio": StructSpec(("textio",), ("buffer",), "Modules/_io/textio.c"),
    "SemLockObject": StructSpec(
        ("SemLockObject",), ("handle", "last_tid", "count", "maxvalue", "kind"),
        "Modules/_multiprocessing/semaphore.c"),
    "wait_entry": StructSpec(
        ("wait_entry",), ("park_arg", "addr", "sema", "node", "is_unparking"),
        "Python/parking_lot.c (3.13 and later)"),
    "llist_node": StructSpec(
        ("llist_node",), ("next", "prev"), "Include/internal/pycore_llist.h (3.12 and later)"),
    "mutex_entry": StructSpec(("mutex_entry",), ("handed_off",), "Python/lock.c (3.13 and later)"),
    "PySetObject": StructSpec(("PySetObject",), ("used", "mask", "table"), "Include/cpython/setobject.h"),
    "setentry": StructSpec(("setentry",), ("key", "hash"), "Include/cpython/setobject.h"),
    "PyAsyncGenASend": StructSpec(("PyAsyncGenASend",), ("ags_gen",), "Objects/genobject.c"),
    "PyAsyncGenAThrow": StructSpec(("PyAsyncGenAThrow",), ("agt_gen",), "Objects/genobject.c"),
    "PyCoroWrapper": StructSpec(("PyCoroWrapper",), ("cw_coroutine",), "Objects/genobject.c"),
    "anextawaitableobject": StructSpec(
        ("anextawaitableobject",), ("wrapped",), "Objects/iterobject.c (3.10 and later)"),
    "TaskObj": StructSpec(
        ("TaskObj",),
        ("task_loop", "task_callback0", "task_callbacks", "task_state", "task_fut_waiter", "task_coro", "task_name",
         "task_node"),
        "Modules/_asynciomodule.c"),
    "asyncio_state": StructSpec(
        ("asyncio_state",), ("weak_tasks = non_asyncio_tasks | scheduled_tasks",),
        "Modules/_asynciomodule.c (3.12 and later)"),
    "PyRunningLoopHolder": StructSpec(
        ("PyRunningLoopHolder",), ("rl_loop",), "Modules/_asynciomodule.c (3.11 and earlier)"),
    "_PyThreadStateImpl": StructSpec(
        ("_PyThreadStateImpl",), ("asyncio_running_loop", "asyncio_running_task", "asyncio_tasks_head"),
        "Include/internal/pycore_tstate.h (3.13 and later)"),
    "_Py_AsyncioModuleDebugOffsets": StructSpec(
        ("_Py_AsyncioModuleDebugOffsets",),
        ("asyncio_task_object.size", "asyncio_task_object.task_name", "asyncio_task_object.task_coro",
         "asyncio_task_object.task_node", "asyncio_interpreter_state.asyncio_tasks_head",
         "asyncio_thread_state.asyncio_running_loop", "asyncio_thread_state.asyncio_running_task",
         "asyncio_thread_state.asyncio_tasks_head"),
        "Modules/_asynciomodule.c (3.14 and later): in section .AsyncioDebug"),
}

GLIBC: dict[str, StructSpec] = {
    "pthread_mutex_t": StructSpec(
        ("pthread_mutex_t",),
        ("__lock = __data.__lock", "__count = __data.__count", "__owner = __data.__owner",
         "__nusers = __data.__nusers", "__kind = __data.__kind", "__list = __data.__list"),
        "sysdeps/nptl/bits/thread-shared-types.h, struct_mutex.h"),
    "pthread_rwlock_t": StructSpec(
        ("pthread_rwlock_t",),
        ("__readers = __data.__readers", "__writers = __data.__writers",
         "__wrphase_futex = __data.__wrphase_futex", "__writers_futex = __data.__writers_futex",
         "__pad3 = __data.__pad3", "__pad4 = __data.__pad4", "__cur_writer = __data.__cur_writer",
         "__shared = __data.__shared", "__flags = __data.__flags",
         "__lock = __data.__lock", "__nr_readers = __data.__nr_readers",
         "__readers_wakeup = __data.__readers_wakeup", "__writer_wakeup = __data.__writer_wakeup",
         "__nr_readers_queued = __data.__nr_readers_queued", "__nr_writers_queued = __data.__nr_writers_queued",
         "__writer = __data.__writer"),
        "sysdeps/nptl/bits/struct_rwlock.h (2.24 and earlier, with other members: bits/pthreadtypes.h)"),
    "pthread_cond_t": StructSpec(
        ("pthread_cond_t",),
        ("__wseq = __data.__wseq", "__g1_start = __data.__g1_start", "__g_refs = __data.__g_refs",
         "__g_size = __data.__g_size", "__g1_orig_size = __data.__g1_orig_size", "__wrefs = __data.__wrefs",
         "__g_signals = __data.__g_signals",
         "__lock = __data.__lock", "__futex = __data.__futex", "__total_seq = __data.__total_seq",
         "__wakeup_seq = __data.__wakeup_seq", "__woken_seq = __data.__woken_seq", "__mutex = __data.__mutex",
         "__nwaiters = __data.__nwaiters", "__broadcast_seq = __data.__broadcast_seq"),
        "sysdeps/nptl/bits/thread-shared-types.h (2.24 and earlier, with other members: bits/pthreadtypes.h)"),
    "sem_t": StructSpec(
        ("new_sem",), ("data", "value", "private", "nwaiters"),
        "sysdeps/nptl/internaltypes.h, struct new_sem (2.20 and earlier: without data)"),
    "pthread_barrier_t": StructSpec(
        ("pthread_barrier",),
        ("in", "current_round", "count", "shared", "out", "curr_event", "lock", "left", "init_count", "private"),
        "sysdeps/nptl/internaltypes.h, struct pthread_barrier (2.22 and earlier: curr_event and what follows)"),
    "struct pthread": StructSpec(
        ("pthread",),
        ("self = header.self", "tid", "robust_head", "cancelhandling", "joinid", "joinstate", "start_routine",
         "stackblock", "stackblock_size", "lock", "exit_lock"),
        "nptl/descr.h"),
    "struct robust_list_head": StructSpec(
        ("robust_list_head",), ("list", "futex_offset", "list_op_pending"), "nptl/descr.h, and the kernel's futex.h"),
    "struct _IO_FILE": StructSpec(
        ("_IO_FILE",), ("_chain", "_fileno", "_lock"), "libio/bits/types/struct_FILE.h (2.27 and earlier: libio.h)"),
    "_IO_lock_t": StructSpec(("_IO_lock_t",), ("lock", "cnt", "owner"), "sysdeps/nptl/stdio-lock.h"),
    "struct rtld_global": StructSpec(
        ("rtld_global",), ("_dl_load_lock", "_dl_load_write_lock", "_dl_load_tls_lock"),
        "sysdeps/generic/ldsodefs.h"),
}

LIBGOMP: dict[str, StructSpec] = {
    "gomp_barrier_t": StructSpec(
        ("gomp_barrier_t",), ("total", "generation", "awaited", "awaited_final"), "GCC libgomp/config/linux/bar.h"),
    "gomp_team": StructSpec(
        ("gomp_team",), ("nthreads", "prev_team = prev_ts.team", "prev_team_id = prev_ts.team_id", "barrier"),
        "GCC libgomp/libgomp.h"),
}

NUMPY: dict[str, StructSpec] = {
    "PyArrayObject": StructSpec(
        ("tagPyArrayObject_fields",), ("ob_base", "nd", "dimensions", "descr"),
        "numpy/_core/include/numpy/ndarraytypes.h (1.x: numpy/core/include)"),
    # NumPy 2, and as NumPy 1 has it
    "PyArray_Descr": StructSpec(
        ("_PyArray_DescrNumPy2",), ("typeobj", "elsize", "alignment"), "numpy/_core/include/numpy/ndarraytypes.h"),
    "PyArray_DescrProto": StructSpec(
        ("PyArray_DescrProto",), ("typeobj", "elsize", "alignment"),
        "numpy/_core/include/numpy/ndarraytypes.h (1.x: PyArray_Descr)"),
}
