/* The documentation of `pthread_cond_signal`: a signal that nobody waits for yet is lost.

   The worker waits without a predicate after `main` has signalled, and `main` joins the worker. In a core the handlers
   of signals are not known, and one of them may signal.

Truth: {"expect": "deadlock", "standstill": true, "silent": ["core"],
        "edges": [["worker", "condvar", null], ["main", "thread-exit", "worker"]]} */
#include <pthread.h>
#include "../scene.hpp"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static void work() {
    pthread_mutex_lock(&mutex);
    pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
}

int main() {
    scene::enrol("main");
    pthread_cond_signal(&changed);
    std::thread worker = scene::thread("worker", work);
    scene::ready();
    worker.join();
}
