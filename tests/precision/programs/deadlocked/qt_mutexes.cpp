/* Mutexes of Qt, each in the reverse order of another one. In Qt 6 the compiler puts the first attempt to acquire one into
   the functions of the program, which call QtCore only if it fails.

   Of each pair of threads, "one" has the first mutex and wants the second, and "two" the other way round: by `lock()`,
   by a `QMutexLocker`, by `std::lock_guard`, by `tryLock()`, by a helper, or with a third mutex that was released before.

Truth: {"expect": "deadlock", "library": "qt6", "flags": ["-fPIC", "-w"],
        "builds": ["-O2 -s", "clang -O2"], "long": ["-O1", "-O3 -s", "clang -O1", "clang -O3"],
        "edges": [["locks one", "qt-mutex", "locks two"], ["locks two", "qt-mutex", "locks one"],
                  ["lockers one", "qt-mutex", "lockers two"], ["lockers two", "qt-mutex", "lockers one"],
                  ["guards one", "qt-mutex", "guards two"], ["guards two", "qt-mutex", "guards one"],
                  ["tries one", "qt-mutex", "tries two"], ["tries two", "qt-mutex", "tries one"],
                  ["helpers one", "qt-mutex", "helpers two"], ["helpers two", "qt-mutex", "helpers one"],
                  ["nested one", "qt-mutex", "nested two"], ["nested two", "qt-mutex", "nested one"]],
        "behind": ["main"], "waits": [["main", "thread-exit", "locks one"]]} */
#include <QtCore/QMutex>
#include <mutex>

using Mutex = QMutex;
#include "../mutex_pairs.hpp"

NOINLINE static void locks(Pair &pair, Mutex &first, Mutex &second) {
    first.lock();
    pair.meet();
    second.lock();
    second.unlock();
    first.unlock();
}

NOINLINE static void lockers(Pair &pair, Mutex &first, Mutex &second) {
    QMutexLocker one(&first);
    pair.meet();
    QMutexLocker two(&second);
}

NOINLINE static void guards(Pair &pair, Mutex &first, Mutex &second) {
    std::lock_guard<QMutex> one(first);
    pair.meet();
    std::lock_guard<QMutex> two(second);
}

NOINLINE static void tries(Pair &pair, Mutex &first, Mutex &second) {
    if (!first.tryLock())
        return;
    pair.meet();
    second.lock();
    second.unlock();
    first.unlock();
}

NOINLINE static void acquire(Mutex &mutex) {
    mutex.lock();
}

NOINLINE static void helpers(Pair &pair, Mutex &first, Mutex &second) {
    acquire(first);
    pair.meet();
    acquire(second);
    second.unlock();
    first.unlock();
}

NOINLINE static void nested(Pair &pair, Mutex &first, Mutex &second) {
    first.lock();
    pair.third.lock();
    pair.third.unlock();
    pair.meet();
    second.lock();
    second.unlock();
    first.unlock();
}

int main() {
    static const Part parts[] = {
        {"locks", locks}, {"lockers", lockers}, {"guards", guards}, {"tries", tries}, {"helpers", helpers},
        {"nested", nested}};
    run(parts);
}
