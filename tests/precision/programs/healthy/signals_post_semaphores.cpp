/* The documentation of `sem_post`, which signal handlers may call: all threads wait, and a timer's signal wakes them.

   Between two signals every thread of the process waits without a timeout, for semaphores that only code of this
   process posts.

Truth: {"expect": "healthy"} */
#include <semaphore.h>
#include <sys/time.h>
#include "../scene.hpp"

static sem_t ticks, work;

static void tick(int) { sem_post(&ticks); }

static void do_work() {
    while (true) {
        while (sem_wait(&work))
            ;
        if (scene::stopping)
            return;
    }
}

int main() {
    scene::enrol("main");
    scene::listen();
    sem_init(&ticks, 0, 0);
    sem_init(&work, 0, 0);
    std::thread worker = scene::thread("worker", do_work);
    signal(SIGALRM, tick);
    const itimerval often = {{0, 5000}, {0, 5000}};
    setitimer(ITIMER_REAL, &often, nullptr);
    scene::ready();
    while (!scene::stopping) {
        /* a signal interrupts it, too */
        if (sem_wait(&ticks) == 0)
            sem_post(&work);
    }
    setitimer(ITIMER_REAL, &(const itimerval &)itimerval{}, nullptr);
    sem_post(&work);
    worker.join();
}
