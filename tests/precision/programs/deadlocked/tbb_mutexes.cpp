/* oneapi-src/oneTBB#1104, with `tbb::mutex`: mutexes that are acquired in the reverse order of another thread. The compiler puts
   the acquisition and the release into the functions of the program.

   Of each pair of threads, "one" has the first mutex and wants the second, and "two" the other way round: by `lock()`,
   by a `scoped_lock`, by `std::lock_guard`, by `try_lock()`, by a helper, or with a third mutex that was released before.

Truth: {"expect": "deadlock", "library": "tbb", "flags": ["-w"],
        "builds": ["-O2 -s", "clang -O2"], "long": ["-O1", "-O3 -s", "clang -O1", "clang -O3"],
        "edges": [["locks one", "tbb-mutex", "locks two"], ["locks two", "tbb-mutex", "locks one"],
                  ["scoped one", "tbb-mutex", "scoped two"], ["scoped two", "tbb-mutex", "scoped one"],
                  ["guards one", "tbb-mutex", "guards two"], ["guards two", "tbb-mutex", "guards one"],
                  ["tries one", "tbb-mutex", "tries two"], ["tries two", "tbb-mutex", "tries one"],
                  ["helpers one", "tbb-mutex", "helpers two"], ["helpers two", "tbb-mutex", "helpers one"],
                  ["nested one", "tbb-mutex", "nested two"], ["nested two", "tbb-mutex", "nested one"]],
        "behind": ["main"], "waits": [["main", "thread-exit", "locks one"]]} */
#include <oneapi/tbb/mutex.h>
#include <mutex>

using Mutex = tbb::mutex;
#include "../mutex_pairs.hpp"

NOINLINE static void locks(Pair &pair, Mutex &first, Mutex &second) {
    first.lock();
    pair.meet();
    second.lock();
    second.unlock();
    first.unlock();
}

NOINLINE static void scoped(Pair &pair, Mutex &first, Mutex &second) {
    tbb::mutex::scoped_lock one(first);
    pair.meet();
    tbb::mutex::scoped_lock two(second);
}

NOINLINE static void guards(Pair &pair, Mutex &first, Mutex &second) {
    std::lock_guard<tbb::mutex> one(first);
    pair.meet();
    std::lock_guard<tbb::mutex> two(second);
}

NOINLINE static void tries(Pair &pair, Mutex &first, Mutex &second) {
    if (!first.try_lock())
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
        {"locks", locks}, {"scoped", scoped}, {"guards", guards}, {"tries", tries}, {"helpers", helpers},
        {"nested", nested}};
    run(parts);
}
