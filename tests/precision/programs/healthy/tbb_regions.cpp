/* oneTBB's own example of nested parallelism: loops inside of loops, task groups, an arena of its own, and pauses.

   While the main thread pauses, all workers are idle. A task waits for a mutex that the main thread releases.

Truth: {"expect": "healthy", "library": "tbb", "flags": ["-w"]} */
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>
#include <mutex>
#include "../scene.hpp"

static std::mutex mutex;

static void work() {
    tbb::parallel_for(0, 8, [](int) {
        tbb::parallel_for(0, 8, [](int) { usleep(20); });
    });
}

int main() {
    scene::enrol("main");
    scene::listen();
    tbb::global_control workers(tbb::global_control::max_allowed_parallelism, 4);
    tbb::task_arena arena(2);
    std::thread other = scene::thread("other", [&arena] {
        while (!scene::stopping)
            arena.execute([] { work(); });
    });
    work();
    scene::ready();
    while (!scene::stopping) {
        tbb::task_group group;
        mutex.lock();
        for (int i = 0; i < 3; i++)
            group.run([] { std::lock_guard<std::mutex> guard(mutex); });
        usleep(500);
        mutex.unlock();
        group.wait();
        work();
        usleep(3000);
    }
    other.join();
}
