/* glibc's documentation of robust mutexes: threads end while they hold the lock, and the next one repairs it.

   There are moments in which the owner that is recorded has ended and the thread that is woken for it has not run yet.

Truth: {"expect": "healthy"} */
#include <errno.h>
#include <pthread.h>
#include "../scene.hpp"

static pthread_mutex_t mutex;

static void end_with_it() {
    if (pthread_mutex_lock(&mutex) == EOWNERDEAD)
        pthread_mutex_consistent(&mutex);
    usleep(300);
}

static void repair() {
    while (!scene::stopping) {
        if (pthread_mutex_lock(&mutex) == EOWNERDEAD)
            pthread_mutex_consistent(&mutex);
        pthread_mutex_unlock(&mutex);
    }
}

int main() {
    scene::enrol("main");
    scene::listen();
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&mutex, &attributes);
    std::thread threads[3];
    for (int i = 0; i < 3; i++)
        threads[i] = scene::thread("repairing-" + std::to_string(i), repair);
    scene::ready();
    while (!scene::stopping)
        std::thread(end_with_it).join();
    for (std::thread &thread : threads)
        thread.join();
}
