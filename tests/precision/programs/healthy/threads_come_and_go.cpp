/* ComplianceAsCode/content#3011, in C++: threads that are started and joined all the time, under a lock and without.

   There are moments in which a thread has ended and the one that joins it has not run yet.

Truth: {"expect": "healthy"} */
#include <mutex>
#include "../scene.hpp"

static std::mutex mutex;

static void start_and_join(bool locked) {
    while (!scene::stopping) {
        std::unique_lock<std::mutex> lock(mutex, std::defer_lock);
        if (locked)
            lock.lock();
        std::thread([] { usleep(200); }).join();
    }
}

int main() {
    scene::enrol("main");
    scene::listen();
    std::thread threads[5];
    for (int i = 0; i < 5; i++)
        threads[i] = scene::thread("thread-" + std::to_string(i), [i] { start_and_join(i % 2); });
    scene::ready();
    for (std::thread &thread : threads)
        thread.join();
}
