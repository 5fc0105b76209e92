/* Locks that record no owner and are held by guard objects, each in the reverse order of a mutex: as in issues of
   RocksDB and Ceph, where a std::shared_lock is taken on some paths only, or is returned by a helper.

   The code before the call does not acquire the lock on every path, or its address is kept in the guard alone. Of each
   pair of threads, "one" has the lock and wants the mutex, and "two" has the mutex and wants the lock.

Truth: {"expect": "deadlock", "flags": ["-Wl,--no-as-needed", "-lgomp"],
        "builds": ["-O0", "-O1", "-O2 -fPIE -pie -s", "-O3 -flto -s", "-O2 -fno-pie -no-pie",
                   "clang -O0", "clang -O2 -fPIE -pie -s"],
        "silent": ["live-native clang -O2 -fPIE -pie -s", "core-native clang -O2 -fPIE -pie -s"],
        "edges": [["deferred one", "mutex", "deferred two"], ["deferred two", "rwlock", "deferred one"],
                  ["tried one", "mutex", "tried two"], ["tried two", "rwlock", "tried one"],
                  ["returned one", "mutex", "returned two"], ["returned two", "rwlock", "returned one"],
                  ["again one", "mutex", "again two"], ["again two", "rwlock", "again one"],
                  ["caught one", "mutex", "caught two"], ["caught two", "rwlock", "caught one"],
                  ["omp one", "mutex", "omp two"], ["omp two", "openmp-lock", "omp one"]],
        "behind": ["main"], "waits": [["main", "thread-exit", "deferred one"]]} */
#include <omp.h>
#include <pthread.h>
#include <mutex>
#include <shared_mutex>
#include "../scene.hpp"
#define NOT_INLINE __attribute__((noinline))

struct table {
    long pages = 0;
    std::shared_mutex shared;
    omp_lock_t lock;
    table *next = nullptr;
};
struct pair {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    std::atomic<int> have{0};
    table *of = new table;
};
static const int PAIRS = 6;
static pair pairs[PAIRS];
static volatile int yes = 1;

NOT_INLINE static void meet(pair &of) {
    of.have++;
    while (of.have < 2)
        sched_yield();
}

/* exceptions may come out of it */
NOT_INLINE static void want_mutex(pair &of, long *pages = nullptr) {
    meet(of);
    pthread_mutex_lock(&of.mutex);
    pthread_mutex_unlock(&of.mutex);
    if (of.have > 1000)
        throw 1;
    if (pages)
        ++*pages;
}

NOT_INLINE static void second(pair &of) {
    pthread_mutex_lock(&of.mutex);
    meet(of);
    std::unique_lock<std::shared_mutex> writing(of.of->shared);
    of.of->pages++;
}

NOT_INLINE static void deferred(pair &of) {
    std::shared_lock<std::shared_mutex> reading(of.of->shared, std::defer_lock);
    if (yes)
        reading.lock();
    want_mutex(of);
    of.of->pages++;
}

NOT_INLINE static void tried(pair &of) {
    std::shared_lock<std::shared_mutex> reading(of.of->shared, std::try_to_lock);
    if (!reading && !yes)
        reading.lock();
    want_mutex(of);
    of.of->pages++;
}

NOT_INLINE static std::shared_lock<std::shared_mutex> read(pair &of) {
    return std::shared_lock<std::shared_mutex>(of.of->shared);
}
NOT_INLINE static void returned(pair &of) {
    long pages = 0;
    auto reading = read(of);
    want_mutex(of, &pages);
    of.of->pages += pages;
}

NOT_INLINE static void again(pair &of) {
    std::shared_lock<std::shared_mutex> reading(of.of->shared);
    for (int i = 0; i < 3; i++) {
        if (i == 2)
            want_mutex(of);
        reading.unlock();
        sched_yield();
        reading.lock();
    }
    of.of->pages++;
}

NOT_INLINE static void caught(pair &of) {
    try {
        std::shared_lock<std::shared_mutex> reading(of.of->shared, std::defer_lock);
        if (yes)
            reading.lock();
        want_mutex(of);
    } catch (int) {
        of.of->pages++;
    }
}

struct omp_guard {
    omp_lock_t *lock;
    bool owns;
    NOT_INLINE explicit omp_guard(table *of) : lock(&of->lock), owns(false) {}
    NOT_INLINE void acquire() { omp_set_lock(lock); owns = true; }
    NOT_INLINE ~omp_guard() {
        if (owns)
            omp_unset_lock(lock);
    }
};
NOT_INLINE static void with_omp(pair &of) {
    omp_guard guard(of.of);
    if (yes)
        guard.acquire();
    want_mutex(of);
}
NOT_INLINE static void omp_second(pair &of) {
    pthread_mutex_lock(&of.mutex);
    meet(of);
    omp_set_lock(&of.of->lock);
}

int main() {
    scene::enrol("main");
    typedef void (*function)(pair &);
    struct {
        const char *name;
        function one, two;
    } all[PAIRS] = {{"deferred", deferred, second}, {"tried", tried, second}, {"returned", returned, second},
                    {"again", again, second}, {"caught", caught, second},
                    {"omp", with_omp, omp_second}};
    std::thread threads[2 * PAIRS];
    int count = 0;
    for (pair &of : pairs)
        omp_init_lock(&of.of->lock);
    for (bool first : {true, false})
        for (int i = 0; i < PAIRS; i++) {
            function run = first ? all[i].one : all[i].two;
            threads[count++] = scene::thread(std::string(all[i].name) + (first ? " one" : " two"),
                                             [=] { run(pairs[i]); });
            while (first && !pairs[i].have)
                sched_yield();
        }
    scene::ready();
    for (std::thread &thread : threads)
        thread.join();
}
