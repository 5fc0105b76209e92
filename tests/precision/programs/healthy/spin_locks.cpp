/* abseil's SpinLock in grpc/grpc#38020, when it works: threads that spin, and yield, for locks that are held shortly.

Truth: {"expect": "healthy"} */
#include <pthread.h>
#include "../scene.hpp"

static pthread_spinlock_t locks[2];

static void spin() {
    while (!scene::stopping) {
        pthread_spin_lock(&locks[0]);
        while (pthread_spin_trylock(&locks[1]) != 0)
            sched_yield();
        pthread_spin_unlock(&locks[1]);
        pthread_spin_unlock(&locks[0]);
    }
}

int main() {
    scene::enrol("main");
    scene::listen();
    pthread_spin_init(&locks[0], PTHREAD_PROCESS_PRIVATE);
    pthread_spin_init(&locks[1], PTHREAD_PROCESS_PRIVATE);
    std::thread threads[4];
    for (int i = 0; i < 4; i++)
        threads[i] = scene::thread("thread-" + std::to_string(i), spin);
    scene::ready();
    for (std::thread &thread : threads)
        thread.join();
}
