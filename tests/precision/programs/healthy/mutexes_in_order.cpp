/* cyrusimap/cyrus-imapd#2752, corrected: many mutexes of all kinds, always taken in the same order.

Truth: {"expect": "healthy"} */
#include <pthread.h>
#include "../scene.hpp"

static pthread_mutex_t mutexes[6];

static void dine(int number) {
    int low = number % 5, high = low + 1;
    while (!scene::stopping) {
        pthread_mutex_lock(&mutexes[low]);
        pthread_mutex_lock(&mutexes[high]);
        usleep(100 * number);
        pthread_mutex_unlock(&mutexes[high]);
        pthread_mutex_unlock(&mutexes[low]);
    }
}

int main() {
    scene::enrol("main");
    scene::listen();
    for (int i = 0; i < 6; i++) {
        const int types[] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK,
                             PTHREAD_MUTEX_ADAPTIVE_NP};
        pthread_mutexattr_t attributes;
        pthread_mutexattr_init(&attributes);
        pthread_mutexattr_settype(&attributes, types[i % 4]);
        if (i == 4)
            pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
        if (i == 5)
            pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
        pthread_mutex_init(&mutexes[i], &attributes);
    }
    std::thread threads[10];
    for (int i = 0; i < 10; i++)
        threads[i] = scene::thread("thread-" + std::to_string(i), [i] { dine(i); });
    scene::ready();
    for (std::thread &thread : threads)
        thread.join();
}
