/* Pairs of threads that acquire two locks, each of them in the reverse order of the other.

   A file that includes this defines the type `Mutex` before. */
#include <utility>
#include "scene.hpp"

#define NOINLINE __attribute__((noinline))

/* Two mutexes, and where the two threads meet, when each of them has its first one. */
struct Pair {
    Mutex mutexes[2], third;
    std::atomic<int> arrived{0};

    void meet() {
        arrived++;
        while (arrived < 2)
            usleep(200);
    }
};

/* What the threads of a pair do, and the beginning of their roles. */
using Part = std::pair<const char *, void (*)(Pair &, Mutex &first, Mutex &second)>;

/* Starts a pair of threads for each part. They never return. */
template <int COUNT>
static void run(const Part (&parts)[COUNT], void (*prepare)(Mutex &) = nullptr) {
    static Pair pairs[COUNT];
    scene::enrol("main");
    for (Pair &pair : pairs)
        for (Mutex &mutex : pair.mutexes)
            if (prepare)
                prepare(mutex);
    std::thread threads[COUNT][2];
    for (int i = 0; i < COUNT; i++)
        for (int side = 0; side < 2; side++)
            threads[i][side] = scene::thread(std::string(parts[i].first) + (side ? " two" : " one"), [&, i, side] {
                parts[i].second(pairs[i], pairs[i].mutexes[side], pairs[i].mutexes[!side]);
            });
    scene::ready();
    for (auto &both : threads)
        for (std::thread &thread : both)
            thread.join();
}
