/* The functions of mutex_twins.hpp with a `PyMutex`, for healthy/py_mutex_twins.py. */
#include <Python.h>

struct Mutex {
    PyMutex mutex{};

    void lock() {
        PyMutex_Lock(&mutex);
    }

    void unlock() {
        PyMutex_Unlock(&mutex);
    }
};

#include "mutex_twins.hpp"

extern "C" __attribute__((visibility("default"))) void run() {
    run_twins({});
}
