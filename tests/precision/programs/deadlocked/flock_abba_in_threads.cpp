/* tox-dev/filelock#31, in one process: two threads lock two files in opposite order, each with open files of its own.

   A core does not record what its descriptors are.

Truth: {"expect": "deadlock", "standstill": true, "silent": ["core"],
        "edges": [["first", "file-lock", null], ["second", "file-lock", null],
                  ["main", "thread-exit", "first"]]} */
#include <sys/file.h>
#include "../scene.hpp"

static std::atomic<int> held;

static void lock(const char *one, const char *other) {
    int mine = open(one, O_RDWR | O_CREAT, 0600), wanted = open(other, O_RDWR | O_CREAT, 0600);
    flock(mine, LOCK_EX);
    held++;
    while (held < 2)
        sched_yield();
    flock(wanted, LOCK_EX);
}

int main() {
    scene::enrol("main");
    std::thread first = scene::thread("first", [] { lock("a", "b"); });
    std::thread second = scene::thread("second", [] { lock("b", "a"); });
    scene::ready();
    first.join();
    second.join();
}
