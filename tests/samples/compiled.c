/* Threads of compiled code that take Python's locks: no Python frame shows what they hold or wait for.
 *
 * compiled VARIANT HOME: the threads `left` and `right` of the program each acquire a lock and then want the other's, as
 * a function does that Cython or Nuitka made of two nested `with` statements. VARIANT:
 *   lock   two `_thread.lock`, whose holder nothing records; the main thread waits for input
 *   alone  the same, and the main thread waits for the end of `left`
 *   rlock  two `_thread.RLock`, which record their owners
 * HOME is where Python's library is. Prints one JSON line about itself, see tests/support/samples.py, and then hangs.
 */
#define _GNU_SOURCE
#include <Python.h>
#include <stdlib.h>
#include <string.h>

#include "sample.h"

static PyObject *locks[2];
static long tids[2];
static int holding;

static void acquire(PyObject *lock) {
    PyObject *done = PyObject_CallMethod(lock, "acquire", NULL);
    if (!done)
        PyErr_Print();
    Py_XDECREF(done);
}

NOINLINE void *take_both(void *argument) {
    int side = argument != NULL;
    tids[side] = thread_id();
    PyGILState_STATE state = PyGILState_Ensure();
    acquire(locks[side]);
    Py_BEGIN_ALLOW_THREADS
    advance(&holding);
    await(&holding, 2);
    Py_END_ALLOW_THREADS
    acquire(locks[!side]);
    PyGILState_Release(state);
    return NULL;
}

static void tell(const char *variant, int joins) {
    tell_start("compiled", variant);
    tell_thread("", "main", getpid(), NULL, 1, joins ? "futex" : "read", "[]");
    tell_thread(", ", "left", tids[0], NULL, 1, "futex", "[]");
    tell_thread(", ", "right", tids[1], NULL, 1, "futex", "[]");
    tell_locks();
    tell_end("[]");
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fputs("usage: compiled VARIANT HOME\n", stderr);
        return 2;
    }
    int joins = strcmp(argv[1], "alone") == 0;
    setenv("PYTHONHOME", argv[2], 1);
    Py_InitializeEx(0);
#if PY_VERSION_HEX < 0x03070000
    PyEval_InitThreads();
#endif
    PyObject *module = PyImport_ImportModule("_thread");
    for (int side = 0; side < 2; ++side)
        locks[side] = module ? PyObject_CallMethod(module, strcmp(argv[1], "rlock") ? "allocate_lock" : "RLock", NULL)
                             : NULL;
    if (!locks[0] || !locks[1]) {
        PyErr_Print();
        return 1;
    }
    PyEval_SaveThread();
    pthread_t left, right;
    if (pthread_create(&left, NULL, take_both, NULL) || pthread_create(&right, NULL, take_both, locks))
        return 1;
    await(&holding, 2);
    tell(argv[1], joins);
    if (joins)
        pthread_join(left, NULL);
    else
        linger_here();
    return 0;
}
