/* A reader that finds the lock through a global variable, and a stranger that has its address as an argument.

   The reader sleeps and has no address of the lock on its stack. The stranger only passes the address on, as in
   `checkpoint(&catalog)`, and waits for a mutex of the writer. The writer waits for the reader, which ends soon.

Truth: {"expect": "healthy"} */
#include <pthread.h>
#include "../scene.hpp"

static pthread_rwlock_t catalog = PTHREAD_RWLOCK_INITIALIZER;
static pthread_mutex_t commit = PTHREAD_MUTEX_INITIALIZER;
static std::atomic<int> phase;
static long pages;

__attribute__((noinline)) static void begin() { pthread_rwlock_rdlock(&catalog); }
__attribute__((noinline)) static void end() { pthread_rwlock_unlock(&catalog); }

/* writes over what calls have left on the stack */
__attribute__((noinline)) static long compute() {
    volatile long numbers[512];
    long total = 0;
    for (int i = 0; i < 512; i++)
        numbers[i] = i;
    for (int i = 0; i < 512; i++)
        total += numbers[i];
    return total;
}

static void read_for_a_while() {
    while (!scene::stopping) {
        begin();
        compute();
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
        pthread_mutex_lock(&commit);
        phase = 2;
        pthread_rwlock_wrlock(&catalog);
        pages++;
        pthread_rwlock_unlock(&catalog);
        pthread_mutex_unlock(&commit);
    }
}

__attribute__((noinline)) static void checkpoint(pthread_rwlock_t *volatile of) {
    while (!scene::stopping) {
        if (phase != 2) {
            sched_yield();
            continue;
        }
        phase = 3;
        pthread_mutex_lock(&commit);
        pthread_mutex_unlock(&commit);
        phase = of ? 0 : 1;
    }
}

int main() {
    scene::enrol("main");
    scene::listen();
    std::thread reader = scene::thread("reader", read_for_a_while);
    std::thread writer = scene::thread("writer", write_pages);
    std::thread checkpointer = scene::thread("checkpointer", [] { checkpoint(&catalog); });
    scene::ready();
    reader.join();
    writer.join();
    checkpointer.join();
}
