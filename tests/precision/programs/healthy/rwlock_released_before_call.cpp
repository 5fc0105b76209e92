/* Functions that take a read lock, release it in ways that are hard to see, and then wait for the writer's mutex.

   Each has called pthread_rwlock_rdlock for the lock that the writer waits for, and none of them reads any more: it was
   released by a helper, in one branch of several, through a copy of the pointer, by the end of a guard, or it was a
   lock of the same structure's array. The one reader that the lock counts is another thread, which sleeps for a while.

Truth: {"expect": "healthy"} */
#include <pthread.h>
#include <mutex>
#include <shared_mutex>
#include "../scene.hpp"

struct table {
    pthread_rwlock_t locks[3];
    pthread_mutex_t commit;
};

static table tables = {{PTHREAD_RWLOCK_INITIALIZER, PTHREAD_RWLOCK_INITIALIZER, PTHREAD_RWLOCK_INITIALIZER},
                       PTHREAD_MUTEX_INITIALIZER};
static table *volatile the_table = &tables;
static std::atomic<int> phase, arrived, left, round_number;

__attribute__((noinline)) static void begin() { pthread_rwlock_rdlock(&the_table->locks[0]); }
__attribute__((noinline)) static void end() { pthread_rwlock_unlock(&the_table->locks[0]); }

/* waits for the writer, as each of these functions does in the end */
__attribute__((noinline)) static void commit(table *of) {
    arrived++;
    pthread_mutex_lock(&of->commit);
    pthread_mutex_unlock(&of->commit);
    left++;
}

__attribute__((noinline)) static void release_all(pthread_rwlock_t **locks, int count) {
    for (int i = 0; i < count; i++)
        pthread_rwlock_unlock(locks[i]);
}

__attribute__((noinline)) static void by_helper(table *of) {
    pthread_rwlock_t *lock = &of->locks[0];
    pthread_rwlock_rdlock(lock);
    release_all(&lock, 1);
    commit(of);
}

__attribute__((noinline)) static void in_a_branch(table *of, int kind) {
    pthread_rwlock_rdlock(&of->locks[0]);
    switch (kind) {
    case 0: of->locks[1].__data.__flags = 0; break;
    case 1: pthread_rwlock_unlock(&of->locks[0]); commit(of); return;
    case 2: arrived += 0; break;
    case 3: phase += 0; break;
    case 4: round_number += 0; break;
    }
    pthread_rwlock_unlock(&of->locks[0]);
}

__attribute__((noinline)) static void by_copy(table *of, pthread_rwlock_t *const *copy) {
    pthread_rwlock_rdlock(&of->locks[0]);
    pthread_rwlock_unlock(*copy);
    commit(of);
}

__attribute__((noinline)) static void another_of_the_array(table *of, int index) {
    pthread_rwlock_rdlock(&of->locks[index]);
    commit(of);
    pthread_rwlock_unlock(&of->locks[index]);
}

__attribute__((noinline)) static void pointer_moved_on(table *of) {
    pthread_rwlock_t *volatile lock = &of->locks[2];
    pthread_rwlock_rdlock(lock);
    pthread_rwlock_t *taken = lock;
    lock = &of->locks[0];
    commit(of);
    pthread_rwlock_unlock(taken);
}

struct guard {
    pthread_rwlock_t *lock;
    bool owns;
    __attribute__((noinline)) explicit guard(pthread_rwlock_t *lock) : lock(lock), owns(true) {
        pthread_rwlock_rdlock(lock);
    }
    __attribute__((noinline)) void release() {
        pthread_rwlock_unlock(lock);
        owns = false;
    }
    ~guard() {
        if (owns)
            pthread_rwlock_unlock(lock);
    }
};

__attribute__((noinline)) static void by_guard(table *of) {
    guard reading(&of->locks[0]);
    reading.release();
    commit(of);
}

static void read_for_a_while() {
    while (!scene::stopping) {
        begin();
        phase = 1;
        while (phase < 3 && !scene::stopping)
            sched_yield();
        usleep(20000);
        end();
        while (phase && !scene::stopping)
            sched_yield();
    }
}

static void write_pages() {
    while (!scene::stopping) {
        if (phase != 1) {
            sched_yield();
            continue;
        }
        pthread_mutex_lock(&the_table->commit);
        arrived = left = 0;
        round_number++;
        while (arrived < 6 && !scene::stopping)
            sched_yield();
        phase = 3;
        pthread_rwlock_wrlock(&the_table->locks[0]);
        pthread_rwlock_unlock(&the_table->locks[0]);
        pthread_mutex_unlock(&the_table->commit);
        while (left < 6 && !scene::stopping)
            sched_yield();
        phase = 0;
    }
}

template <typename Function>
static void each_round(Function function) {
    int done = 0;
    while (!scene::stopping) {
        if (round_number == done) {
            sched_yield();
            continue;
        }
        done = round_number;
        function();
    }
}

int main() {
    scene::enrol("main");
    scene::listen();
    static pthread_rwlock_t *copy = &tables.locks[0];
    std::thread threads[] = {
        scene::thread("reader", read_for_a_while),
        scene::thread("by helper", [] { each_round([] { by_helper(the_table); }); }),
        scene::thread("in a branch", [] { each_round([] { in_a_branch(the_table, 1); }); }),
        scene::thread("by copy", [] { each_round([] { by_copy(the_table, &copy); }); }),
        scene::thread("another", [] { each_round([] { another_of_the_array(the_table, 1); }); }),
        scene::thread("moved on", [] { each_round([] { pointer_moved_on(the_table); }); }),
        scene::thread("by guard", [] { each_round([] { by_guard(the_table); }); }),
        scene::thread("writer", write_pages),
    };
    scene::ready();
    for (std::thread &thread : threads)
        thread.join();
}
