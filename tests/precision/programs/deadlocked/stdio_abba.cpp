/* rust-lang/rust#82344: the locks of stdout and stderr, each held while the other one is written to.

   The report is about Rust's own streams, which run the code of users under their locks. With C's streams it is
   `flockfile` around output to the other stream.

Truth: {"expect": "deadlock",
        "edges": [["one", "stdio", "two"], ["two", "stdio", "one"]],
        "behind": ["main"]} */
#include "../scene.hpp"

static std::atomic<int> holding;

static void print(FILE *outer, FILE *inner) {
    flockfile(outer);
    holding++;
    while (holding < 2)
        sched_yield();
    fputs("never printed", inner);
    funlockfile(outer);
}

int main() {
    scene::enrol("main");
    std::thread one = scene::thread("one", [] { print(stdout, stderr); });
    std::thread two = scene::thread("two", [] { print(stderr, stdout); });
    scene::ready();
    one.join();
}
