/* h2oai/datatable#2521: some threads are at a barrier while another one throws and never arrives.

   The thread that failed has ended; the rest of its team waits for it, and the main thread for them.

Truth: {"expect": "deadlock", "silent": ["core"], "standstill": true,
        "edges": [["main", "thread-exit", "team-1"], ["team-1", "barrier", null], ["team-2", "barrier", null]]} */
#include <pthread.h>
#include <stdexcept>
#include "../scene.hpp"

static pthread_barrier_t barrier;

static void work(int number) {
    try {
        if (number == 3)
            throw std::runtime_error("before the barrier");
        pthread_barrier_wait(&barrier);
    } catch (const std::runtime_error &) {
    }
}

int main() {
    scene::enrol("main");
    pthread_barrier_init(&barrier, nullptr, 3);
    std::thread(work, 3).join();
    std::thread one = scene::thread("team-1", [] { work(1); });
    std::thread two = scene::thread("team-2", [] { work(2); });
    scene::ready();
    one.join();
}
