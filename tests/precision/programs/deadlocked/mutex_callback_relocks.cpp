/* sahlberg/libnfs#607: a callback that is run under the mutex of the library calls the library, which takes the mutex.

   In builds without error checking the mutex is a plain one, and the thread waits for itself.

Truth: {"expect": "deadlock",
        "edges": [["service", "mutex", "service"]],
        "behind": ["main"]} */
#include <pthread.h>
#include "../scene.hpp"

static pthread_mutex_t rpc_mutex = PTHREAD_MUTEX_INITIALIZER;

static void set_error() {
    pthread_mutex_lock(&rpc_mutex);
    pthread_mutex_unlock(&rpc_mutex);
}

static void purge(void (*callback)()) {
    pthread_mutex_lock(&rpc_mutex);
    callback();
    pthread_mutex_unlock(&rpc_mutex);
}

int main() {
    scene::enrol("main");
    std::thread service = scene::thread("service", [] { purge(set_error); });
    scene::ready();
    service.join();
}
