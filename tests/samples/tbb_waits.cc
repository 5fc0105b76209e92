/* Threads that sleep in oneTBB: one scene each, all in one process.
 *
 *     tbb-waits SCENE...
 *
 * Prints one JSON line about itself, see tests/support/samples.py, and then hangs.
 */
#include "scenes.h"

#include <atomic>
#include <dirent.h>
#include <mutex>
#include <tbb/concurrent_queue.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>

namespace {

enum { WORKERS = 3 };

std::mutex mutex;
tbb::concurrent_bounded_queue<int> queue;

/* Make a thread that this program has not started known by a role. */
actor *enrol(const char *role, long tid) {
    actor *found = &actors[actor_count++];
    snprintf(found->role, sizeof found->role, "%s.%s", current_scene, role);
    found->tid = tid;
    return found;
}

/* A thread waits for its tasks; a worker runs one of them, which wants a mutex. */
int scene_tasks() {
    static std::atomic<long> worker;
    static void *tasks;
    actor *waiter = start("waiter", [](void *) -> void * {
        std::lock_guard<std::mutex> guard(mutex);
        tbb::task_arena arena(2);
        arena.execute([] {
            tbb::task_group group;
            tasks = &group;  // it begins with its wait_context
            group.run([] {
                worker = thread_id();
                std::lock_guard<std::mutex> inner(mutex);
            });
            while (!worker)
                sched_yield();
            group.wait();
        });
        return nullptr;
    }, nullptr);
    while (!worker)
        sched_yield();
    settle_on(enrol("worker", worker), &mutex, sizeof mutex);
    LOCK(.name = "mutex", .kind = "mutex", .address = &mutex, .state = "locked", .holders = "waiter",
         .waiters = "worker");
    settle(waiter);
    LOCK(.name = "tasks", .kind = "tbb-tasks", .address = tasks, .state = "not finished", .evidence = "derived",
         .holders = "worker", .waiters = "waiter");
    note_edge("waiter", "tasks", "worker");
    note_edge("worker", "mutex", "waiter");
    return 1;
}

int scene_queue() {
    actor *waiter = start("waiter", [](void *) -> void * { int item; queue.pop(item); return nullptr; }, nullptr);
    LOCK(.name = "item", .kind = "tbb-wait", .address = settle(waiter), .state = "waiting for a queue",
         .waiters = "waiter");
    return 1;
}

int is_known(long tid) {
    int known = tid == getpid();
    for (int i = 0; i < actor_count; i++)
        known |= actors[i].tid == tid;
    return known;
}

/* The workers that have no task are all threads that are not known otherwise. */
int scene_idle() {
    static char names[WORKERS][32];
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    while (dirent *entry = readdir(tasks)) {
        long tid = atol(entry->d_name);
        if (tid && !is_known(tid) && count < WORKERS) {
            char *name = names[count++];
            snprintf(name, sizeof *names, "worker-%d", count);
            LOCK(.name = name, .kind = "tbb-wait", .address = settle(enrol(name, tid)), .state = "idle",
                 .waiters = name);
        }
    }
    closedir(tasks);
    insist(count > 0, "there is no idle worker");
    return 1;
}

const scene scenes[] = {{"tasks", scene_tasks}, {"queue", scene_queue}, {"idle", scene_idle}};

}  // namespace

int main(int, char **argv) {
    tbb::global_control workers(tbb::global_control::max_allowed_parallelism, WORKERS + 1);
    // by default there is no worker on a machine with one processor
    tbb::task_arena(WORKERS + 1).execute([] { tbb::parallel_for(0, 200, [](int) { usleep(1000); }); });
    return play("tbb-waits", scenes, sizeof scenes / sizeof *scenes, argv + 1);
}
