/* clasp-developers/clasp#1836: `exit` waits for the lock of stdin, which is held by a thread that reads from it.

   `exit` flushes all streams; here `fflush` does, because whether `exit` takes their locks depends on the version of
   glibc. The process hangs until there is input or its end; no two threads wait for each other.

Truth: {"expect": "hang"} */
#include "../scene.hpp"

int main() {
    scene::enrol("main");
    std::thread reader = scene::thread("reader", [] { getchar(); });
    reader.detach();
    /* the lock is taken when trylock fails */
    while (ftrylockfile(stdin) == 0) {
        funlockfile(stdin);
        sched_yield();
    }
    scene::ready();
    fflush(nullptr);
}
