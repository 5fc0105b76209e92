/* Python-for-HPC/PyOMP#19, barriers and critical sections used right: two critical sections with names of their own.

   A thread waits for one section, in which another sleeps. A third is inside the other section and waits for a mutex
   of the first. They form a cycle only if the sections are taken for one.

Truth: {"expect": "healthy", "flags": ["-fopenmp"]} */
#include <omp.h>
#include <pthread.h>
#include <stdlib.h>
#include "../scene.hpp"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static std::atomic<int> phase;

static void nap() {
#pragma omp critical(naps)
    {
        phase = 1;
        while (phase < 3)
            sched_yield();
        usleep(8000);
    }
}

static void want_to_nap() {
    while (phase != 1)
        sched_yield();
    pthread_mutex_lock(&mutex);
    phase = 2;
#pragma omp critical(naps)
    phase = 4;
    pthread_mutex_unlock(&mutex);
}

static void count() {
    while (phase != 2)
        sched_yield();
#pragma omp critical(counts)
    {
        phase = 3;
        pthread_mutex_lock(&mutex);
        pthread_mutex_unlock(&mutex);
    }
}

int main() {
    if (!getenv("OMP_WAIT_POLICY")) {
        /* libgomp has read its variables already */
        setenv("OMP_WAIT_POLICY", "passive", 1);
        execl("/proc/self/exe", "openmp", (char *)nullptr);
    }
    scene::enrol("main");
    scene::listen();
    scene::ready();
    while (!scene::stopping) {
        phase = 0;
#pragma omp parallel num_threads(3)
        {
            if (omp_get_thread_num() == 0)
                nap();
            else if (omp_get_thread_num() == 1)
                want_to_nap();
            else
                count();
        }
    }
}
