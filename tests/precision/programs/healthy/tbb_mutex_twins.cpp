/* oneapi-src/oneTBB#1104, corrected: functions that look as if they held a `tbb::mutex`: those of mutex_twins.hpp, and such whose
   lock was released or given up, or whose try has failed.

   The holder is another thread, which sleeps for a while.

Truth: {"expect": "healthy", "library": "tbb", "flags": ["-w"],
        "builds": ["-O2 -s", "clang -O2 -s"], "long": ["-O0", "clang -O0 -s", "-O1", "-O3 -s", "clang -O1", "clang -O3"]} */
#include <oneapi/tbb/mutex.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>
#include <condition_variable>

using Mutex = tbb::mutex;

#include "../mutex_twins.hpp"

static void try_failed(Round &round, Mutex &mutex) {
    bool has = mutex.try_lock();
    rest(round);
    if (has)
        mutex.unlock();
}

static void scoped_try_failed(Round &round, Mutex &mutex) {
    Mutex::scoped_lock lock;
    bool has = lock.try_acquire(mutex);
    rest(round);
    (void)has;
}

static void scoped_released(Round &round, Mutex &mutex) {
    Mutex::scoped_lock lock(mutex);
    lock.release();
    rest(round);
}

/* `std::condition_variable_any` releases the mutex while it waits. */
static void waits_for_signal(Round &round, Mutex &mutex) {
    std::condition_variable_any never;
    std::unique_lock<Mutex> lock(mutex);
    round.stage = 1;
    never.wait_for(lock, std::chrono::milliseconds(400));
    lock.unlock();
    while (round.stage < 3)
        usleep(2000);
}

/* The library calls the function that releases the mutex, and that has returned, or rests. */

static void released_in_arena(Round &round, Mutex &mutex) {
    mutex.lock();
    tbb::this_task_arena::isolate([&mutex] { mutex.unlock(); });
    rest(round);
}

static void releases_in_arena(Round &round, Mutex &mutex) {
    mutex.lock();
    tbb::this_task_arena::isolate([&mutex, &round] {
        mutex.unlock();
        rest(round);
    });
}

static void released_in_loop(Round &round, Mutex &mutex) {
    static tbb::task_arena arena(1);
    arena.execute([&mutex, &round] {
        mutex.lock();
        tbb::parallel_for(tbb::blocked_range<int>(0, 2, 1), [&mutex, &round](const tbb::blocked_range<int> &range) {
            if (range.begin() == 0)
                mutex.unlock();
            else
                rest(round);
        }, tbb::simple_partitioner());
    });
}

static void released_by_task(Round &round, Mutex &mutex) {
    static tbb::task_arena arena(1);
    arena.execute([&mutex, &round] {
        tbb::task_group group;
        mutex.lock();
        group.run_and_wait([&mutex] { mutex.unlock(); });
        rest(round);
    });
}

int main() {
    run_twins({{try_failed, true}, {scoped_try_failed, true}, {scoped_released, false}, {waits_for_signal, false},
               {released_in_arena, false}, {releases_in_arena, false}, {released_in_loop, false},
               {released_by_task, false}});
}
