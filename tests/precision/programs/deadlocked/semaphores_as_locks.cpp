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
#include "../scene.hpp"

#define NOINLINE __attribute__((noinline))

/* Two semaphores, and where the two threads meet, when each of them has its first one. */
struct Pair {
    sem_t semaphores[2];
    std::atomic<int> arrived{0};

    void meet() {
        arrived++;
        while (arrived < 2)
            usleep(200);
    }
};

NOINLINE static void waits(Pair &pair, sem_t *first, sem_t *second) {
    sem_wait(first);
    pair.meet();
    sem_wait(second);
    sem_post(second);
    sem_post(first);
}

NOINLINE static void tries(Pair &pair, sem_t *first, sem_t *second) {
    if (sem_trywait(first))
        return;
    pair.meet();
    sem_wait(second);
    sem_post(second);
    sem_post(first);
}

NOINLINE static void repeats(Pair &pair, sem_t *first, sem_t *second) {
    while (sem_wait(first) && errno == EINTR)
        ;
    pair.meet();
    while (sem_wait(second) && errno == EINTR)
        ;
    sem_post(second);
    sem_post(first);
}

struct Guard {
    sem_t *semaphore;

    explicit Guard(sem_t *taken) : semaphore(taken) { sem_wait(semaphore); }
    ~Guard() { sem_post(semaphore); }
};

NOINLINE static void guards(Pair &pair, sem_t *first, sem_t *second) {
    Guard one(first);
    pair.meet();
    Guard two(second);
}

int main() {
    static const std::pair<const char *, void (*)(Pair &, sem_t *, sem_t *)> all[] = {
        {"waits", waits}, {"tries", tries}, {"repeats", repeats}, {"guards", guards}};
    constexpr int COUNT = sizeof all / sizeof *all;
    static Pair pairs[COUNT];
    scene::enrol("main");
    std::thread threads[COUNT][2];
    for (int i = 0; i < COUNT; i++)
        for (int side = 0; side < 2; side++) {
            sem_t *own = &pairs[i].semaphores[side];
            sem_init(own, 0, 0);
            sem_post(own);
        }
    for (int i = 0; i < COUNT; i++)
        for (int side = 0; side < 2; side++)
            threads[i][side] = scene::thread(std::string(all[i].first) + (side ? " two" : " one"), [i, side] {
                all[i].second(pairs[i], &pairs[i].semaphores[side], &pairs[i].semaphores[!side]);
            });
    scene::ready();
    for (auto &both : threads)
        for (std::thread &thread : both)
            thread.join();
}
