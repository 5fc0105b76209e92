/* A program that embeds Python and deadlocks with it, without ctypes or any extension module.
 *
 * embed HOME: main -> app_main -> app_serve -> Python's serve() -> app_dispatch -> Python's handle() -> app_native,
 * which waits for a mutex of the program while it holds the GIL. A second thread of the program, app_worker ->
 * app_event, holds that mutex and wants the GIL with PyGILState_Ensure. HOME is where Python's library is.
 * Prints one JSON line about itself, see tests/support/samples.py, and then hangs.
 */
#define _GNU_SOURCE
#include <Python.h>
#include <stdlib.h>

#include "sample.h"

static const char SERVICE[] =
    "def handle(request):\n"
    "    return native(request)\n"
    "\n"
    "def serve(count):\n"
    "    total = 0\n"
    "    for request in range(count):\n"
    "        total += dispatch(handle, request)\n"
    "    return total\n";
#define STACK "[[\"handle\", \"service.py\", 2], [\"serve\", \"service.py\", 7]]"

static pthread_mutex_t app_mutex = PTHREAD_MUTEX_INITIALIZER;
static long worker_tid;
static int holding, wanting, events;

static void tell(void) {
    tell_start("embed", "mutex");
    tell_thread("", "main", getpid(), "MainThread", 1, "futex", STACK);
    tell_thread(", ", "worker", worker_tid, NULL, 1, "futex", "[]");
    tell_locks();
    tell_lock("", "mutex", &app_mutex, 0, "worker", "main");
    tell_lock(", ", "gil", NULL, 0, "main", "worker");
    tell_end("[[\"main\", \"mutex\", \"worker\"], [\"worker\", \"gil\", \"main\"]]");
}

/* Called from Python, and does not release the GIL. */
NOINLINE PyObject *app_native(PyObject *self, PyObject *request) {
    (void)self;
    tell();
    advance(&wanting);
    pthread_mutex_lock(&app_mutex);
    long answer = events + PyLong_AsLong(request);
    pthread_mutex_unlock(&app_mutex);
    return PyLong_FromLong(answer);
}

/* Called from Python with a function of Python, and calls that. */
NOINLINE PyObject *app_dispatch(PyObject *self, PyObject *arguments) {
    (void)self;
    PyObject *handler, *request;
    if (!PyArg_ParseTuple(arguments, "OO", &handler, &request))
        return NULL;
    PyObject *answer = PyObject_CallFunctionObjArgs(handler, request, NULL);
    ++events;
    return answer;
}

static PyMethodDef native_method = {"native", app_native, METH_O, NULL};
static PyMethodDef dispatch_method = {"dispatch", app_dispatch, METH_VARARGS, NULL};

NOINLINE void app_event(void) {
    pthread_mutex_lock(&app_mutex);
    advance(&holding);
    await(&wanting, 1);
    PyGILState_STATE state = PyGILState_Ensure();
    ++events;
    PyGILState_Release(state);
    pthread_mutex_unlock(&app_mutex);
}

NOINLINE void *app_worker(void *argument) {
    worker_tid = thread_id();
    app_event();
    return argument;
}

NOINLINE long app_serve(PyObject *serve) {
    PyObject *total = PyObject_CallFunction(serve, "i", 3);
    if (!total) {
        PyErr_Print();
        return -1;
    }
    long answer = PyLong_AsLong(total);
    Py_DECREF(total);
    return answer;
}

NOINLINE int app_main(const char *home) {
    setenv("PYTHONHOME", home, 1);
    Py_InitializeEx(0);
    PyRun_SimpleString("import sys; sys.setswitchinterval(1000)"); /* a thread waiting for the GIL sleeps on */
#if PY_VERSION_HEX < 0x03070000
    PyEval_InitThreads();
#endif
    PyObject *globals = PyModule_GetDict(PyImport_AddModule("__main__"));
    PyDict_SetItemString(globals, "native", PyCFunction_New(&native_method, NULL));
    PyDict_SetItemString(globals, "dispatch", PyCFunction_New(&dispatch_method, NULL));
    PyObject *code = Py_CompileString(SERVICE, "service.py", Py_file_input);
    if (!code || !PyEval_EvalCode(code, globals, globals) || !PyImport_ImportModule("threading")) {
        PyErr_Print();
        return 1;
    }
    pthread_t worker;
    if (pthread_create(&worker, NULL, app_worker, NULL))
        return 1;
    await(&holding, 1);
    long answer = app_serve(PyDict_GetItemString(globals, "serve"));
    printf("%ld\n", answer);
    return answer < 0;
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fputs("usage: embed HOME\n", stderr);
        return 2;
    }
    int failed = app_main(argv[1]);
    return failed ? 1 : 0;
}
