/* hallamlab/FragGeneScanPlus#6, counted right: producers and consumers with POSIX semaphores and a short ring.

Truth: {"expect": "healthy"} */
#include <semaphore.h>
#include "../scene.hpp"

static sem_t room, items, ring;

static void produce() {
    while (!scene::stopping) {
        sem_wait(&room);
        sem_wait(&ring);
        usleep(50);
        sem_post(&ring);
        sem_post(&items);
    }
    sem_post(&items);
}

static void consume() {
    while (!scene::stopping) {
        sem_wait(&items);
        sem_wait(&ring);
        sem_post(&ring);
        sem_post(&room);
    }
    sem_post(&room);
}

int main() {
    scene::enrol("main");
    scene::listen();
    sem_init(&room, 0, 2);
    sem_init(&items, 0, 0);
    sem_init(&ring, 0, 1);
    std::thread threads[6];
    for (int i = 0; i < 3; i++) {
        threads[2 * i] = scene::thread("producer-" + std::to_string(i), produce);
        threads[2 * i + 1] = scene::thread("consumer-" + std::to_string(i), consume);
    }
    scene::ready();
    for (std::thread &thread : threads)
        thread.join();
}
