/* glibc bugs 13165 and 25847: many threads wait on one condition variable, are woken by the wrong signal, wait again.

Truth: {"expect": "healthy"} */
#include <condition_variable>
#include <mutex>
#include "../scene.hpp"

static std::mutex mutex;
static std::condition_variable changed;
static int turn;

static void wait_for_turn(int mine) {
    std::unique_lock<std::mutex> lock(mutex);
    while (!scene::stopping) {
        if (turn % 8 == mine) {
            turn++;
            /* most of those that this wakes find that it is not their turn */
            changed.notify_all();
        } else {
            changed.wait(lock);
        }
    }
    changed.notify_all();
}

int main() {
    scene::enrol("main");
    scene::listen();
    std::thread threads[8];
    for (int i = 0; i < 8; i++)
        threads[i] = scene::thread("thread-" + std::to_string(i), [i] { wait_for_turn(i); });
    scene::ready();
    for (std::thread &thread : threads)
        thread.join();
}
