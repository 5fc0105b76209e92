/* HowardHinnant/upgrade_mutex#1, from the discussion: with timeouts an attempt may fail, and no thread waits forever.

   Two timed mutexes in either order; and two readers of a timed lock that both try to write.

Truth: {"expect": "healthy"} */
#include <mutex>
#include <shared_mutex>
#include "../scene.hpp"

using namespace std::chrono_literals;

static std::timed_mutex a, b;
static std::shared_timed_mutex shared;

static void take(std::timed_mutex &first, std::timed_mutex &second) {
    while (!scene::stopping) {
        std::lock_guard<std::timed_mutex> lock(first);
        if (second.try_lock_for(5ms))
            second.unlock();
    }
}

static void upgrade() {
    while (!scene::stopping) {
        std::shared_lock<std::shared_timed_mutex> reading(shared);
        if (shared.try_lock_for(5ms))
            shared.unlock();
    }
}

int main() {
    scene::enrol("main");
    scene::listen();
    std::thread threads[] = {
        scene::thread("one", [] { take(a, b); }),
        scene::thread("two", [] { take(b, a); }),
        scene::thread("reader-1", upgrade),
        scene::thread("reader-2", upgrade),
    };
    scene::ready();
    for (std::thread &thread : threads)
        thread.join();
}
