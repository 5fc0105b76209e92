/* bshoshany/thread-pool#95, the other way round: `main` waits for the result of a task that no worker takes.

   The only worker waits for a task, and the task was pushed without a notification. The future's futex operation is
   one for shared memory, although its memory is private.

Truth: {"expect": "deadlock", "standstill": true, "silent": ["core"],
        "edges": [["main", "futex", null], ["worker", "condvar", null]]} */
#include <condition_variable>
#include <future>
#include <mutex>
#include <queue>
#include "../scene.hpp"

static std::mutex mutex;
static std::condition_variable changed;
static std::queue<std::packaged_task<int()>> tasks;
static std::atomic<bool> waits;

static void work() {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [] { waits = true; return !tasks.empty(); });
    tasks.front()();
}

int main() {
    scene::enrol("main");
    std::thread worker = scene::thread("worker", work);
    while (!waits)
        sched_yield();
    std::packaged_task<int()> task([] { return 1; });
    std::future<int> result = task.get_future();
    {
        std::lock_guard<std::mutex> lock(mutex);
        tasks.push(std::move(task));
    }
    scene::ready();
    result.get();
    worker.join();
}
