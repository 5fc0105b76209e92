/* Functions that look as if they held a `QMutex` of Qt 6: those of mutex_twins.hpp, and such whose locker has released it or
   whose try has failed.

   The holder is another thread, which sleeps for a while.

Truth: {"expect": "healthy", "library": "qt6", "flags": ["-fPIC", "-w"],
        "builds": ["-O2 -s", "clang -O2 -s"], "long": ["-O0", "clang -O0 -s", "-O1", "-O3 -s", "clang -O1", "clang -O3"]} */
#include <QtCore/QMutex>

using Mutex = QMutex;

#include "../mutex_twins.hpp"

static void try_failed(Round &round, Mutex &mutex) {
    bool has = mutex.tryLock();
    rest(round);
    if (has)
        mutex.unlock();
}

static void timed_try_failed(Round &round, Mutex &mutex) {
    bool has = mutex.tryLock(1);
    rest(round);
    if (has)
        mutex.unlock();
}

static void locker_unlocked(Round &round, Mutex &mutex) {
    QMutexLocker locker(&mutex);
    locker.unlock();
    rest(round);
}

int main() {
    run_twins({{try_failed, true}, {timed_try_failed, true}, {locker_unlocked, false}});
}
