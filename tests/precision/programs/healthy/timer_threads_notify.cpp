/* timer_create(2), SIGEV_THREAD: all threads wait for condition variables, and a timer's thread notifies them.

   The program's own thread of the timer is started when the timer expires.

Truth: {"expect": "healthy"} */
#include <condition_variable>
#include <mutex>
#include <time.h>
#include "../scene.hpp"

static std::mutex mutex;
static std::condition_variable changed;
static int ticks, done;

static void tick(sigval) {
    std::lock_guard<std::mutex> lock(mutex);
    ticks++;
    changed.notify_all();
}

static void do_work() {
    std::unique_lock<std::mutex> lock(mutex);
    while (!scene::stopping) {
        changed.wait(lock, [] { return ticks != done; });
        done = ticks;
        changed.notify_all();
    }
}

int main() {
    scene::enrol("main");
    scene::listen();
    std::thread worker = scene::thread("worker", do_work);
    sigevent event = {};
    event.sigev_notify = SIGEV_THREAD;
    event.sigev_notify_function = tick;
    timer_t timer;
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    const itimerspec often = {{0, 5000000}, {0, 5000000}};
    timer_settime(timer, 0, &often, nullptr);
    scene::ready();
    worker.join();
    timer_delete(timer);
    _exit(0);
}
