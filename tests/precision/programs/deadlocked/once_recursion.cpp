/* mattias800/prosper#1196: a function under `std::call_once` that gets to the same `std::call_once` again.

   The report is about both guards of statics and `call_once`. With glibc the second call waits for the first.

Truth: {"expect": "deadlock",
        "edges": [["main", "once", "main"]],
        "behind": ["second"]} */
#include <mutex>
#include "../scene.hpp"

static std::once_flag flag;
static std::atomic<bool> inside;

static void initialise();

static void get() { std::call_once(flag, initialise); }

static void initialise() {
    inside = true;
    std::thread second = scene::thread("second", get);
    scene::ready();
    get();
    second.join();
}

int main() {
    scene::enrol("main");
    get();
}
