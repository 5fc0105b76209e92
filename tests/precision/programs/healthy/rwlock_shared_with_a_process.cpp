/* A read lock that another process has, and a thread here that has the lock's address on its stack.

   The child's writer waits for a reader of the parent. A second thread of the child passes the lock's address on and
   waits for a mutex of the writer. The reader in the parent ends soon.

Truth: {"expect": "healthy"} */
#include <pthread.h>
#include "../scene.hpp"

struct shared {
    pthread_rwlock_t rwlock;
    std::atomic<int> phase;
    std::atomic<bool> done;
};

static shared *common;
static pthread_mutex_t commit = PTHREAD_MUTEX_INITIALIZER;

static void read_for_a_while() {
    while (!common->done) {
        pthread_rwlock_rdlock(&common->rwlock);
        common->phase = 1;
        while (common->phase < 3 && !common->done)
            sched_yield();
        usleep(20000);
        pthread_rwlock_unlock(&common->rwlock);
        while (common->phase && !common->done)
            sched_yield();
    }
}

static void write_pages() {
    while (!scene::stopping) {
        if (common->phase != 1) {
            sched_yield();
            continue;
        }
        pthread_mutex_lock(&commit);
        common->phase = 2;
        pthread_rwlock_wrlock(&common->rwlock);
        pthread_rwlock_unlock(&common->rwlock);
        pthread_mutex_unlock(&commit);
    }
}

__attribute__((noinline)) static void checkpoint(pthread_rwlock_t *volatile of) {
    while (!scene::stopping) {
        if (common->phase != 2) {
            sched_yield();
            continue;
        }
        common->phase = 3;
        pthread_mutex_lock(&commit);
        pthread_mutex_unlock(&commit);
        common->phase = of ? 0 : 1;
    }
}

int main() {
    common = (shared *)mmap(nullptr, sizeof *common, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_rwlockattr_t attributes;
    pthread_rwlockattr_init(&attributes);
    pthread_rwlockattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_rwlock_init(&common->rwlock, &attributes);

    pid_t child = fork();
    if (child) {
        std::thread reader(read_for_a_while);
        int status;
        waitpid(child, &status, 0);
        common->done = true;
        reader.join();
        return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    }
    scene::enrol("main");
    scene::listen();
    std::thread writer = scene::thread("writer", write_pages);
    std::thread checkpointer = scene::thread("checkpointer", [] { checkpoint(&common->rwlock); });
    scene::ready();
    writer.join();
    checkpointer.join();
}
