/* uxlfoundation/oneTBB#1143, corrected: threads wait for tasks while they have a mutex, and no task of theirs wants it.

   The thread that wants it runs a task of another group, or of a loop, and that task has the address of the group in its function
   object; or it had run a task of the group before; or it gives up after some time. A task of the group wants something else.
   The group of a waiting thread ends when another thread gives its last task up.

Truth: {"expect": "healthy", "library": "tbb", "flags": ["-w"], "builds": ["-O0", "-O2", "-O2 -s"],
        "long": ["-O1", "-O3", "-Os", "clang -O0", "clang -O2"]} */
#include <tbb/parallel_for.h>
#include <tbb/parallel_reduce.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>
#include <array>
#include <mutex>
#include "../scene.hpp"

#define NOINLINE __attribute__((noinline))

struct alignas(128) Empty { std::array<void *, 32> words{}; };

struct Round {
    std::timed_mutex mutex;
    std::mutex other;
    tbb::task_group group;
    std::atomic<int> stage{0};
    Empty empty;

    /* wants the mutex that the waiting thread has */
    NOINLINE void want() {
        mutex.lock();
        mutex.unlock();
    }
};

/* -- what a thread does that wants the mutex, on one thread: the groups and loops have no worker -- */

static void of_other_group(Round &round) {
    tbb::task_group other, *group = &round.group;
    other.run([&round, group] { round.want(); (void)group; });
    other.wait();
}

static void of_other_group_with_aligned(Round &round) {
    tbb::task_group other, *group = &round.group;
    Empty *empty = &round.empty;
    other.run([group, empty, &round] { round.want(); (void)group; (void)empty; });
    other.wait();
}

static void of_other_group_by_handle(Round &round) {
    tbb::task_group other, *group = &round.group;
    other.run(other.defer([group, &round] { round.want(); (void)group; }));
    other.wait();
}

static void of_other_group_and_large(Round &round) {
    tbb::task_group other;
    std::array<void *, 60> many;
    many.fill(&round.group);
    other.run([many, &round] { round.want(); round.empty.words[0] = many[round.stage] ? nullptr : &round; });
    other.wait();
}

static void on_stack_of_other_group(Round &round) {
    tbb::task_group other, *group = &round.group;
    other.run_and_wait([group, &round] { round.want(); (void)group; });
}

static void of_loop(Round &round) {
    tbb::task_group *group = &round.group;
    std::array<void *, 4> many{group, &round.empty, group, &round.empty};
    tbb::parallel_for(tbb::blocked_range<int>(0, 1), [group, many, &round](const tbb::blocked_range<int> &) {
        round.want();
        round.empty.words[0] = many[0] ? nullptr : group;
    });
}

/* a task of the group had the same memory, and its frames were on the same stack */
static void after_task_of_group(Round &round) {
    std::array<void *, 9> many{};
    tbb::task_group other;
    other.run([] {});  // it runs last
    for (int i = 0; i < 3; i++)
        round.group.run([many, &round] { round.empty.words[0] = many[0]; });
    other.wait();
    tbb::parallel_for(tbb::blocked_range<int>(0, 4, 1), [](const tbb::blocked_range<int> &) {});
    other.run([&round] { round.want(); });
    other.wait();
}

static void after_handle_of_group(Round &round) {
    { auto task = round.group.defer([] {}); }
    tbb::task_group other;
    other.run(other.defer([&round] { round.want(); }));
    other.wait();
}

static void of_group_with_timeout(Round &round) {
    round.group.run_and_wait([&round] {
        if (round.mutex.try_lock_for(std::chrono::milliseconds(15)))
            round.mutex.unlock();
    });
}

static void of_group_with_other_mutex(Round &round) {
    round.group.run_and_wait([&round] { std::lock_guard<std::mutex> guard(round.other); });
}

static void (*const looks[])(Round &) = {
    of_other_group, of_other_group_with_aligned, of_other_group_by_handle, of_other_group_and_large,
    on_stack_of_other_group, of_loop, after_task_of_group, after_handle_of_group, of_group_with_timeout, of_group_with_other_mutex};

static void wait_for_group(Round &round) {
    while (!scene::stopping) {
        std::unique_lock<std::timed_mutex> guard(round.mutex);
        auto last = std::make_unique<tbb::task_handle>(round.group.defer([] {}));
        std::thread ends([&] {
            round.other.lock();
            round.stage = 1;
            usleep(20000);
            round.other.unlock();
            last.reset();
        });
        round.group.wait();
        guard.unlock();
        ends.join();
        while (round.stage != 2)
            usleep(500);
        round.stage = 0;
    }
    round.stage = 3;
}

static void look(Round &round, void (*function)(Round &)) {
    tbb::task_arena(1).execute([&] {
        while (round.stage != 3) {
            if (round.stage == 1) {
                function(round);
                round.stage = 2;
            }
            usleep(500);
        }
    });
}

int main() {
    scene::enrol("main");
    scene::listen();
    constexpr int COUNT = sizeof looks / sizeof *looks;
    static Round rounds[COUNT];
    std::thread waiting[COUNT], looking[COUNT];
    for (int i = 0; i < COUNT; i++) {
        std::string number = std::to_string(i);
        waiting[i] = scene::thread("waits-" + number, [i] { wait_for_group(rounds[i]); });
        looking[i] = scene::thread("looks-" + number, [i] { look(rounds[i], looks[i]); });
    }
    scene::ready();
    for (int i = 0; i < COUNT; i++) {
        waiting[i].join();
        looking[i].join();
    }
}
