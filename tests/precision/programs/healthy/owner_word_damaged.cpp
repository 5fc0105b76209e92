/* A read-write lock and a mutex whose owner words were overwritten with an unused TID, or with another value.

   The threads that hold them are alive, sleep for a while and release them. No thread has exited, and nothing has forked.

Truth: {"expect": "healthy"} */
#include <pthread.h>
#include "../scene.hpp"

static pthread_rwlock_t table = PTHREAD_RWLOCK_INITIALIZER;
static pthread_mutex_t journal = PTHREAD_MUTEX_INITIALIZER;
static std::atomic<int> damaged;

static void write_table() {
    while (!scene::stopping) {
        pthread_rwlock_wrlock(&table);
        int own = table.__data.__cur_writer;
        table.__data.__cur_writer = 0x5A17F00D;
        damaged = 1;
        usleep(20000);
        table.__data.__cur_writer = own;
        pthread_rwlock_unlock(&table);
        usleep(500);
    }
}

static void write_journal() {
    while (!scene::stopping) {
        pthread_mutex_lock(&journal);
        int own = journal.__data.__owner;
        journal.__data.__owner = 1;
        damaged = 1;
        usleep(20000);
        journal.__data.__owner = own;
        pthread_mutex_unlock(&journal);
        usleep(500);
    }
}

static void use_table() {
    while (!scene::stopping) {
        pthread_rwlock_wrlock(&table);
        pthread_rwlock_unlock(&table);
    }
}

static void use_journal() {
    while (!scene::stopping) {
        pthread_mutex_lock(&journal);
        pthread_mutex_unlock(&journal);
    }
}

int main() {
    scene::enrol("main");
    scene::listen();
    std::thread threads[] = {
        scene::thread("table writer", write_table), scene::thread("journal writer", write_journal),
        scene::thread("table user", use_table), scene::thread("journal user", use_journal),
    };
    scene::ready();
    for (std::thread &thread : threads)
        thread.join();
}
