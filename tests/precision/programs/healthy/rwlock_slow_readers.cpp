/* h2o/h2o#423: readers that come and go so slowly and overlapping that writers wait for long; glibc prefers readers.

Truth: {"expect": "healthy"} */
#include <pthread.h>
#include "../scene.hpp"

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;

static void read_slowly() {
    while (!scene::stopping) {
        pthread_rwlock_rdlock(&lock);
        /* as recursive as glibc lets readers be */
        pthread_rwlock_rdlock(&lock);
        usleep(2000);
        pthread_rwlock_unlock(&lock);
        pthread_rwlock_unlock(&lock);
        usleep(300);
    }
}

static void write_slowly() {
    while (!scene::stopping) {
        pthread_rwlock_wrlock(&lock);
        usleep(500);
        pthread_rwlock_unlock(&lock);
    }
}

int main() {
    scene::enrol("main");
    scene::listen();
    std::thread threads[6];
    for (int i = 0; i < 4; i++)
        threads[i] = scene::thread("reader-" + std::to_string(i), read_slowly);
    for (int i = 4; i < 6; i++)
        threads[i] = scene::thread("writer-" + std::to_string(i), write_slowly);
    scene::ready();
    for (std::thread &thread : threads)
        thread.join();
}
