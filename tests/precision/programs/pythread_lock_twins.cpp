/* The functions of mutex_twins.hpp with a `PyThread_type_lock`, for healthy/pythread_lock_twins.py. */
#include <Python.h>

struct Mutex {
    PyThread_type_lock made = PyThread_allocate_lock();

    void lock() {
        PyThread_acquire_lock(made, WAIT_LOCK);
    }

    void unlock() {
        PyThread_release_lock(made);
    }
};

#include "mutex_twins.hpp"

static void try_failed(Round &round, Mutex &mutex) {
    bool has = PyThread_acquire_lock(mutex.made, NOWAIT_LOCK);
    rest(round);
    if (has)
        mutex.unlock();
}

static void timed_try_failed(Round &round, Mutex &mutex) {
    bool has = PyThread_acquire_lock_timed(mutex.made, 100, 0) == PY_LOCK_ACQUIRED;
    rest(round);
    if (has)
        mutex.unlock();
}

static void try_failed_and_rests(Round &round, Mutex &mutex) {
    if (!PyThread_acquire_lock(mutex.made, NOWAIT_LOCK)) {
        rest(round);
        return;
    }
    mutex.unlock();
    rest(round);
}

extern "C" __attribute__((visibility("default"))) void run() {
    run_twins({{try_failed, true}, {timed_try_failed, true}, {try_failed_and_rests, true}});
}
