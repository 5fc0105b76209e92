/* skypjack/entt#791: a hook that runs while a static is initialised uses the same static.

   libstdc++ finds such a recursion only in programs without threads; with threads the thread waits for itself.

Truth: {"expect": "deadlock",
        "edges": [["worker", "static-guard", "worker"]],
        "behind": ["main"]} */
#include "../scene.hpp"

struct type_info_of {
    type_info_of();
    int index;
};

static int index_of() {
    static type_info_of info;
    return info.index;
}

type_info_of::type_info_of() : index(1) {
    scene::ready();
    index = index_of() + 1;
}

int main() {
    scene::enrol("main");
    std::atomic<bool> go{false};
    std::thread worker = scene::thread("worker", [&go] {
        while (!go)
            sched_yield();
        index_of();
    });
    go = true;
    worker.join();
}
