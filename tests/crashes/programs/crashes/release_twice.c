#include <Python.h>
#include <pthread.h>

__attribute__((noinline)) void finish_call(PyGILState_STATE state) { PyGILState_Release(state); }

static void *work(void *unused) {
    PyGILState_STATE state = PyGILState_Ensure();
    finish_call(state);
    finish_call(state);
    return unused;
}

void call_twice(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, work, NULL);
    pthread_join(thread, NULL);
}
