/* OPM/ResInsight#14596: an OpenMP construct that not all threads of the team reach, so its barrier never fills.

   Here a thread is at a barrier inside a critical section, which keeps the others out; they never arrive.

Truth: {"expect": "deadlock", "flags": ["-fopenmp"],
        "edges": [["inside", "openmp-barrier", "outside-1"], ["inside", "openmp-barrier", "outside-2"],
                  ["outside-1", "openmp-lock", "inside"], ["outside-2", "openmp-lock", "inside"]]} */
#include <omp.h>
#include <stdlib.h>
#include "../scene.hpp"

static std::atomic<int> outside;

static void fill_texture() {
/* orphaned: which team it belongs to is found out when it is run */
#pragma omp barrier
}

int main() {
    if (!getenv("OMP_WAIT_POLICY")) {
        /* libgomp has read its variables already */
        setenv("OMP_WAIT_POLICY", "passive", 1);
        execl("/proc/self/exe", "openmp", (char *)nullptr);
    }
#pragma omp parallel num_threads(3)
    {
        char role[32] = "inside";
        int number = omp_get_thread_num();
        if (number != 1)
            snprintf(role, sizeof role, "outside-%d", outside++ + 1);
        scene::enrol(role);
        if (number == 1) {
#pragma omp critical
            {
                while (scene::enrolled < 3)
                    sched_yield();
                scene::ready();
                outside = -1;
                fill_texture();
            }
        } else {
            while (outside >= 0)
                sched_yield();
#pragma omp critical
            fill_texture();
        }
    }
}
