/* gperftools/gperftools#1352: threads allocate and free with tcmalloc so fast that they sleep on its spin locks, and a signal
   whose handler allocates nothing interrupts them there.

Truth: {"expect": "healthy", "library": "tcmalloc"} */
#include <stdlib.h>
#include <vector>
#include "../scene.hpp"

static std::atomic<long> signals;

static void on_signal(int) {
    signals++;
}

static void churn() {
    unsigned random = 12345 + gettid();
    std::vector<void *> blocks(500);
    while (!scene::stopping)
        for (void *&block : blocks) {
            random = random * 1103515245 + 12345;
            free(block);
            block = malloc(1 << (random >> 16) % 20);
        }
    for (void *block : blocks)
        free(block);
}

static void interrupt(std::vector<pthread_t> threads) {
    while (!scene::stopping) {
        for (pthread_t thread : threads)
            pthread_kill(thread, SIGUSR1);
        usleep(100);
    }
}

int main() {
    scene::enrol("main");
    scene::listen();
    struct sigaction action = {};
    action.sa_handler = on_signal;
    sigaction(SIGUSR1, &action, nullptr);
    std::thread threads[4];
    std::vector<pthread_t> handles;
    for (int i = 0; i < 4; i++) {
        threads[i] = scene::thread("worker-" + std::to_string(i), churn);
        handles.push_back(threads[i].native_handle());
    }
    std::thread interrupter = scene::thread("interrupter", [handles] { interrupt(handles); });
    scene::ready();
    interrupter.join();
    for (std::thread &thread : threads)
        thread.join();
}
