/* facebookresearch/faiss#5206: a parallel region in the child of fork, after one in the parent.

   libgomp keeps its threads for the next region. In the child it still counts them, but they do not exist;
   lightgbm-org/LightGBM#4751 and OpenMathLib/OpenBLAS#294 are about the same.

Truth: {"expect": "deadlock", "standstill": true, "flags": ["-fopenmp"],
        "edges": [["main", "openmp-barrier|futex", null]]} */
#include <omp.h>
#include <stdlib.h>
#include "../scene.hpp"

static int search() {
    int found = 0;
#pragma omp parallel num_threads(3) reduction(+ : found)
    found += 1;
    return found;
}

int main() {
    if (!getenv("OMP_WAIT_POLICY")) {
        /* libgomp has read its variables already */
        setenv("OMP_WAIT_POLICY", "passive", 1);
        execl("/proc/self/exe", "openmp", (char *)nullptr);
    }
    search();
    pid_t child = fork();
    if (child) {
        waitpid(child, nullptr, 0);
        return 0;
    }
    scene::forked();
    scene::ready();
    return search();
}
