/* cplusplus/draft#849: threads wait for a static, and for `std::call_once`, while another one initialises them.

   The initialisers take their time, and one of them waits for a thread that it has started for a part of the work.

Truth: {"expect": "healthy"} */
#include <mutex>
#include "../scene.hpp"

static std::once_flag flag;

static void work_until_told() {
    while (!scene::stopping)
        usleep(500);
}

static int compute() {
    std::thread part = scene::thread("part", work_until_told);
    part.join();
    return 1;
}

static int value() {
    static int computed = compute();
    return computed;
}

int main() {
    scene::enrol("main");
    scene::listen();
    std::thread first = scene::thread("initialising", [] { value(); });
    while (scene::enrolled < 3)
        sched_yield();
    std::thread once = scene::thread("calling-once", [] { std::call_once(flag, work_until_told); });
    std::thread waiting[] = {
        scene::thread("waiting-1", [] { value(); }),
        scene::thread("waiting-2", [] { value(); }),
        scene::thread("waiting-3", [] { std::call_once(flag, work_until_told); }),
    };
    scene::ready();
    first.join();
    once.join();
    for (std::thread &thread : waiting)
        thread.join();
}
