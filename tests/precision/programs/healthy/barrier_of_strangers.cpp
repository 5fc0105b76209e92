/* cloudius-systems/osv#857, with a barrier that works: a thread with its address on the stack need not be the missing one.

   One thread waits at a barrier of two, with a mutex in its hands. The other party is late; it knows the barrier by its
   name, and has no address of it on its stack. A third thread, which takes no part, has the address, because the barrier
   is the first member of the object that it works for, and waits for the mutex.

Truth: {"expect": "healthy"} */
#include <pthread.h>
#include "../scene.hpp"

struct stage {
    pthread_barrier_t barrier;
    pthread_mutex_t mutex;
};

static stage the_stage;
static std::atomic<int> phase;

static void wait_first() {
    while (!scene::stopping) {
        pthread_mutex_lock(&the_stage.mutex);
        phase = 1;
        pthread_barrier_wait(&the_stage.barrier);
        pthread_mutex_unlock(&the_stage.mutex);
        while (phase && !scene::stopping)
            sched_yield();
    }
    phase = 3;
}

__attribute__((noinline)) static void meet() { pthread_barrier_wait(&the_stage.barrier); }

static void come_late() {
    while (phase != 3) {
        if (phase != 2 && !scene::stopping) {
            sched_yield();
            continue;
        }
        usleep(20000);
        if (phase != 3)
            meet();
        phase = scene::stopping ? 3 : 0;
    }
}

__attribute__((noinline)) static void look_on(stage *volatile at) {
    while (!scene::stopping) {
        if (phase != 1) {
            sched_yield();
            continue;
        }
        phase = 2;
        pthread_mutex_lock(&at->mutex);
        pthread_mutex_unlock(&at->mutex);
    }
}

int main() {
    scene::enrol("main");
    scene::listen();
    pthread_barrier_init(&the_stage.barrier, nullptr, 2);
    pthread_mutex_init(&the_stage.mutex, nullptr);
    std::thread first = scene::thread("first", wait_first);
    std::thread late = scene::thread("late", come_late);
    std::thread stranger = scene::thread("stranger", [] { look_on(&the_stage); });
    scene::ready();
    first.join();
    late.join();
    stranger.join();
}
