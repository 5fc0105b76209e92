/* Every kind of lock of the C++ library, in every state in which a thread can hang on it: one scene each.
 *
 *     locks-cc SCENE...
 *
 * Scenes are played in one process, in this order. Prints one JSON line about itself, see tests/support/samples.py, and
 * then hangs.
 */
#include "scenes.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>
#include <shared_mutex>
#if __has_include(<latch>)
#include <barrier>
#include <latch>
#include <semaphore>
#define HAVE_CXX20 1
#else
#define HAVE_CXX20 0
#endif

namespace {

using Role = void *(*)(void *);
constexpr std::chrono::hours some_day{1000};

actor *start_resting(const char *role, Role run) {
    actor *started = start(role, run, nullptr);
    settle_at_rest(started);
    return started;
}

template <typename Lock> actor *start_waiting(const char *role, Role run, const Lock &lock) {
    actor *started = start(role, run, nullptr);
    settle_on(started, &lock, sizeof lock);
    return started;
}

/* -- what is a pthread mutex inside -- */

std::mutex plain_mutex;

int scene_mutex() {
    start_resting("holder", [](void *) -> void * { plain_mutex.lock(); rest(); return nullptr; });
    Role want = [](void *) -> void * { std::lock_guard<std::mutex> guard(plain_mutex); return nullptr; };
    start_waiting("first", want, plain_mutex);
    start_waiting("second", want, plain_mutex);
    LOCK(.name = "lock", .kind = "mutex", .address = &plain_mutex, .state = "locked", .holders = "holder",
         .waiters = "first second");
    return 1;
}

std::timed_mutex timed_mutex;

int scene_timed_mutex() {
    start_resting("holder", [](void *) -> void * { timed_mutex.lock(); rest(); return nullptr; });
    start_waiting("first", [](void *) -> void * {
        (void)timed_mutex.try_lock_for(some_day);
        return nullptr;
    }, timed_mutex);
    start_waiting("second", [](void *) -> void * { timed_mutex.lock(); return nullptr; }, timed_mutex);
    LOCK(.name = "lock", .kind = "mutex", .address = &timed_mutex, .state = "locked", .holders = "holder",
         .waiters = "first second", .timed = "first");
    return 1;
}

std::recursive_mutex recursive_mutex;

int scene_recursive_mutex() {
    start_resting("holder", [](void *) -> void * {
        recursive_mutex.lock();
        recursive_mutex.lock();
        rest();
        return nullptr;
    });
    start_waiting("waiter", [](void *) -> void * { recursive_mutex.lock(); return nullptr; }, recursive_mutex);
    LOCK(.name = "lock", .kind = "mutex", .address = &recursive_mutex, .state = "locked", .holders = "holder",
         .waiters = "waiter");
    return 1;
}

std::mutex scoped_one, scoped_other;
int scoped_holding;

void take_both(std::mutex &near, std::mutex &far) {
    std::unique_lock<std::mutex> held(near);
    advance(&scoped_holding);
    await(&scoped_holding, 2);
    std::unique_lock<std::mutex> wanted(far);
}

int scene_mutex_abba() {
    Role one_first = [](void *) -> void * { take_both(scoped_one, scoped_other); return nullptr; };
    Role other_first = [](void *) -> void * { take_both(scoped_other, scoped_one); return nullptr; };
    actor *first = start("first", one_first, nullptr), *second = start("second", other_first, nullptr);
    settle_on(first, &scoped_other, sizeof scoped_other);
    settle_on(second, &scoped_one, sizeof scoped_one);
    LOCK(.name = "one", .kind = "mutex", .address = &scoped_one, .state = "locked", .holders = "first",
         .waiters = "second");
    LOCK(.name = "other", .kind = "mutex", .address = &scoped_other, .state = "locked", .holders = "second",
         .waiters = "first");
    note_edge("first", "other", "second");
    note_edge("second", "one", "first");
    return 1;
}

/* -- what is a pthread rwlock inside -- */

std::shared_mutex written_mutex, read_mutex;

int scene_shared_mutex_written() {
    start_resting("writer", [](void *) -> void * { written_mutex.lock(); rest(); return nullptr; });
    start_waiting("reader", [](void *) -> void * { written_mutex.lock_shared(); return nullptr; }, written_mutex);
    start_waiting("next", [](void *) -> void * { written_mutex.lock(); return nullptr; }, written_mutex);
    LOCK(.name = "lock", .kind = "rwlock", .address = &written_mutex, .state = "write-locked", .holders = "writer",
         .waiters = "reader next", .shared = "reader");
    return 1;
}

int scene_shared_mutex_read() {
    start_resting("reader", [](void *) -> void * {
        std::shared_lock<std::shared_mutex> guard(read_mutex);
        rest_with(guard.mutex());
        return nullptr;
    });
    start_waiting("writer", [](void *) -> void * { read_mutex.lock(); return nullptr; }, read_mutex);
    LOCK(.name = "lock", .kind = "rwlock", .address = &read_mutex, .state = "read-locked", .mode = "shared",
         .evidence = "derived", .holders = "reader", .waiters = "writer");
    return 1;
}

/* -- what is a pthread condition variable inside -- */

std::mutex signal_mutex;
std::condition_variable plain_signal, timed_signal;
std::shared_mutex any_mutex;
std::condition_variable_any any_signal;

int scene_condition_variable() {
    Role wait = [](void *) -> void * {
        std::unique_lock<std::mutex> guard(signal_mutex);
        plain_signal.wait(guard, [] { return false; });
        return nullptr;
    };
    start_waiting("first", wait, plain_signal);
    start_waiting("second", wait, plain_signal);
    LOCK(.name = "lock", .kind = "condvar", .address = &plain_signal, .state = "waiting for a signal",
         .waiters = "first second");
    return 1;
}

int scene_condition_variable_timed() {
    start_waiting("waiter", [](void *) -> void * {
        std::unique_lock<std::mutex> guard(signal_mutex);
        timed_signal.wait_for(guard, some_day, [] { return false; });
        return nullptr;
    }, timed_signal);
    LOCK(.name = "lock", .kind = "condvar", .address = &timed_signal, .state = "waiting for a signal",
         .waiters = "waiter", .timed = "waiter");
    return 1;
}

int scene_condition_variable_any() {
    Role wait = [](void *) -> void * {
        std::shared_lock<std::shared_mutex> guard(any_mutex);
        any_signal.wait(guard, [] { return false; });
        return nullptr;
    };
    start_waiting("first", wait, any_signal);
    start_waiting("second", wait, any_signal);
    LOCK(.name = "lock", .kind = "condvar", .address = &any_signal, .state = "waiting for a signal",
         .waiters = "first second");
    return 1;
}

/* -- initialisation -- */

std::once_flag flag;

int scene_call_once() {
    start_resting("initialiser", [](void *) -> void * { std::call_once(flag, rest); return nullptr; });
    Role need = [](void *) -> void * { std::call_once(flag, rest); return nullptr; };
    start_waiting("first", need, flag);
    start_waiting("second", need, flag);
    LOCK(.name = "lock", .kind = "once", .address = &flag, .state = "in progress", .evidence = "derived",
         .holders = "initialiser", .waiters = "first second");
    return 1;
}

NOINLINE int slow_value() {
    rest();
    return 1;
}

NOINLINE int slow_table() {
    static int table = slow_value();
    return table;
}

int scene_guard() {
    start_resting("initialiser", [](void *) -> void * { slow_table(); return nullptr; });
    Role need = [](void *) -> void * { slow_table(); return nullptr; };
    actor *first = start("first", need, nullptr);
    const void *guard = settle(first);
    settle_on(start("second", need, nullptr), guard, 4);
    LOCK(.name = "lock", .kind = "static-guard", .address = guard, .state = "in progress", .evidence = "derived",
         .holders = "initialiser", .waiters = "first second");
    return 1;
}

std::mutex registry_mutex;
int registry_held, registry_initialising;

struct Registry {
    Registry() {
        advance(&registry_initialising);
        std::lock_guard<std::mutex> guard(registry_mutex);
        entries = 1;
    }
    volatile int entries;
};

NOINLINE Registry &registry() {
    static Registry instance;
    return instance;
}

/* The initialiser waits for a mutex; its holder waits for the variable that is being initialised. */
int scene_guard_deadlock() {
    actor *user = start("user", [](void *) -> void * {
        std::lock_guard<std::mutex> guard(registry_mutex);
        advance(&registry_held);
        await(&registry_initialising, 1);
        registry();
        return nullptr;
    }, nullptr);
    await(&registry_held, 1);
    actor *initialiser = start("initialiser", [](void *) -> void * { registry(); return nullptr; }, nullptr);
    const void *guard = settle(user);
    settle_on(initialiser, &registry_mutex, sizeof registry_mutex);
    LOCK(.name = "guard", .kind = "static-guard", .address = guard, .state = "in progress", .evidence = "derived",
         .holders = "initialiser", .waiters = "user");
    LOCK(.name = "mutex", .kind = "mutex", .address = &registry_mutex, .state = "locked", .holders = "user",
         .waiters = "initialiser");
    note_edge("initialiser", "mutex", "user");
    note_edge("user", "guard", "initialiser");
    return 1;
}

int own_value();

NOINLINE int own_table() {
    static int table = own_value();
    return table;
}

NOINLINE int own_value() {
    return own_table() + 1;
}

int scene_guard_self() {
    const void *guard = settle(start("only", [](void *) -> void * { own_table(); return nullptr; }, nullptr));
    LOCK(.name = "lock", .kind = "static-guard", .address = guard, .state = "in progress", .evidence = "derived",
         .holders = "only", .waiters = "only");
    note_edge("only", "lock", "only");
    return 1;
}

/* -- what sleeps on a word of the library's own -- */

std::promise<int> unkept;
std::future<int> awaited = unkept.get_future();
std::promise<int> unkept_timed;
std::future<int> awaited_timed = unkept_timed.get_future();

int scene_future() {
    const void *word = settle(start("waiter", [](void *) -> void * { awaited.wait(); return nullptr; }, nullptr));
    LOCK(.name = "lock", .kind = "futex", .address = word, .state = "waited for", .waiters = "waiter");
    return 1;
}

int scene_future_timed() {
    const void *word = settle(start("waiter", [](void *) -> void * {
        awaited_timed.wait_for(some_day);
        return nullptr;
    }, nullptr));
    LOCK(.name = "lock", .kind = "futex", .address = word, .state = "waited for", .waiters = "waiter",
         .timed = "waiter");
    return 1;
}

#if HAVE_CXX20
std::counting_semaphore<1000> counting(0);
std::binary_semaphore binary(0);
std::latch latch(2);
std::barrier<> phase(3);
std::atomic<int> number(7);
std::atomic<char> letter('a');
#endif

int scene_counting_semaphore() {
#if HAVE_CXX20
    start_resting("poster", [](void *) -> void * { rest_with(&counting); return nullptr; });
    Role acquire = [](void *) -> void * { counting.acquire(); return nullptr; };
    start_waiting("first", acquire, counting);
    start_waiting("second", acquire, counting);
    LOCK(.name = "lock", .kind = "futex", .address = &counting, .state = "waited for", .really = "",
         .candidates = "poster", .waiters = "first second");
#endif
    return HAVE_CXX20;
}

int scene_binary_semaphore() {
#if HAVE_CXX20
    start_waiting("waiter", [](void *) -> void * { binary.acquire(); return nullptr; }, binary);
    start_waiting("timed", [](void *) -> void * { (void)binary.try_acquire_for(some_day); return nullptr; }, binary);
    LOCK(.name = "lock", .kind = "futex", .address = &binary, .state = "waited for", .waiters = "waiter timed",
         .timed = "timed");
#endif
    return HAVE_CXX20;
}

int scene_latch() {
#if HAVE_CXX20
    start_resting("counter", [](void *) -> void * { rest_with(&latch); return nullptr; });
    Role wait = [](void *) -> void * { latch.wait(); return nullptr; };
    start_waiting("first", wait, latch);
    start_waiting("second", wait, latch);
    LOCK(.name = "lock", .kind = "futex", .address = &latch, .state = "waited for", .really = "counter",
         .candidates = "counter", .waiters = "first second");
#endif
    return HAVE_CXX20;
}

/* Its waiters sleep on words that the library shares between objects. */
int scene_barrier() {
#if HAVE_CXX20
    Role arrive = [](void *) -> void * { phase.arrive_and_wait(); return nullptr; };
    actor *first = start("first", arrive, nullptr);
    const void *word = settle(first);
    settle_on(start("second", arrive, nullptr), word, 4);
    LOCK(.name = "lock", .kind = "futex", .address = word, .state = "waited for", .waiters = "first second");
#endif
    return HAVE_CXX20;
}

int scene_atomic_int() {
#if HAVE_CXX20
    start_resting("changer", [](void *) -> void * { rest_with(&number); return nullptr; });
    Role wait = [](void *) -> void * { number.wait(7); return nullptr; };
    start_waiting("first", wait, number);
    start_waiting("second", wait, number);
    LOCK(.name = "lock", .kind = "futex", .address = &number, .state = "waited for", .really = "",
         .candidates = "changer", .waiters = "first second");
#endif
    return HAVE_CXX20;
}

int scene_atomic_char() {
#if HAVE_CXX20
    const void *word = settle(start("waiter", [](void *) -> void * { letter.wait('a'); return nullptr; }, nullptr));
    LOCK(.name = "lock", .kind = "futex", .address = word, .state = "waited for", .waiters = "waiter");
#endif
    return HAVE_CXX20;
}

const scene scenes[] = {
    {"mutex", scene_mutex}, {"timed-mutex", scene_timed_mutex}, {"recursive-mutex", scene_recursive_mutex},
    {"mutex-abba", scene_mutex_abba}, {"shared-mutex-written", scene_shared_mutex_written},
    {"shared-mutex-read", scene_shared_mutex_read}, {"condition-variable", scene_condition_variable},
    {"condition-variable-timed", scene_condition_variable_timed},
    {"condition-variable-any", scene_condition_variable_any}, {"call-once", scene_call_once}, {"guard", scene_guard},
    {"guard-deadlock", scene_guard_deadlock}, {"guard-self", scene_guard_self}, {"future", scene_future},
    {"future-timed", scene_future_timed}, {"counting-semaphore", scene_counting_semaphore},
    {"binary-semaphore", scene_binary_semaphore}, {"latch", scene_latch}, {"barrier", scene_barrier},
    {"atomic-int", scene_atomic_int}, {"atomic-char", scene_atomic_char},
};

}  // namespace

int main(int, char **argv) {
    return play("locks-cc", scenes, sizeof scenes / sizeof *scenes, argv + 1);
}
