/* arangodb/arangodb#14134: a thread takes a read lock again while a writer waits, and the lock prefers writers.

   The reader waits behind the writer, the writer waits until the reader gives back its first lock. glibc does so for
   locks of the kind PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP.

Truth: {"expect": "deadlock", "silent": ["core"],
        "edges": [["reader", "rwlock", "writer"], ["writer", "rwlock", "reader"]],
        "behind": ["main", "second"], "waits": [["main", "thread-exit", "reader"]]} */
#include <pthread.h>
#include "../scene.hpp"

static pthread_rwlock_t lock = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
static std::atomic<bool> reading;

static void read_twice() {
    pthread_rwlock_rdlock(&lock);
    reading = true;
    /* until a writer waits, others may read */
    while (pthread_rwlock_tryrdlock(&lock) == 0) {
        pthread_rwlock_unlock(&lock);
        sched_yield();
    }
    pthread_rwlock_rdlock(&lock);
}

static void write_lock() { pthread_rwlock_wrlock(&lock); }

int main() {
    scene::enrol("main");
    std::thread reader = scene::thread("reader", read_twice);
    while (!reading)
        sched_yield();
    std::thread writer = scene::thread("writer", write_lock);
    std::thread second = scene::thread("second", write_lock);
    scene::ready();
    reader.join();
}
