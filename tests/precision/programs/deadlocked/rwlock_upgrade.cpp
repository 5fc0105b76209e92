/* osquery/osquery#4721: two threads that hold a read lock request it for writing, and neither releases it.

   `std::shared_mutex` has no upgrade; code that asks for it all the same waits for the readers, of which it is one.

Truth: {"expect": "deadlock",
        "edges": [["one", "rwlock", "one"], ["one", "rwlock", "two"], ["two", "rwlock", "one"], ["two", "rwlock", "two"]],
        "behind": ["main"], "waits": [["main", "thread-exit", "one"]]} */
#include <mutex>
#include <shared_mutex>
#include "../scene.hpp"

static std::shared_mutex mutex;
static std::atomic<int> reading;

static void upgrade() {
    std::shared_lock<std::shared_mutex> shared(mutex);
    reading++;
    while (reading < 2)
        sched_yield();
    std::unique_lock<std::shared_mutex> exclusive(mutex);
}

int main() {
    scene::enrol("main");
    std::thread one = scene::thread("one", upgrade);
    std::thread two = scene::thread("two", upgrade);
    scene::ready();
    one.join();
}
