/* Locks that record no owner, each in the reverse order of a mutex: as issues of GCC (PR 58646: a static variable's
   initialiser and a lock), of glibc (two nested call_once) and of programs with OpenMP locks show.

   Of each pair of threads, "one" has the lock and wants the mutex, and "two" has the mutex and wants the lock. The lock
   is found by a constant, by a member of an object on the heap, through a helper, or after a try that has succeeded.
   Without optimisation, clang keeps the argument of "read one" above the guard object to which a call gets a pointer, so
   that the call may have changed it.

Truth: {"expect": "deadlock", "builds": ["-O0", "-O1", "-O2 -fPIE -pie -s", "-O3 -flto -s", "-O2 -fno-pie -no-pie",
                                          "clang -O0", "clang -O2 -fPIE -pie -s"],
        "long": ["clang -O1", "clang -O2 -fno-pie -no-pie", "clang -O3 -march=haswell -s", "clang -Os"],
        "flags": ["-Wl,--no-as-needed", "-lgomp"],
        "silent": ["live-native clang -O0", "core-native clang -O0"],
        "edges": [["omp one", "mutex", "omp two"], ["omp two", "openmp-lock", "omp one"],
                  ["named one", "mutex", "named two"], ["named two", "openmp-lock", "named one"],
                  ["critical one", "mutex", "critical two"], ["critical two", "openmp-lock", "critical one"],
                  ["guard one", "mutex", "guard two"], ["guard two", "static-guard", "guard one"],
                  ["once one", "once", "once two"], ["once two", "once", "once one"],
                  ["read one", "mutex", "read two"], ["read two", "rwlock", "read one"],
                  ["try one", "mutex", "try two"], ["try two", "rwlock", "try one"],
                  ["helper one", "mutex", "helper two"], ["helper two", "openmp-lock", "helper one"],
                  ["apart one", "mutex", "apart two"], ["apart two", "openmp-lock", "apart one"]],
        "behind": ["main"], "waits": [["main", "thread-exit", "omp one"]]} */
#include <omp.h>
#include <pthread.h>
#include <mutex>
#include <shared_mutex>
#include "../scene.hpp"

struct pair {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    std::atomic<int> have{0};
};

/* each of the two comes here when it has its first lock */
__attribute__((noinline)) static void meet(pair &of) {
    of.have++;
    while (of.have < 2)
        sched_yield();
}

__attribute__((noinline)) static void want_mutex(pair &of) {
    meet(of);
    pthread_mutex_lock(&of.mutex);
    pthread_mutex_unlock(&of.mutex);
}

static void have_mutex(pair &of) {
    pthread_mutex_lock(&of.mutex);
    meet(of);
}

static pair pairs[9];

static omp_lock_t global_lock;
__attribute__((noinline)) static void with_omp(bool first) {
    if (!first)
        have_mutex(pairs[0]);
    omp_set_lock(&global_lock);
    if (first)
        want_mutex(pairs[0]);
    omp_unset_lock(&global_lock);
}

/* what gcc makes of `#pragma omp critical(catalog)`, and of one without a name; clang calls another library */
extern "C" {
void GOMP_critical_name_start(void **), GOMP_critical_name_end(void **), GOMP_critical_start(), GOMP_critical_end();
}
static void *catalog;
__attribute__((noinline)) static void with_named(bool first) {
    if (!first)
        have_mutex(pairs[1]);
    GOMP_critical_name_start(&catalog);
    if (first)
        want_mutex(pairs[1]);
    GOMP_critical_name_end(&catalog);
}

__attribute__((noinline)) static void with_critical(bool first) {
    if (!first)
        have_mutex(pairs[2]);
    GOMP_critical_start();
    if (first)
        want_mutex(pairs[2]);
    GOMP_critical_end();
}

__attribute__((noinline)) static int initialise() {
    want_mutex(pairs[3]);
    return 1;
}
__attribute__((noinline)) static int with_guard(bool first) {
    if (!first)
        have_mutex(pairs[3]);
    static int value = initialise();
    return value;
}

static pthread_once_t onces[2] = {PTHREAD_ONCE_INIT, PTHREAD_ONCE_INIT};
static void other_once(int number) {
    meet(pairs[4]);
    pthread_once(&onces[number], [] {});
    pairs[4].have++;
}
__attribute__((noinline)) static void with_once(bool first) {
    if (first)
        pthread_once(&onces[0], [] { other_once(1); pairs[4].have++; });
    else
        pthread_once(&onces[1], [] { other_once(0); pairs[4].have++; });
}

struct table {
    long pages = 0;
    pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
    std::shared_mutex shared;
};
static table *tables = new table[2];

__attribute__((noinline)) static void with_read(table *of, bool first) {
    if (first) {
        std::shared_lock<std::shared_mutex> reading(of->shared);
        want_mutex(pairs[5]);
        of->pages++;
        return;
    }
    have_mutex(pairs[5]);
    std::unique_lock<std::shared_mutex> writing(of->shared);
    of->pages++;
}

__attribute__((noinline)) static void with_try(table *of, bool first) {
    if (first) {
        if (pthread_rwlock_tryrdlock(&of->lock))
            return;
        want_mutex(pairs[6]);
    } else {
        have_mutex(pairs[6]);
        pthread_rwlock_wrlock(&of->lock);
    }
    of->pages++;
    pthread_rwlock_unlock(&of->lock);
}

struct queue {
    long size = 0;
    omp_lock_t lock;
    queue() { omp_init_lock(&lock); }
    __attribute__((noinline)) void begin() { omp_set_lock(&lock); }
    __attribute__((noinline)) void end() { omp_unset_lock(&lock); }
};
__attribute__((noinline)) static void with_helper(queue *of, bool first) {
    if (!first)
        have_mutex(pairs[7]);
    of->begin();
    if (first)
        want_mutex(pairs[7]);
    of->size++;
    of->end();
}

/* a compiler places the call apart */
static omp_lock_t apart_lock;
__attribute__((noinline, cold)) static void want_mutex_once() { want_mutex(pairs[8]); }
__attribute__((noinline)) static void apart(queue *of) {
    omp_set_lock(&apart_lock);
    if (of->size >= 0)
        want_mutex_once();
    of->size++;
    omp_unset_lock(&apart_lock);
}
__attribute__((noinline)) static void with_apart(queue *of, bool first) {
    if (!first)
        have_mutex(pairs[8]);
    apart(of);
}

template <typename Function>
static std::thread start(const char *name, bool first, Function function) {
    return scene::thread(std::string(name) + (first ? " one" : " two"), [=] { function(first); });
}

int main() {
    scene::enrol("main");
    omp_init_lock(&global_lock);
    omp_init_lock(&apart_lock);
    static queue *the_queue = new queue;
    std::thread threads[18];
    int count = 0;
    for (bool first : {true, false}) {
        threads[count++] = start("omp", first, with_omp);
        threads[count++] = start("named", first, with_named);
        threads[count++] = start("critical", first, with_critical);
        threads[count++] = start("guard", first, with_guard);
        threads[count++] = start("once", first, with_once);
        threads[count++] = start("read", first, [](bool first) { with_read(&tables[0], first); });
        threads[count++] = start("try", first, [](bool first) { with_try(&tables[1], first); });
        threads[count++] = start("helper", first, [](bool first) { with_helper(the_queue, first); });
        threads[count++] = start("apart", first, [](bool first) { with_apart(the_queue, first); });
        // the second of each pair must not be there before the first
        if (first)
            for (int i = 0; i < 9; i++)
                while (!pairs[i].have)
                    sched_yield();
    }
    scene::ready();
    for (std::thread &thread : threads)
        thread.join();
}
