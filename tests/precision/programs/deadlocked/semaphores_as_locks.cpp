/* POSIX semaphores with the value 1 that are used as locks, each in the reverse order of another one. No thread can continue,
   but any of them could post, so the thread that has taken a semaphore is only a candidate.

   Of each pair of threads, "one" has the first semaphore and wants the second, and "two" the other way round: by `sem_wait`,
   by `sem_trywait`, by a loop that repeats an interrupted `sem_wait`, or by a guard object.

Truth: {"expect": "deadlock", "standstill": true, "silent": ["core"],
        "builds": ["-O2 -s", "clang -O2"], "long": ["-O0", "-O1", "-O3 -s", "clang -O1", "clang -O3"],
        "edges": [["waits one", "semaphore", null], ["waits two", "semaphore", null],
                  ["tries one", "semaphore", null], ["tries two", "semaphore", null],
                  ["repeats one", "semaphore", null], ["repeats two", "semaphore", null],
                  ["guards one", "semaphore", null], ["guards two", "semaphore", null],
                  ["main", "thread-exit", "waits one"]]} */
#include <cerrno>
#include <semaphore.h>

using Mutex = sem_t;
#include "../mutex_pairs.hpp"

NOINLINE static void waits(Pair &pair, Mutex &first, Mutex &second) {
    sem_wait(&first);
    pair.meet();
    sem_wait(&second);
    sem_post(&second);
    sem_post(&first);
}

NOINLINE static void tries(Pair &pair, Mutex &first, Mutex &second) {
    if (sem_trywait(&first))
        return;
    pair.meet();
    sem_wait(&second);
    sem_post(&second);
    sem_post(&first);
}

NOINLINE static void repeats(Pair &pair, Mutex &first, Mutex &second) {
    while (sem_wait(&first) && errno == EINTR)
        ;
    pair.meet();
    while (sem_wait(&second) && errno == EINTR)
        ;
    sem_post(&second);
    sem_post(&first);
}

struct Guard {
    sem_t *semaphore;

    explicit Guard(sem_t *taken) : semaphore(taken) { sem_wait(semaphore); }
    ~Guard() { sem_post(semaphore); }
};

NOINLINE static void guards(Pair &pair, Mutex &first, Mutex &second) {
    Guard one(&first);
    pair.meet();
    Guard two(&second);
}

int main() {
    static const Part parts[] = {
        {"waits", waits}, {"tries", tries}, {"repeats", repeats}, {"guards", guards}};
    run(parts, [](Mutex &semaphore) {
        sem_init(&semaphore, 0, 0);
        sem_post(&semaphore);
    });
}
