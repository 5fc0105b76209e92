/* Functions that look as if they held a POSIX semaphore as a lock: those of mutex_twins.hpp, and such whose try has failed.

   The holder is another thread, which sleeps for a while.

Truth: {"expect": "healthy", "builds": ["-O2 -s", "clang -O2 -s"],
        "long": ["-O0", "clang -O0 -s", "-O1", "-O3 -s", "clang -O1", "clang -O3"]} */
#include <ctime>
#include <semaphore.h>

/* A semaphore as a lock. */
struct Mutex {
    sem_t semaphore;

    Mutex() { sem_init(&semaphore, 0, 1); }
    void lock() { sem_wait(&semaphore); }
    void unlock() { sem_post(&semaphore); }
};

#include "../mutex_twins.hpp"

static void try_failed(Round &round, Mutex &mutex) {
    bool has = !sem_trywait(&mutex.semaphore);
    rest(round);
    if (has)
        mutex.unlock();
}

static void timed_try_failed(Round &round, Mutex &mutex) {
    timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    bool has = !sem_timedwait(&mutex.semaphore, &end);
    rest(round);
    if (has)
        mutex.unlock();
}

int main() {
    run_twins({{try_failed, true}, {timed_try_failed, true}});
}
