/* glibc bug 11261: threads that allocate and free all the time, each other's memory too, with many arenas.

Truth: {"expect": "healthy", "core": false} */
#include <stdlib.h>
#include "../scene.hpp"

static std::atomic<void *> slots[32];

static void storm() {
    unsigned seed = syscall(SYS_gettid);
    while (!scene::stopping) {
        /* too large for the caches of the threads */
        void *block = malloc(2000 + rand_r(&seed) % 30000);
        memset(block, 1, 2000);
        free(slots[rand_r(&seed) % 32].exchange(block));
    }
}

int main() {
    scene::enrol("main");
    scene::listen();
    std::thread threads[12];
    for (int i = 0; i < 12; i++)
        threads[i] = scene::thread("thread-" + std::to_string(i), storm);
    scene::ready();
    for (std::thread &thread : threads)
        thread.join();
}
