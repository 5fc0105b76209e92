/* cloudius-systems/osv#857, with a barrier that works: threads of different speed that meet at a pthread barrier.

   The slow one has the address of the barrier on its stack, and sleeps before it; others have the address too but are
   not involved.

Truth: {"expect": "healthy"} */
#include <pthread.h>
#include "../scene.hpp"

static pthread_barrier_t barrier;
static std::atomic<bool> last;

static void meet(pthread_barrier_t *volatile at, int pause) {
    for (bool finished = false; !finished;) {
        usleep(pause);
        /* all must leave in the same round */
        if (pthread_barrier_wait(at) == PTHREAD_BARRIER_SERIAL_THREAD)
            last = (bool)scene::stopping;
        pthread_barrier_wait(at);
        finished = last;
    }
}

int main() {
    scene::enrol("main");
    scene::listen();
    pthread_barrier_init(&barrier, nullptr, 4);
    std::thread threads[4];
    for (int i = 0; i < 4; i++)
        threads[i] = scene::thread("party-" + std::to_string(i), [i] { meet(&barrier, 1000 * i); });
    std::thread idle = scene::thread("idle", [] {
        pthread_barrier_t *volatile unused = &barrier;
        while (!scene::stopping && unused)
            usleep(1000);
    });
    scene::ready();
    for (std::thread &thread : threads)
        thread.join();
    idle.join();
}
