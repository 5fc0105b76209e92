/* Two locks of CPython that an extension uses as its own, for deadlocked/pythread_locks.py. */
#include <Python.h>
#include <atomic>
#include <unistd.h>

static PyThread_type_lock locks[2];
static std::atomic<int> arrived{0};

extern "C" __attribute__((visibility("default"))) void prepare() {
    for (PyThread_type_lock &each : locks) {
        each = PyThread_allocate_lock();
        PyThread_acquire_lock(each, WAIT_LOCK);
        PyThread_release_lock(each);
    }
}

/* Takes one lock and then the other. */
extern "C" __attribute__((visibility("default"))) void work(int side) {
    PyThread_type_lock one = locks[side], other = locks[!side];
    PyThread_acquire_lock(one, WAIT_LOCK);
    arrived++;
    while (arrived < 2)
        usleep(200);
    PyThread_acquire_lock(other, WAIT_LOCK);
    PyThread_release_lock(other);
    PyThread_release_lock(one);
}
