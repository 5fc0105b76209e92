/* Threads that hang on `boost::shared_mutex`: one scene for each of its condition variables, all in one process.
 *
 *     boost-locks SCENE...
 *
 * Prints one JSON line about itself, see tests/support/samples.py, and then hangs.
 */
#include "scenes.h"

#include <boost/thread/shared_mutex.hpp>

namespace {

boost::shared_mutex written, shared, upgraded;

actor *start_resting(const char *role, void *(*run)(void *)) {
    actor *started = start(role, run, nullptr);
    settle_at_rest(started);
    return started;
}

void wait_for(const char *role, void *(*run)(void *), boost::shared_mutex &lock) {
    settle_on(start(role, run, nullptr), &lock, sizeof lock);
}

int scene_written() {
    start_resting("writer", [](void *) -> void * { written.lock(); rest_with(&written); return nullptr; });
    wait_for("reader", [](void *) -> void * { written.lock_shared(); return nullptr; }, written);
    wait_for("next", [](void *) -> void * { written.lock(); return nullptr; }, written);
    LOCK(.name = "lock", .kind = "boost-shared-mutex", .address = &written, .state = "write-locked",
         .really = "writer", .candidates = "writer", .waiters = "reader next", .shared = "reader");
    return 1;
}

int scene_shared() {
    start_resting("one", [](void *) -> void * { shared.lock_shared(); rest_with(&shared); return nullptr; });
    start_resting("two", [](void *) -> void * { shared.lock_shared(); rest_with(&shared); return nullptr; });
    wait_for("writer", [](void *) -> void * { shared.lock(); return nullptr; }, shared);
    wait_for("reader", [](void *) -> void * { shared.lock_shared(); return nullptr; }, shared);
    LOCK(.name = "lock", .kind = "boost-shared-mutex", .address = &shared, .state = "read-locked",
         .really = "one two", .candidates = "one two", .waiters = "reader writer", .shared = "reader");
    return 1;
}

int scene_upgraded() {
    start_resting("reader", [](void *) -> void * { upgraded.lock_shared(); rest_with(&upgraded); return nullptr; });
    wait_for("upgrader", [](void *) -> void * {
        upgraded.lock_upgrade();
        upgraded.unlock_upgrade_and_lock();
        return nullptr;
    }, upgraded);
    LOCK(.name = "lock", .kind = "boost-shared-mutex", .address = &upgraded, .state = "read-locked",
         .really = "reader", .candidates = "reader", .waiters = "upgrader");
    return 1;
}

const scene scenes[] = {{"written", scene_written}, {"shared", scene_shared}, {"upgraded", scene_upgraded}};

}  // namespace

int main(int, char **argv) {
    return play("boost-locks", scenes, sizeof scenes / sizeof *scenes, argv + 1);
}
