/* Functions that take a read lock, and call a helper that has a function of another library release it.

   The helper itself neither acquires nor releases anything: its calls lead through the linkage table, through slots, or
   through a register that was loaded from one. The one reader that the lock counts is another thread.

Truth: {"expect": "healthy", "extension": "releasing_library.cpp", "builds": ["-O2", "-O2 -fno-plt -s"],
        "long": ["-O0", "-O2 -s", "-O3 -fno-plt", "clang -O2", "clang -O2 -fno-plt -fPIC", "-O2 -no-pie"]} */
#include <pthread.h>
#include "../scene.hpp"

extern "C" void release_one(pthread_rwlock_t *lock);
extern "C" void release_in_two_steps(pthread_rwlock_t *lock);

static pthread_rwlock_t table = PTHREAD_RWLOCK_INITIALIZER;
static pthread_rwlock_t others[2] = {PTHREAD_RWLOCK_INITIALIZER, PTHREAD_RWLOCK_INITIALIZER};
static pthread_mutex_t committing = PTHREAD_MUTEX_INITIALIZER;
static std::atomic<int> phase, arrived, left, round_number;
constexpr int READERS = 3;

/* the analysis knows functions, but not what this leads to */
static int (*volatile read_lock)(pthread_rwlock_t *) = pthread_rwlock_rdlock;

#define NOT_SMALL asm volatile(".fill 40, 1, 0x90")

__attribute__((noinline)) static void finish(pthread_rwlock_t *lock) {
    NOT_SMALL;
    release_one(lock);
    asm volatile("");
}

__attribute__((noinline)) static void finish_in_two_steps(pthread_rwlock_t *lock) {
    NOT_SMALL;
    release_in_two_steps(lock);
    asm volatile("");
}

__attribute__((noinline)) static void finish_all(pthread_rwlock_t *lock) {
    NOT_SMALL;
    // two calls, so that the address of the function stays in a register
    release_one(&others[0]);
    release_one(&others[1]);
    release_one(lock);
    asm volatile("");
}

/* waits for the writer, as each of these functions does in the end */
__attribute__((noinline)) static void commit() {
    arrived++;
    pthread_mutex_lock(&committing);
    pthread_mutex_unlock(&committing);
    left++;
}

__attribute__((noinline)) static void by_library() {
    pthread_rwlock_rdlock(&table);
    finish(&table);
    commit();
    asm volatile("");
}

__attribute__((noinline)) static void by_library_in_two_steps() {
    pthread_rwlock_rdlock(&table);
    finish_in_two_steps(&table);
    commit();
    asm volatile("");
}

__attribute__((noinline)) static void all_by_library() {
    read_lock(&others[0]);
    read_lock(&others[1]);
    pthread_rwlock_rdlock(&table);
    finish_all(&table);
    commit();
    asm volatile("");
}

static void read_for_a_while() {
    while (!scene::stopping) {
        read_lock(&table);
        phase = 1;
        while (phase < 3 && !scene::stopping)
            sched_yield();
        usleep(20000);
        pthread_rwlock_unlock(&table);
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
        pthread_mutex_lock(&committing);
        arrived = left = 0;
        round_number++;
        while (arrived < READERS && !scene::stopping)
            sched_yield();
        phase = 3;
        pthread_rwlock_wrlock(&table);
        pthread_rwlock_unlock(&table);
        pthread_mutex_unlock(&committing);
        while (left < READERS && !scene::stopping)
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
    std::thread threads[] = {
        scene::thread("reader", read_for_a_while),
        scene::thread("by library", [] { each_round(by_library); }),
        scene::thread("in two steps", [] { each_round(by_library_in_two_steps); }),
        scene::thread("all", [] { each_round(all_by_library); }),
        scene::thread("writer", write_pages),
    };
    scene::ready();
    for (std::thread &thread : threads)
        thread.join();
}
