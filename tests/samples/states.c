/* A program whose Python is not, not yet or no longer running.
 *
 * states linked HOME      linked with Python and has not initialised it
 * states finalised HOME   initialised it once and finalised it
 * states finalising HOME  is inside Py_FinalizeEx: the destructor of a global object reads from standard input and
 *                         does not release the GIL; meanwhile a daemon thread asks for the GIL. What becomes of
 *                         that thread differs between versions: it waits, ends, or is put to sleep forever
 * states again HOME       initialised, finalised and initialised it, and now has the deadlock of embed.c
 * loader LIBRARY          (compiled with -DLOADER) has loaded the library of Python with dlopen, nothing else
 *
 * Prints one JSON line about itself, see tests/support/samples.py, and then reads, or hangs.
 */
#define _GNU_SOURCE
#ifdef LOADER
#include <dlfcn.h>
#else
#include <Python.h>
#endif
#include <stdlib.h>
#include <string.h>

#include "sample.h"

static void tell_and_linger(const char *variant) {
    tell_start("states", variant);
    tell_thread("", "main", getpid(), NULL, 0, "read", "[]");
    tell_locks();
    tell_end("[]");
    linger_here();
}

#ifdef LOADER
int main(int argc, char **argv) {
    if (argc != 2 || !dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL)) {
        fprintf(stderr, "usage: loader LIBRARY\n%s\n", dlerror());
        return 2;
    }
    tell_and_linger("loaded");
    return 0;
}
#else
static const char LAST[] =
    "class Last:\n"
    "    def __del__(self, linger=linger):\n"
    "        linger()\n"
    "\n"
    "last = Last()\n";
#define LAST_STACK "[[\"__del__\", \"last.py\", 3]]"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static long other_tid;
static int ready, go;

/* Called while Python finalises. */
static NOINLINE PyObject *linger(PyObject *self, PyObject *unused) {
    (void)self;
    (void)unused;
    tell_start("states", "finalising");
    tell_thread("", "main", getpid(), NULL, 0, "read", LAST_STACK);
    tell_thread(", ", "daemon", other_tid, NULL, 0, NULL, "[]");
    tell_locks();
    tell_end("[]");
    advance(&go);
    linger_here();
    Py_RETURN_NONE;
}

static PyMethodDef linger_method = {"linger", linger, METH_NOARGS, NULL};

/* Known to Python before it finalises, and wants the GIL then. */
static void *ask_for_gil(void *unused) {
    other_tid = thread_id();
    PyGILState_STATE state = PyGILState_Ensure();
    PyThreadState *saved = PyEval_SaveThread();
    advance(&ready);
    await(&go, 1);
    PyEval_RestoreThread(saved);
    PyGILState_Release(state);
    return unused;
}

static void *hold_and_ask(void *unused) {
    other_tid = thread_id();
    pthread_mutex_lock(&mutex);
    advance(&ready);
    await(&go, 1);
    PyGILState_STATE state = PyGILState_Ensure();
    PyGILState_Release(state);
    pthread_mutex_unlock(&mutex);
    return unused;
}

static void initialise(void) {
    Py_InitializeEx(0);
#if PY_VERSION_HEX < 0x03070000
    PyEval_InitThreads();
#endif
}

static int finalising(void) {
    pthread_t thread;
    initialise();
    PyObject *globals = PyModule_GetDict(PyImport_AddModule("__main__"));
    PyDict_SetItemString(globals, "linger", PyCFunction_New(&linger_method, NULL));
    PyObject *code = Py_CompileString(LAST, "last.py", Py_file_input);
    PyObject *result = code ? PyEval_EvalCode(code, globals, globals) : NULL;
    if (!result) {
        PyErr_Print();
        return 1;
    }
    Py_DECREF(result);
    Py_DECREF(code);
    PyThreadState *saved = PyEval_SaveThread();
    if (pthread_create(&thread, NULL, ask_for_gil, NULL))
        return 1;
    await(&ready, 1);
    PyEval_RestoreThread(saved);
    return Py_FinalizeEx();
}

static int again(void) {
    pthread_t thread;
    initialise();
    Py_FinalizeEx();
    initialise();
    if (pthread_create(&thread, NULL, hold_and_ask, NULL))
        return 1;
    await(&ready, 1);
    tell_start("states", "again");
    tell_thread("", "main", getpid(), NULL, 1, "futex", "[]");
    tell_thread(", ", "other", other_tid, NULL, 1, "futex", "[]");
    tell_locks();
    tell_lock("", "mutex", &mutex, 0, "other", "main");
    tell_lock(", ", "gil", NULL, 0, "main", "other");
    tell_end("[[\"main\", \"mutex\", \"other\"], [\"other\", \"gil\", \"main\"]]");
    advance(&go);
    pthread_mutex_lock(&mutex);
    return 0;
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fputs("usage: states linked|finalised|finalising|again HOME\n", stderr);
        return 2;
    }
    setenv("PYTHONHOME", argv[2], 1);
    if (!strcmp(argv[1], "finalising"))
        return finalising();
    if (!strcmp(argv[1], "again"))
        return again();
    if (!strcmp(argv[1], "finalised")) {
        initialise();
        Py_FinalizeEx();
    }
    tell_and_linger(argv[1]);
    return 0;
}
#endif
