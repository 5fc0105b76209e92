/* The documentation of `pthread_mutexattr_setpshared`: locks in memory that two processes share.

   The inspected process is a child. It waits for locks that threads of its parent hold, whose TIDs do not belong to a
   thread of the child, and gets each of them after a while.

Truth: {"expect": "healthy"} */
#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>
#include "../scene.hpp"

struct shared {
    pthread_mutex_t mutex, robust;
    pthread_rwlock_t rwlock;
    sem_t semaphore;
    std::atomic<bool> done;
};

static shared *common;

static void hold_in_turn() {
    while (!common->done) {
        pthread_mutex_lock(&common->mutex);
        pthread_mutex_lock(&common->robust);
        pthread_rwlock_wrlock(&common->rwlock);
        usleep(4000);
        pthread_rwlock_unlock(&common->rwlock);
        pthread_mutex_unlock(&common->robust);
        pthread_mutex_unlock(&common->mutex);
        sem_post(&common->semaphore);
        usleep(200);
    }
    sem_post(&common->semaphore);
}

int main() {
    common = (shared *)mmap(nullptr, sizeof *common, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t of_mutex;
    pthread_mutexattr_init(&of_mutex);
    pthread_mutexattr_setpshared(&of_mutex, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&common->mutex, &of_mutex);
    pthread_mutexattr_setrobust(&of_mutex, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&common->robust, &of_mutex);
    pthread_rwlockattr_t of_rwlock;
    pthread_rwlockattr_init(&of_rwlock);
    pthread_rwlockattr_setpshared(&of_rwlock, PTHREAD_PROCESS_SHARED);
    pthread_rwlock_init(&common->rwlock, &of_rwlock);
    sem_init(&common->semaphore, 1, 0);

    pid_t child = fork();
    if (child) {
        std::thread holder(hold_in_turn), second(hold_in_turn);
        int status;
        waitpid(child, &status, 0);
        common->done = true;
        holder.join();
        second.join();
        return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    }
    scene::enrol("main");
    scene::listen();
    std::thread mutex = scene::thread("mutex", [] {
        while (!scene::stopping) {
            pthread_mutex_lock(&common->mutex);
            pthread_mutex_unlock(&common->mutex);
        }
    });
    std::thread robust = scene::thread("robust", [] {
        while (!scene::stopping) {
            pthread_mutex_lock(&common->robust);
            pthread_mutex_unlock(&common->robust);
        }
    });
    std::thread rwlock = scene::thread("rwlock", [] {
        while (!scene::stopping) {
            pthread_rwlock_rdlock(&common->rwlock);
            pthread_rwlock_unlock(&common->rwlock);
        }
    });
    std::thread semaphore = scene::thread("semaphore", [] {
        while (!scene::stopping)
            sem_wait(&common->semaphore);
    });
    scene::ready();
    mutex.join();
    robust.join();
    rwlock.join();
    semaphore.join();
}
