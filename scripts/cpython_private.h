/* Structures that CPython declares in .c files and in no header: compiled together with the headers, by
   gen_layouts.py, to make tables of builds of which there is no debug information (free-threaded ones).

   Only the order and the types of members count. They were read from the debug information of default builds of
   3.13.0, 3.13.5, 3.13.18, 3.14.10 and 3.15.2 and of a free-threaded 3.13.15; what depends on Py_GIL_DISABLED, from
   the sources. Compiled without Py_GIL_DISABLED they must give what the table of the default build has. For other
   minor versions nothing is declared.

   Pointers to what gdbext does not look at are void *. */

#if PY_VERSION_HEX >= 0x030d0000 && PY_VERSION_HEX < 0x03100000

#include <semaphore.h>
#include <stdbool.h>
#include <sys/types.h>
#include "internal/pycore_llist.h"
#include "internal/pycore_lock.h"
#include "internal/pycore_pythread.h"
#include "internal/pycore_semaphore.h"

/* -- Modules/_threadmodule.c -- */

typedef struct {
    PyObject_HEAD
#if PY_VERSION_HEX < 0x030d0100
    PyThread_type_lock lock_lock;
    PyObject *in_weakreflist;
    char locked;
#else
    PyMutex lock;
#endif
} lockobject;

typedef struct {
    PyObject_HEAD
#if PY_VERSION_HEX < 0x030e0000
    PyThread_type_lock rlock_lock;
    PyThread_ident_t rlock_owner;
    unsigned long rlock_count;
    PyObject *in_weakreflist;
#else
    _PyRecursiveMutex lock;
#endif
} rlockobject;

typedef struct {
    struct llist_node node, shutdown_node;
    PyThread_ident_t ident;
    PyThread_handle_t os_handle;
    int has_os_handle;
    int state;
    PyMutex mutex;
    PyEvent thread_is_exiting;
    _PyOnceFlag once;
    Py_ssize_t refcount;
} ThreadHandle;

typedef struct {
    PyObject_HEAD
    ThreadHandle *handle;
} PyThreadHandleObject;

/* -- Modules/_queuemodule.c: a ring buffer and how far it is filled -- */

typedef struct {
    PyObject_HEAD
    bool has_threads_waiting;
    struct {
        Py_ssize_t put_idx, get_idx;
        PyObject **items;
        Py_ssize_t items_cap, num_items;
    } buf;
    PyObject *weakreflist;
} simplequeueobject;

/* -- Modules/_io/bufferedio.c -- */

typedef struct {
    PyObject_HEAD
    PyObject *raw;
    int ok, detached, readable, writable;
    char finalizing;
    int fast_closed_checks;
    off_t abs_pos;
    char *buffer;
    off_t pos, raw_pos, read_end, write_pos, write_end;
    PyThread_type_lock lock;
    volatile unsigned long owner;
    Py_ssize_t buffer_size, buffer_mask;
    PyObject *dict, *weakreflist;
} buffered;

/* -- Modules/_io/textio.c -- */

typedef struct {
    PyObject_HEAD
    int ok, detached;
    Py_ssize_t chunk_size;
    PyObject *buffer, *encoding, *encoder, *decoder, *readnl, *errors;
    const char *writenl;
    char line_buffering, write_through, readuniversal, readtranslate, writetranslate, seekable, has_read1, telling;
    char finalizing;
    void *encodefunc;
    char encoding_start_of_stream;
    PyObject *decoded_chars;
    Py_ssize_t decoded_chars_used;
    PyObject *pending_bytes;
    Py_ssize_t pending_bytes_count;
    PyObject *snapshot;
    double b2cratio;
    PyObject *raw, *weakreflist, *dict;
    void *state;
} textio;

/* -- Modules/_multiprocessing/semaphore.c -- */

typedef struct {
    PyObject_HEAD
    sem_t *handle;
    unsigned long last_tid;
    int count, maxvalue, kind;
    char *name;
} SemLockObject;

/* -- Python/lock.c, Python/parking_lot.c -- */

struct mutex_entry {
    PyTime_t time_to_be_fair;
    int handed_off;
};

struct wait_entry {
    void *park_arg;
    uintptr_t addr;
    _PySemaphore sema;
    struct llist_node node;
    bool is_unparking;
};

/* -- Objects/rangeobject.c -- */

typedef struct {
    PyObject_HEAD
    PyObject *start, *stop, *step, *length;
} rangeobject;

/* -- Objects/genobject.c, Objects/iterobject.c -- */

typedef struct {
    PyObject_HEAD
    PyAsyncGenObject *ags_gen;
    PyObject *ags_sendval;
    int ags_state;
} PyAsyncGenASend;

typedef struct {
    PyObject_HEAD
    PyAsyncGenObject *agt_gen;
#if PY_VERSION_HEX < 0x030f0000
    PyObject *agt_args;
#else
    PyObject *agt_typ, *agt_tb, *agt_val;
#endif
    int agt_state;
} PyAsyncGenAThrow;

typedef struct {
    PyObject_HEAD
    PyCoroObject *cw_coroutine;
} PyCoroWrapper;

typedef struct {
    PyObject_HEAD
    PyObject *wrapped, *default_value;
} anextawaitableobject;

/* -- Modules/_asynciomodule.c -- */

typedef struct {
    PyObject_HEAD
    PyObject *task_loop, *task_callback0, *task_context0, *task_callbacks;
    PyObject *task_exception, *task_exception_tb, *task_result, *task_source_tb, *task_cancel_msg;
    PyObject *task_cancelled_exc;
#if PY_VERSION_HEX >= 0x030e0000
    PyObject *task_awaited_by;
#endif
    /* gcc makes this unsigned, and so is the member in the table */
    enum { GDBEXT_PENDING, GDBEXT_CANCELLED, GDBEXT_FINISHED } task_state;
#if PY_VERSION_HEX >= 0x030e0000
    char task_is_task, task_awaited_by_is_set;
#endif
    unsigned task_log_tb : 1, task_blocking : 1, task_must_cancel : 1, task_log_destroy_pending : 1;
    int task_num_cancels_requested;
    PyObject *task_fut_waiter, *task_coro, *task_name, *task_context;
#if PY_VERSION_HEX >= 0x030e0000
    struct llist_node task_node;
#ifdef Py_GIL_DISABLED
    uintptr_t task_tid;
#endif
#endif
} TaskObj;

typedef struct {
    PyTypeObject *FutureIterType, *TaskStepMethWrapper_Type, *FutureType, *TaskType;
    PyObject *asyncio_mod, *context_kwname;
#if PY_VERSION_HEX < 0x030e0000
    PyObject *current_tasks, *scheduled_tasks, *eager_tasks;
#else
    PyObject *non_asyncio_tasks, *non_asyncio_eager_tasks;
#endif
    PyObject *iscoroutine_typecache, *asyncio_get_event_loop_policy, *asyncio_future_repr_func;
    PyObject *asyncio_CancelledError, *asyncio_InvalidStateError;
    PyObject *asyncio_task_get_stack_func, *asyncio_task_print_stack_func, *asyncio_task_repr_func;
    PyObject *asyncio_iscoroutine_func, *traceback_extract_stack;
    uint64_t task_name_counter;
#if PY_VERSION_HEX >= 0x030e0000
    void *debug_offsets;
#elif !defined(Py_GIL_DISABLED)
    void *fi_freelist;
    Py_ssize_t fi_freelist_len;
#endif
} asyncio_state;

#if PY_VERSION_HEX >= 0x030e0000
struct _Py_AsyncioModuleDebugOffsets {
    struct {
        uint64_t size, task_name, task_awaited_by, task_is_task, task_awaited_by_is_set, task_coro, task_node;
    } asyncio_task_object;
    struct {
        uint64_t size, asyncio_tasks_head;
    } asyncio_interpreter_state;
    struct {
        uint64_t size, asyncio_running_loop, asyncio_running_task, asyncio_tasks_head;
    } asyncio_thread_state;
};
#endif

#endif
