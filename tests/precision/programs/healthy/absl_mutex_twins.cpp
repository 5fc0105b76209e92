/* Functions that look as if they held an `absl::Mutex`: those of mutex_twins.hpp, and such whose guard has released it, whose
   try has failed, or that have read, waited for a condition or a signal, and released it then.

   The holder is another thread, which sleeps for a while.

Truth: {"expect": "healthy", "library": "absl", "flags": ["-w"],
        "builds": ["-O2 -s", "clang -O2 -s", "-O0"],
        "long": ["-O1", "-O3 -s", "clang -O0 -s", "clang -O1", "clang -O3"]} */
#include <absl/synchronization/mutex.h>

struct Mutex : absl::Mutex {
    void lock() {
        Lock();
    }

    void unlock() {
        Unlock();
    }
};

#include "../mutex_twins.hpp"

static bool never = false;
static absl::CondVar changed;

static void try_failed(Round &round, Mutex &mutex) {
    bool has = mutex.TryLock();
    rest(round);
    if (has)
        mutex.Unlock();
}

static void reader_try_failed(Round &round, Mutex &mutex) {
    if (mutex.ReaderTryLock()) {
        mutex.ReaderUnlock();
        return;
    }
    rest(round);
}

static void guard_released(Round &round, Mutex &mutex) {
    absl::ReleasableMutexLock guard(&mutex);
    guard.Release();
    rest(round);
}

static void read_before(Round &round, Mutex &mutex) {
    {
        absl::ReaderMutexLock guard(&mutex);
    }
    rest(round);
}

static void condition_missed(Round &round, Mutex &mutex) {
    bool is_met = mutex.LockWhenWithTimeout(absl::Condition(&never), absl::Milliseconds(1));
    changed.WaitWithTimeout(&mutex, absl::Milliseconds(1));
    mutex.Unlock();
    rest(round);
    if (is_met)
        mutex.Lock();
}

static void awaited(Round &round, Mutex &mutex) {
    absl::ReleasableMutexLock guard(&mutex);
    mutex.AwaitWithTimeout(absl::Condition(&never), absl::Milliseconds(1));
    guard.Release();
    rest_with(round, &mutex);
}

static void another_awaited(Round &round, Mutex &mutex) {
    round.other.Lock();
    changed.WaitWithTimeout(&round.other, absl::Milliseconds(1));
    rest_with(round, &mutex);
    round.other.Unlock();
}

int main() {
    // the library of Debian is a debug build, which ends the program if threads take locks in different orders
    absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
    run_twins({{try_failed, true}, {reader_try_failed, true}, {guard_released, false}, {read_before, false},
               {condition_missed, false}, {awaited, false}, {another_awaited, false}});
}
