/* Mutexes of Abseil, each in the reverse order of another one, as in
   https://github.com/grpc/grpc/issues/32294: the library does not record which thread has one.

   Of each pair of threads, "one" has the first mutex and wants the second, and "two" the other way round: by `Lock()`, a
   `MutexLock`, a `ReleasableMutexLock`, `TryLock()`, `LockWhen()`, as a reader, by a helper, or with a third mutex
   that was released before. Or each has waited for a condition meanwhile, wants the second one in a function that
   it calls through a pointer, or has a mutex that is a member of an object.

Truth: {"expect": "deadlock", "library": "absl", "flags": ["-w"],
        "builds": ["-O2 -s", "clang -O2", "-O0"],
        "long": ["-O1", "-O3 -s", "clang -O1", "clang -O3"],
        "edges": [["locks one", "absl-mutex", "locks two"], ["locks two", "absl-mutex", "locks one"],
                  ["guards one", "absl-mutex", "guards two"], ["guards two", "absl-mutex", "guards one"],
                  ["releasable one", "absl-mutex", "releasable two"],
                  ["releasable two", "absl-mutex", "releasable one"],
                  ["tries one", "absl-mutex", "tries two"], ["tries two", "absl-mutex", "tries one"],
                  ["whens one", "absl-mutex", "whens two"], ["whens two", "absl-mutex", "whens one"],
                  ["readers one", "absl-mutex", "readers two"], ["readers two", "absl-mutex", "readers one"],
                  ["helpers one", "absl-mutex", "helpers two"], ["helpers two", "absl-mutex", "helpers one"],
                  ["nested one", "absl-mutex", "nested two"], ["nested two", "absl-mutex", "nested one"],
                  ["waits one", "absl-mutex", "waits two"], ["waits two", "absl-mutex", "waits one"],
                  ["awaits one", "absl-mutex", "awaits two"], ["awaits two", "absl-mutex", "awaits one"],
                  ["callbacks one", "absl-mutex", "callbacks two"],
                  ["callbacks two", "absl-mutex", "callbacks one"],
                  ["objects one", "absl-mutex", "objects two"], ["objects two", "absl-mutex", "objects one"]],
        "behind": ["main"], "waits": [["main", "thread-exit", "locks one"]]} */
#include <absl/synchronization/mutex.h>

using Mutex = absl::Mutex;
#include "../mutex_pairs.hpp"

static bool always = true, never = false;
static absl::CondVar changed;

NOINLINE static void locks(Pair &pair, Mutex &first, Mutex &second) {
    first.Lock();
    pair.meet();
    second.Lock();
    second.Unlock();
    first.Unlock();
}

NOINLINE static void guards(Pair &pair, Mutex &first, Mutex &second) {
    absl::MutexLock one(&first);
    pair.meet();
    absl::MutexLock two(&second);
}

NOINLINE static void releasable(Pair &pair, Mutex &first, Mutex &second) {
    absl::ReleasableMutexLock one(&first);
    pair.meet();
    absl::MutexLock two(&second);
}

NOINLINE static void tries(Pair &pair, Mutex &first, Mutex &second) {
    if (first.TryLock()) {
        pair.meet();
        second.Lock();
        second.Unlock();
        first.Unlock();
    }
}

NOINLINE static void whens(Pair &pair, Mutex &first, Mutex &second) {
    first.LockWhen(absl::Condition(&always));
    pair.meet();
    second.Lock();
    second.Unlock();
    first.Unlock();
}

NOINLINE static void readers(Pair &pair, Mutex &first, Mutex &second) {
    absl::ReaderMutexLock one(&first);
    pair.meet();
    absl::WriterMutexLock two(&second);
}

NOINLINE static void acquire(Mutex &mutex) {
    mutex.Lock();
}

NOINLINE static void helpers(Pair &pair, Mutex &first, Mutex &second) {
    acquire(first);
    pair.meet();
    acquire(second);
    second.Unlock();
    first.Unlock();
}

NOINLINE static void nested(Pair &pair, Mutex &first, Mutex &second) {
    first.Lock();
    pair.third.Lock();
    pair.third.Unlock();
    pair.meet();
    second.Lock();
    second.Unlock();
    first.Unlock();
}

NOINLINE static void waits(Pair &pair, Mutex &first, Mutex &second) {
    absl::MutexLock one(&first);
    changed.WaitWithTimeout(&first, absl::Milliseconds(1));
    pair.meet();
    absl::MutexLock two(&second);
}

NOINLINE static void awaits(Pair &pair, Mutex &first, Mutex &second) {
    first.Lock();
    first.AwaitWithTimeout(absl::Condition(&never), absl::Milliseconds(1));
    pair.meet();
    second.Lock();
    second.Unlock();
    first.Unlock();
}

NOINLINE static void callbacks(Pair &pair, Mutex &first, Mutex &second) {
    static void (*volatile wanting)(absl::Mutex &) = acquire;
    absl::MutexLock one(&first);
    pair.meet();
    wanting(second);
    second.Unlock();
}

struct Account {
    virtual ~Account() = default;

    virtual void receive() {
        absl::MutexLock lock(&mutex);
    }

    NOINLINE void send(Pair &pair, Account &other) {
        absl::MutexLock lock(&mutex);
        pair.meet();
        other.receive();
    }

    absl::Mutex mutex;
};

NOINLINE static void objects(Pair &pair, Mutex &first, Mutex &) {
    static Account accounts[2];
    Account &own = accounts[&first - pair.mutexes];
    own.send(pair, accounts[&own == accounts]);
}

int main() {
    static const Part parts[] = {
#ifndef HIDDEN
        {"tries", tries}, {"whens", whens}, {"readers", readers}, {"nested", nested}, {"awaits", awaits},
#endif
        {"locks", locks}, {"guards", guards}, {"releasable", releasable}, {"helpers", helpers}, {"waits", waits},
        {"callbacks", callbacks}, {"objects", objects}};
    // the library of Debian is a debug build, which ends the program otherwise
    absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
    run(parts);
}
