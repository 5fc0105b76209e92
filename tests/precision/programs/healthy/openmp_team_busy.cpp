/* GCC bug 43706: OpenMP threads that spin, sleep and work, with barriers, critical sections, locks and single.

Truth: {"expect": "healthy", "flags": ["-fopenmp"]} */
#include <omp.h>
#include <stdlib.h>
#include "../scene.hpp"

int main() {
    if (!getenv("OMP_WAIT_POLICY")) {
        /* libgomp has read its variables already */
        setenv("OMP_WAIT_POLICY", "passive", 1);
        execl("/proc/self/exe", "openmp", (char *)nullptr);
    }
    scene::enrol("main");
    scene::listen();
    omp_lock_t lock;
    omp_init_lock(&lock);
    long total = 0;
    bool told = false;
    while (!scene::stopping) {
#pragma omp parallel num_threads(4)
        for (int round = 0; round < 50; round++) {
            if (omp_get_thread_num() == round % 4)
                usleep(300);
#pragma omp critical
            total++;
            omp_set_lock(&lock);
            total++;
            omp_unset_lock(&lock);
#pragma omp barrier
#pragma omp single
            total++;
        }
        if (!told)
            scene::ready();
        told = true;
        usleep(1000);
    }
    return total == 0;
}
