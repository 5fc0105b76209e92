/* Shared mutexes of Boost, each in the reverse order of another one, as in boostorg/thread#265: the mutex only counts the
   threads that read. All of its code is in a header; the program exports those functions that the compiler did not inline.

   Of each pair of threads, "one" has the first mutex and wants the second, and "two" the other way round: by `lock()`, a
   guard, as a reader, or with the right to upgrade.

Truth: {"expect": "deadlock", "library": "boost", "flags": ["-w", "-rdynamic"],
        "builds": ["-O2 -s", "clang -O2", "clang -O3 -s"], "long": ["clang -O1"],
        "edges": [["locks one", "boost-shared-mutex", "locks two"], ["locks two", "boost-shared-mutex", "locks one"],
                  ["guards one", "boost-shared-mutex", "guards two"],
                  ["guards two", "boost-shared-mutex", "guards one"],
                  ["readers one", "boost-shared-mutex", "readers two"],
                  ["readers two", "boost-shared-mutex", "readers one"],
                  ["upgrades one", "boost-shared-mutex", "upgrades two"],
                  ["upgrades two", "boost-shared-mutex", "upgrades one"]],
        "behind": ["main"], "waits": [["main", "thread-exit", "locks one"]]} */
#include <boost/thread/locks.hpp>
#include <boost/thread/shared_mutex.hpp>

using Mutex = boost::shared_mutex;
#include "../mutex_pairs.hpp"

NOINLINE static void locks(Pair &pair, Mutex &first, Mutex &second) {
    first.lock();
    pair.meet();
    second.lock();
    second.unlock();
    first.unlock();
}

NOINLINE static void guards(Pair &pair, Mutex &first, Mutex &second) {
    boost::lock_guard<Mutex> one(first);
    pair.meet();
    boost::lock_guard<Mutex> two(second);
}

NOINLINE static void readers(Pair &pair, Mutex &first, Mutex &second) {
    first.lock_shared();
    pair.meet();
    boost::unique_lock<Mutex> two(second);
    first.unlock_shared();
}

NOINLINE static void upgrades(Pair &pair, Mutex &first, Mutex &second) {
    first.lock_upgrade();
    pair.meet();
    second.lock();
    second.unlock();
    first.unlock_upgrade();
}

int main() {
    static const Part parts[] = {
        {"locks", locks}, {"guards", guards}, {"readers", readers}, {"upgrades", upgrades}};
    run(parts);
}
