/*
Both workers of a pool run a function that waits for a future of the same pool, after TileDB-Inc/TileDB#1757.

Truth: {"expect": "hang", "says": "outer|future|pool", "statuses": [1], "core": true}
*/

#include <unistd.h>

#include <condition_variable>
#include <cstdio>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <thread>

struct Pool {
    std::mutex mutex;
    std::condition_variable added;
    std::deque<std::function<void()>> calls;

    std::future<int> submit(std::function<int()> function) {
        auto task = std::make_shared<std::packaged_task<int()>>(function);
        std::lock_guard<std::mutex> guard(mutex);
        calls.push_back([task] { (*task)(); });
        added.notify_one();
        return task->get_future();
    }

    void work() {
        for (;;) {
            std::unique_lock<std::mutex> guard(mutex);
            added.wait(guard, [this] { return !calls.empty(); });
            auto call = calls.front();
            calls.pop_front();
            guard.unlock();
            call();
        }
    }
} pool;

int inner() { return 1; }

int outer() {
    usleep(50000);
    return pool.submit(inner).get();
}

int main() {
    std::thread first(&Pool::work, &pool), second(&Pool::work, &pool);
    auto one = pool.submit(outer), two = pool.submit(outer);
    printf("{\"pid\": %d}\n", getpid());
    fflush(stdout);
    one.get();
    two.get();
}
