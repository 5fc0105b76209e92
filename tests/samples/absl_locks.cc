/* Threads that hang on `absl::Mutex` and `absl::CondVar`: one scene for each way to wait, all in one process.
 *
 *     absl-locks SCENE...
 *
 * Prints one JSON line about itself, see tests/support/samples.py, and then hangs.
 */
#include "scenes.h"

#include <absl/synchronization/mutex.h>

namespace {

absl::Mutex written, shared, signalled, moved, conditional;
absl::CondVar signal, moving;
bool never;

actor *start_resting(const char *role, void *(*run)(void *)) {
    actor *started = start(role, run, nullptr);
    settle_at_rest(started);
    return started;
}

/* each thread sleeps on a word of its own */
void wait_for(const char *role, void *(*run)(void *)) {
    settle(start(role, run, nullptr));
}

int scene_written() {
    start_resting("writer", [](void *) -> void * { written.Lock(); rest_with(&written); return nullptr; });
    wait_for("next", [](void *) -> void * { written.Lock(); return nullptr; });
    wait_for("reader", [](void *) -> void * { written.ReaderLock(); return nullptr; });
    wait_for("last", [](void *) -> void * { written.Lock(); return nullptr; });
    LOCK(.name = "lock", .kind = "absl-mutex", .address = &written, .state = "write-locked",
         .evidence = "derived", .holders = "writer", .waiters = "next reader last", .shared = "reader");
    return 1;
}

int scene_shared() {
    start_resting("one", [](void *) -> void * { shared.ReaderLock(); rest_with(&shared); return nullptr; });
    start_resting("two", [](void *) -> void * { shared.ReaderLock(); rest_with(&shared); return nullptr; });
    wait_for("writer", [](void *) -> void * { shared.Lock(); return nullptr; });
    wait_for("reader", [](void *) -> void * { shared.ReaderLock(); return nullptr; });
    LOCK(.name = "lock", .kind = "absl-mutex", .address = &shared, .state = "read-locked",
         .really = "one two", .candidates = "one two", .waiters = "writer reader", .shared = "reader");
    return 1;
}

int scene_signal() {
    auto wait = [](void *) -> void * { signalled.Lock(); signal.Wait(&signalled); return nullptr; };
    wait_for("first", wait);
    wait_for("second", wait);
    LOCK(.name = "condvar", .kind = "absl-condvar", .address = &signal, .state = "waiting for a signal",
         .waiters = "first second");
    return 1;
}

/* a signal moves the threads to the mutex, if that is locked */
int scene_moved() {
    auto wait = [](void *) -> void * { moved.Lock(); moving.Wait(&moved); return nullptr; };
    wait_for("first", wait);
    wait_for("second", wait);
    start_resting("holder", [](void *) -> void * {
        moved.Lock();
        moving.SignalAll();
        rest_with(&moved);
        return nullptr;
    });
    LOCK(.name = "lock", .kind = "absl-mutex", .address = &moved, .state = "write-locked",
         .really = "holder", .candidates = "holder", .waiters = "first second");
    return 1;
}

int scene_condition() {
    wait_for("thread", [](void *) -> void * { conditional.LockWhen(absl::Condition(&never)); return nullptr; });
    LOCK(.name = "condition", .kind = "absl-condvar", .address = &conditional, .state = "waiting for a condition",
         .waiters = "thread");
    return 1;
}

const scene scenes[] = {{"written", scene_written}, {"shared", scene_shared}, {"signal", scene_signal},
                        {"moved", scene_moved}, {"condition", scene_condition}};

}  // namespace

int main(int, char **argv) {
    return play("absl-locks", scenes, sizeof scenes / sizeof *scenes, argv + 1);
}
