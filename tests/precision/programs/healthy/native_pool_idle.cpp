/* bshoshany/thread-pool#95, without work: a pool of idle C++ threads, and `main` in pause.

   Tasks come from a thread that waits for a connection, so that now and then there is one.

Truth: {"expect": "healthy"} */
#include <condition_variable>
#include <functional>
#include <future>
#include <mutex>
#include <queue>
#include "../scene.hpp"

static std::mutex mutex;
static std::condition_variable changed;
static std::queue<std::packaged_task<int()>> tasks;
static bool finished;

static void work() {
    std::unique_lock<std::mutex> lock(mutex);
    while (true) {
        changed.wait(lock, [] { return finished || !tasks.empty(); });
        if (tasks.empty())
            return;
        std::packaged_task<int()> task = std::move(tasks.front());
        tasks.pop();
        lock.unlock();
        task();
        lock.lock();
    }
}

static void submit() {
    while (!scene::stopping) {
        std::packaged_task<int()> task([] { return usleep(3000); });
        std::future<int> result = task.get_future();
        {
            std::lock_guard<std::mutex> lock(mutex);
            tasks.push(std::move(task));
        }
        changed.notify_one();
        result.get();
    }
}

int main() {
    scene::enrol("main");
    scene::listen();
    std::thread pool[4], submitting = scene::thread("submitting", submit);
    for (int i = 0; i < 4; i++)
        pool[i] = scene::thread("pool-" + std::to_string(i), work);
    scene::ready();
    while (!scene::stopping)
        usleep(100000);
    submitting.join();
    {
        std::lock_guard<std::mutex> lock(mutex);
        finished = true;
    }
    changed.notify_all();
    for (std::thread &thread : pool)
        thread.join();
}
