/* kraison/vivace-graph#76, without its deadlock: a transaction reads for a while, a writer waits for it.

   The transaction's read lock is taken in one function and given back in another, so that no address of it is on the
   reader's stack. A third thread has the address on its stack: the lock is the first member of the database that it
   works for, and waits for a mutex of the writer. The reader needs neither, and ends its transaction soon.

Truth: {"expect": "healthy"} */
#include <pthread.h>
#include "../scene.hpp"

struct database {
    pthread_rwlock_t lock;
    pthread_mutex_t commit;
    long pages;
};

static database *the_database = new database{PTHREAD_RWLOCK_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, 0};
static std::atomic<int> phase;

__attribute__((noinline)) static void begin() { pthread_rwlock_rdlock(&the_database->lock); }
__attribute__((noinline)) static void end() { pthread_rwlock_unlock(&the_database->lock); }

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
        pthread_mutex_lock(&the_database->commit);
        phase = 2;
        pthread_rwlock_wrlock(&the_database->lock);
        the_database->pages++;
        pthread_rwlock_unlock(&the_database->lock);
        pthread_mutex_unlock(&the_database->commit);
    }
}

__attribute__((noinline)) static void checkpoint(database *volatile of) {
    while (!scene::stopping) {
        if (phase != 2) {
            sched_yield();
            continue;
        }
        phase = 3;
        pthread_mutex_lock(&of->commit);
        pthread_mutex_unlock(&of->commit);
        phase = 0;
    }
}

int main() {
    scene::enrol("main");
    scene::listen();
    std::thread reader = scene::thread("reader", read_for_a_while);
    std::thread writer = scene::thread("writer", write_pages);
    std::thread checkpointer = scene::thread("checkpointer", [] { checkpoint(the_database); });
    scene::ready();
    reader.join();
    writer.join();
    checkpointer.join();
}
