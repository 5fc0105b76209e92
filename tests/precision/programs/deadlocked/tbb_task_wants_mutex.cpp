/* uxlfoundation/oneTBB#1143: a thread waits for its tasks while it has a mutex, and a task wants the mutex.

   A worker of TBB runs the task, whose frames show what it is a task of.

Truth: {"expect": "deadlock", "library": "tbb", "flags": ["-w"], "builds": ["-O0", "-O2"],
        "edges": [["main", "tbb-tasks", "waits"], ["waits", "mutex", "main"]]} */
#include <tbb/global_control.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>
#include <mutex>
#include "../scene.hpp"

static std::mutex mutex;
static std::atomic<bool> runs;

int main() {
    scene::enrol("main");
    tbb::global_control workers(tbb::global_control::max_allowed_parallelism, 3);
    std::lock_guard<std::mutex> guard(mutex);
    tbb::task_arena arena(2);
    arena.execute([] {
        tbb::task_group group;
        group.run([] {
            scene::enrol("waits");
            runs = true;
            std::lock_guard<std::mutex> inner(mutex);
        });
        while (!runs)
            sched_yield();
        scene::ready();
        group.wait();
    });
}
