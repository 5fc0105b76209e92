/* Several interpreters in one process, which share a GIL or have one each.
 *
 * subinterpreters shared HOME  a second interpreter with the GIL of the first. The main thread holds the GIL and
 *                              waits for `left`; a thread of the second interpreter holds `left` and wants the GIL.
 * subinterpreters ended HOME   the same, but the second interpreter is gone and the other thread uses the first
 * subinterpreters own HOME     (CPython 3.12 and later) two more interpreters with GILs of their own, a and b. Thread
 *                              `one` runs in a and waits for `right`, thread `two` runs in b and waits for `left`;
 *                              `helper_one` holds `left` and wants the GIL of a, `helper_two` holds `right` and wants
 *                              the GIL of b. The main thread has released the main interpreter's GIL and reads.
 *
 * Prints one JSON line about itself, see tests/support/samples.py, and then hangs.
 */
#define _GNU_SOURCE
#include <Python.h>
#include <stdlib.h>
#include <string.h>

#include "sample.h"

static const char SCRIPT[] =
    "def allocate():\n"
    "    return wait()\n"
    "\n"
    "allocate()\n";
#define STACK(file) "[[\"allocate\", \"" file "\", 2], [\"<module>\", \"" file "\", 4]]"

static pthread_mutex_t left = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t right = PTHREAD_MUTEX_INITIALIZER;
static int holding, wanting, told;

/* One thread: the interpreter it runs in, the mutex it holds, the one it waits for. */
struct part {
    const char *file;
    PyInterpreterState *interpreter;
    pthread_mutex_t *holds;
    pthread_mutex_t *waits;
    long tid;
};

/* What the Python code of a thread waits for. */
static __thread pthread_mutex_t *wanted;

static NOINLINE PyObject *wait_for_mutex(PyObject *self, PyObject *unused) {
    (void)self;
    (void)unused;
    advance(&wanting);
    await(&told, 1);
    pthread_mutex_lock(wanted);
    pthread_mutex_unlock(wanted);
    Py_RETURN_NONE;
}

static PyMethodDef wait_method = {"wait", wait_for_mutex, METH_NOARGS, NULL};

/* Run the script in the current interpreter, with the GIL held. */
static NOINLINE int run_script(struct part *part) {
    wanted = part->waits;
    PyObject *globals = PyModule_GetDict(PyImport_AddModule("__main__"));
    PyDict_SetItemString(globals, "wait", PyCFunction_New(&wait_method, NULL));
    PyRun_SimpleString("import sys; sys.setswitchinterval(1000)"); /* a thread waiting for its GIL sleeps on */
    PyObject *code = Py_CompileString(SCRIPT, part->file, Py_file_input);
    PyObject *result = code ? PyEval_EvalCode(code, globals, globals) : NULL;
    if (!result)
        PyErr_Print();
    return !result;
}

/* Holds a mutex and wants the GIL of its interpreter, once the others are where they will be: as long as the holder of
 * the GIL still runs Python code, it would give the GIL up after 5 ms, and this thread would end. */
static void *help(void *argument) {
    struct part *part = argument;
    part->tid = thread_id();
    pthread_mutex_lock(part->holds);
    advance(&holding);
    await(&told, 1);
    await(&wanting, 1);
    PyThreadState *state = PyThreadState_New(part->interpreter);
    PyEval_RestoreThread(state);
    pthread_mutex_unlock(part->holds);
    return NULL;
}

static void start(struct part *part, void *(*run)(void *)) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, run, part))
        exit(1);
}

static int shared(int ended) {
    PyThreadState *main_state = PyThreadState_Get();
    PyThreadState *second = Py_NewInterpreter();
    if (!second)
        return 1;
    PyInterpreterState *interpreter = ended ? main_state->interp : second->interp;
    if (ended)
        Py_EndInterpreter(second);
    PyThreadState_Swap(main_state);
    static struct part helper, self = {"first.py", NULL, NULL, &left, 0};
    helper = (struct part){NULL, interpreter, &left, NULL, 0};
    start(&helper, help);
    await(&holding, 1);
    tell_start("subinterpreters", ended ? "ended" : "shared");
    tell_thread("", "main", getpid(), "MainThread", 1, "futex", STACK("first.py"));
    tell_thread(", ", "helper", helper.tid, NULL, 1, "futex", "[]");
    tell_locks();
    tell_lock("", "left", &left, 0, "helper", "main");
    tell_lock(", ", "gil", NULL, 0, "main", "helper");
    tell_end("[[\"main\", \"left\", \"helper\"], [\"helper\", \"gil\", \"main\"]]");
    advance(&told);
    return run_script(&self);
}

#if PY_VERSION_HEX >= 0x030c0000
/* Runs Python in its interpreter, which waits for a mutex. */
static void *work(void *argument) {
    struct part *part = argument;
    part->tid = thread_id();
    PyThreadState *state = PyThreadState_New(part->interpreter);
    PyEval_RestoreThread(state);
    if (run_script(part))
        exit(1);
    return NULL;
}

static PyInterpreterState *new_interpreter(void) {
    PyThreadState *before = PyThreadState_Get(), *made = NULL;
    PyInterpreterConfig config = {
        .check_multi_interp_extensions = 1,
        .allow_threads = 1,
        .gil = PyInterpreterConfig_OWN_GIL,
    };
    PyStatus status = Py_NewInterpreterFromConfig(&made, &config);
    if (PyStatus_Exception(status))
        Py_ExitStatusException(status);
    PyInterpreterState *interpreter = PyThreadState_GetInterpreter(made);
    PyEval_SaveThread();
    PyEval_RestoreThread(before);
    return interpreter;
}

static int own(void) {
    PyInterpreterState *a = new_interpreter(), *b = new_interpreter();
    static struct part one, two, helper_one, helper_two;
    one = (struct part){"one.py", a, NULL, &right, 0};
    two = (struct part){"two.py", b, NULL, &left, 0};
    helper_one = (struct part){NULL, a, &left, NULL, 0};
    helper_two = (struct part){NULL, b, &right, NULL, 0};
    PyEval_SaveThread();
    start(&helper_one, help);
    start(&helper_two, help);
    await(&holding, 2);
    start(&one, work);
    start(&two, work);
    await(&wanting, 2);
    tell_start("subinterpreters", "own");
    tell_thread("", "main", getpid(), "MainThread", 0, "read", "[]");
    tell_thread(", ", "one", one.tid, NULL, 1, "futex", STACK("one.py"));
    tell_thread(", ", "two", two.tid, NULL, 1, "futex", STACK("two.py"));
    tell_thread(", ", "helper_one", helper_one.tid, NULL, 1, "futex", "[]");
    tell_thread(", ", "helper_two", helper_two.tid, NULL, 1, "futex", "[]");
    tell_locks();
    tell_lock("", "left", &left, 0, "helper_one", "two");
    tell_lock(", ", "right", &right, 0, "helper_two", "one");
    tell_lock(", ", "gil_a", NULL, 1, "one", "helper_one");
    tell_lock(", ", "gil_b", NULL, 2, "two", "helper_two");
    tell_end("[[\"one\", \"right\", \"helper_two\"], [\"helper_two\", \"gil_b\", \"two\"], "
             "[\"two\", \"left\", \"helper_one\"], [\"helper_one\", \"gil_a\", \"one\"]]");
    advance(&told);
    linger_here();
    return 0;
}
#else
static int own(void) {
    fputs("interpreters with a GIL of their own came with CPython 3.12\n", stderr);
    return 2;
}
#endif

int main(int argc, char **argv) {
    if (argc != 3 || (strcmp(argv[1], "shared") && strcmp(argv[1], "ended") && strcmp(argv[1], "own"))) {
        fputs("usage: subinterpreters shared|ended|own HOME\n", stderr);
        return 2;
    }
    setenv("PYTHONHOME", argv[2], 1);
    Py_InitializeEx(0);
#if PY_VERSION_HEX < 0x03070000
    PyEval_InitThreads();
#endif
    if (!PyImport_ImportModule("threading"))
        return 1;
    return strcmp(argv[1], "own") ? shared(!strcmp(argv[1], "ended")) : own();
}
