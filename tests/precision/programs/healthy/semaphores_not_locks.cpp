/* POSIX semaphores that are not locks, though functions wait for them and post them: the end of some work, items and room
   for them, and two permits that two threads take in opposite order.

Truth: {"expect": "healthy", "builds": ["-O2 -s", "clang -O2"]} */
#include <semaphore.h>
#include <vector>
#include "../scene.hpp"

/* Another thread posts these, after the one that waits has begun to wait. */
static sem_t done, items, room, permits[2];

static void finish() {
    while (!scene::stopping) {
        usleep(500);
        sem_post(&done);
    }
    sem_post(&done);
}

static void await_end() {
    while (!scene::stopping)
        sem_wait(&done);
}

static void produce() {
    while (!scene::stopping) {
        sem_wait(&room);
        usleep(300);
        sem_post(&items);
    }
    sem_post(&items);
}

static void consume() {
    while (!scene::stopping) {
        sem_wait(&items);
        usleep(200);
        sem_post(&room);
    }
    sem_post(&room);
}

/* Two of these take the permits in opposite order, of which there are two each. */
static void share(sem_t *first, sem_t *second) {
    while (!scene::stopping) {
        sem_wait(first);
        usleep(300);
        sem_wait(second);
        sem_post(second);
        sem_post(first);
    }
}

int main() {
    scene::enrol("main");
    scene::listen();
    for (sem_t &each : permits)
        sem_init(&each, 0, 2);
    sem_init(&done, 0, 0);
    sem_init(&items, 0, 0);
    sem_init(&room, 0, 1);
    std::vector<std::thread> threads;
    threads.push_back(scene::thread("finishes", finish));
    threads.push_back(scene::thread("awaits", await_end));
    threads.push_back(scene::thread("produces", produce));
    threads.push_back(scene::thread("consumes", consume));
    threads.push_back(scene::thread("shares", [] { share(&permits[0], &permits[1]); }));
    threads.push_back(scene::thread("shares too", [] { share(&permits[1], &permits[0]); }));
    scene::ready();
    for (std::thread &thread : threads)
        thread.join();
}
