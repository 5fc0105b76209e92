/* Mutexes of Qt, each in the reverse order of another one. In Qt 6 the compiler puts the first attempt to acquire one into
   the functions of the program, which call QtCore only if it fails.

   Of each pair of threads, "one" has the first mutex and wants the second, and "two" the other way round: by `lock()`,
   by a `QMutexLocker`, by `std::lock_guard`, by `tryLock()`, by a helper, or with a third mutex that was released before.

Truth: {"expect": "deadlock", "library": "qt6", "flags": ["-fPIC", "-w"],
        "builds": ["-O2 -s", "clang -O2"], "long": ["-O1", "-O3 -s", "clang -O1", "clang -O3"],
        "edges": [["locks one", "qt-mutex", "locks two"], ["locks two", "qt-mutex", "locks one"],
                  ["lockers one", "qt-mutex", "lockers two"], ["lockers two", "qt-mutex", "lockers one"],
                  ["guards one", "qt-mutex", "guards two"], ["guards two", "qt-mutex", "guards one"],
                  ["tries one", "qt-mutex", "tries two"], ["tries two", "qt-mutex", "tries one"],
                  ["helpers one", "qt-mutex", "helpers two"], ["helpers two", "qt-mutex", "helpers one"],
                  ["nested one", "qt-mutex", "nested two"], ["nested two", "qt-mutex", "nested one"]],
        "behind": ["main"], "waits": [["main", "thread-exit", "locks one"]]} */
#include <QtCore/QMutex>
#include <mutex>
#include "../scene.hpp"

#define NOINLINE __attribute__((noinline))

/* Two mutexes, and where the two threads meet, when each of them has its first one. */
struct Pair {
    QMutex mutexes[2], third;
    std::atomic<int> arrived{0};

    void meet() {
        arrived++;
        while (arrived < 2)
            usleep(200);
    }
};

NOINLINE static void locks(Pair &pair, QMutex &first, QMutex &second) {
    first.lock();
    pair.meet();
    second.lock();
    second.unlock();
    first.unlock();
}

NOINLINE static void lockers(Pair &pair, QMutex &first, QMutex &second) {
    QMutexLocker one(&first);
    pair.meet();
    QMutexLocker two(&second);
}

NOINLINE static void guards(Pair &pair, QMutex &first, QMutex &second) {
    std::lock_guard<QMutex> one(first);
    pair.meet();
    std::lock_guard<QMutex> two(second);
}

NOINLINE static void tries(Pair &pair, QMutex &first, QMutex &second) {
    if (!first.tryLock())
        return;
    pair.meet();
    second.lock();
    second.unlock();
    first.unlock();
}

NOINLINE static void acquire(QMutex &mutex) {
    mutex.lock();
}

NOINLINE static void helpers(Pair &pair, QMutex &first, QMutex &second) {
    acquire(first);
    pair.meet();
    acquire(second);
    second.unlock();
    first.unlock();
}

NOINLINE static void nested(Pair &pair, QMutex &first, QMutex &second) {
    first.lock();
    pair.third.lock();
    pair.third.unlock();
    pair.meet();
    second.lock();
    second.unlock();
    first.unlock();
}

int main() {
    static const std::pair<const char *, void (*)(Pair &, QMutex &, QMutex &)> all[] = {
        {"locks", locks}, {"lockers", lockers}, {"guards", guards}, {"tries", tries}, {"helpers", helpers},
        {"nested", nested}};
    constexpr int COUNT = sizeof all / sizeof *all;
    static Pair pairs[COUNT];
    scene::enrol("main");
    std::thread threads[COUNT][2];
    for (int i = 0; i < COUNT; i++)
        for (int side = 0; side < 2; side++)
            threads[i][side] = scene::thread(std::string(all[i].first) + (side ? " two" : " one"), [i, side] {
                all[i].second(pairs[i], pairs[i].mutexes[side], pairs[i].mutexes[!side]);
            });
    scene::ready();
    for (auto &both : threads)
        for (std::thread &thread : both)
            thread.join();
}
