/* Functions that look as if they held a `boost::shared_mutex`: those of mutex_twins.hpp, and such that have read or upgraded.

   The holder is another thread, which sleeps for a while.

Truth: {"expect": "healthy", "library": "boost", "flags": ["-w", "-rdynamic"],
        "builds": ["-O2 -s", "clang -O2 -s", "-O3"], "long": ["-O0", "clang -O0 -s", "-O1", "clang -O1", "clang -O3"]} */
#include <boost/thread/locks.hpp>
#include <boost/thread/shared_mutex.hpp>

using Mutex = boost::shared_mutex;

#include "../mutex_twins.hpp"

static void try_failed(Round &round, Mutex &mutex) {
    bool has = mutex.try_lock();
    rest(round);
    if (has)
        mutex.unlock();
}

static void read_before(Round &round, Mutex &mutex) {
    {
        boost::shared_lock<Mutex> guard(mutex);
    }
    rest(round);
}

static void read_unlocked(Round &round, Mutex &mutex) {
    boost::shared_lock<Mutex> guard(mutex);
    guard.unlock();
    rest(round);
}

static void upgraded_before(Round &round, Mutex &mutex) {
    mutex.lock_upgrade();
    mutex.unlock_upgrade_and_lock();
    mutex.unlock();
    rest_with(round, &mutex);
}

int main() {
    run_twins({{try_failed, true}, {read_before, false}, {read_unlocked, false}, {upgraded_before, false}});
}
