/* uxlfoundation/oneTBB#1143, with all sorts of tasks: threads wait for tasks while they have a mutex that a task wants.

   Each of these threads has an arena for itself and one worker. A task that waits for its own group never ends either. A
   loop inside of a task waits for a part of it that wants what the task has; the thread that waits for the task is
   stuck behind. Another thread sleeps now and then, so this is no standstill.

Truth: {"expect": "deadlock", "library": "tbb", "flags": ["-w"], "builds": ["-O0", "-O2", "-O2 -s"],
        "long": ["-O1", "-O3", "-O0 -s", "-Os", "clang -O0", "clang -O2", "clang -O2 -s"],
        "edges": [["group", "tbb-tasks", "group-task"], ["group-task", "mutex", "group"],
                  ["handle", "tbb-tasks", "handle-task"], ["handle-task", "mutex", "handle"],
                  ["large", "tbb-tasks", "large-task"], ["large-task", "mutex", "large"],
                  ["loop", "tbb-tasks", "loop-task"], ["loop-task", "mutex", "loop"],
                  ["nested-task", "tbb-tasks", "inner-task"], ["inner-task", "mutex", "nested-task"],
                  ["own", "tbb-tasks", "own"], ["own-stack", "tbb-tasks", "own-stack"]],
        "behind": ["nested"]} */
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>
#include <array>
#include <mutex>
#include "../scene.hpp"

static std::atomic<int> running;

/* what a task does first that is to run on a worker, and not on the thread that waits for it */
static void begin(const char *role) {
    scene::enrol(role);
    running++;
}

/* oneTBB 2021.8 sometimes wakes no worker for a task; then the program begins again */
static void await(int wanted) {
    for (int i = 0; running < wanted; i++) {
        if (i == 1000)
            execl("/proc/self/exe", "tbb_tasks", nullptr);
        usleep(1000);
    }
}

template <typename Function>
static void start(const char *role, Function function) {
    int before = running;
    scene::thread(role, [function] { tbb::task_arena(2).execute(function); }).detach();
    await(before + 1);
}

static void wait_for_group() {
    std::mutex mutex;
    std::lock_guard<std::mutex> guard(mutex);
    tbb::task_group group;
    int before = running;
    group.run([&mutex] {
        begin("group-task");
        std::lock_guard<std::mutex> inner(mutex);
    });
    await(before + 1);
    group.wait();
}

static void wait_for_handle() {
    std::mutex mutex;
    std::lock_guard<std::mutex> guard(mutex);
    tbb::task_group group, other;
    int before = running;
    group.run(group.defer([&mutex, &other] {
        begin("handle-task");
        std::lock_guard<std::mutex> inner(mutex);
    }));
    await(before + 1);
    group.wait();
}

static void wait_for_large() {
    std::mutex mutex;
    std::lock_guard<std::mutex> guard(mutex);
    tbb::task_group group, other;
    int before = running;
    std::array<void *, 50> many;
    many.fill(&other);
    other.defer([] {});  // a small task, given up
    group.run([&mutex, many] {
        begin("large-task");
        std::lock_guard<std::mutex> inner(mutex);
        scene::numbers[0] += many[0] == nullptr;
    });
    await(before + 1);
    group.wait();
}

static void run_loop(std::mutex &mutex, const char *role) {
    std::lock_guard<std::mutex> guard(mutex);
    long self = syscall(SYS_gettid);
    int before = running;
    tbb::parallel_for(tbb::blocked_range<int>(0, 2, 1), [&, self, before](const tbb::blocked_range<int> &) {
        if (syscall(SYS_gettid) == self) {
            await(before + 1);
        } else {
            begin(role);
            std::lock_guard<std::mutex> inner(mutex);
        }
    }, tbb::simple_partitioner());
}

static void wait_for_loop() {
    std::mutex mutex;
    run_loop(mutex, "loop-task");
}

static void wait_for_nested() {
    tbb::task_group group;
    int before = running;
    group.run([] {
        scene::enrol("nested-task");
        std::mutex mutex;
        // an arena of its own: the thread that waits for this task cannot run the inner part
        tbb::task_arena(2).execute([&mutex] { run_loop(mutex, "inner-task"); });
    });
    await(before + 1);
    group.wait();
}

static void wait_for_itself() {
    tbb::task_group group;
    group.run([&group] {
        running++;
        group.wait();
    });
    group.wait();
}

static void wait_for_itself_on_stack() {
    tbb::task_group group;
    group.run_and_wait([&group] {
        running++;
        group.wait();
    });
}

int main() {
    scene::enrol("main");
    tbb::global_control workers(tbb::global_control::max_allowed_parallelism, 24);
    start("group", wait_for_group);
    start("handle", wait_for_handle);
    start("large", wait_for_large);
    start("loop", wait_for_loop);
    start("nested", wait_for_nested);
    // without a worker the thread runs the task itself
    scene::thread("own", [] { tbb::task_arena(1).execute(wait_for_itself); }).detach();
    scene::thread("own-stack", [] { tbb::task_arena(1).execute(wait_for_itself_on_stack); }).detach();
    await(7);
    scene::ready();
    while (true)
        usleep(50000);
}
