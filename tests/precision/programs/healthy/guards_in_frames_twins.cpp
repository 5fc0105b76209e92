/* Functions whose frames would release a lock if an exception came out of their call, but which do not hold it.

   As in code that unlocks a std::unique_lock for a callback, sets a gsl::finally before it takes the lock, or uses a
   reverse guard (boost::reverse_lock). Each of these waits for a mutex whose owner waits for the lock; the lock is held
   by another thread, which sleeps for a while. Each twin has a lock of its own, so that two wrong answers cannot hide
   each other.

Truth: {"expect": "healthy",
        "builds": ["-O1", "-O3 -flto -s", "-O2 -fno-pie -no-pie -s", "clang -O0"],
        "long": ["-O0", "-O2 -fPIE -pie -s", "clang -O2 -fPIE -pie -s"]} */
#include <pthread.h>
#include <mutex>
#include <shared_mutex>
#include "../scene.hpp"
#define NOT_INLINE __attribute__((noinline))

struct table {
    long pages = 0;
    std::shared_mutex lock, other;
    pthread_mutex_t commit = PTHREAD_MUTEX_INITIALIZER;
    std::atomic<int> ready{0}, arrived{0}, done{0};
    table *self = this;
};
typedef std::shared_lock<std::shared_mutex> guard;
static volatile int yes = 1, no = 0;
static std::atomic<int> round_number;
static std::atomic<bool> ended;

/* waits for the writer; exceptions may come out of it */
NOT_INLINE static void commit(table *of) {
    of->arrived++;
    pthread_mutex_lock(&of->commit);
    pthread_mutex_unlock(&of->commit);
    if (of->pages < 0)
        throw 1;
}

template <typename Function>
struct finally {
    Function function;
    ~finally() { function(); }
};
template <typename Function> finally(Function) -> finally<Function>;

NOT_INLINE static void unlocked(table *of) {
    guard reading(of->lock);
    of->pages++;
    reading.unlock();
    commit(of);
    reading.lock();
    of->pages++;
}

NOT_INLINE static void unlocked_by_hand(table *of) {
    guard reading(of->lock);
    of->lock.unlock_shared();
    commit(of);
    of->lock.lock_shared();
}

NOT_INLINE static void unlocked_in_a_branch(table *of) {
    guard reading(of->lock);
    if (yes)
        of->lock.unlock_shared();
    commit(of);
    if (yes)
        of->lock.lock_shared();
}

NOT_INLINE static void unlocked_in_a_loop(table *of) {
    guard reading(of->lock);
    for (int i = 0; i < 2; i++) {
        of->lock.unlock_shared();
        if (i == 1)
            commit(of);
        of->lock.lock_shared();
    }
}

NOT_INLINE static void set_before(table *of) {
    finally release{[of] { of->lock.unlock_shared(); }};
    commit(of);
    of->lock.lock_shared();
    of->pages += 0;
}

NOT_INLINE static guard read_other(table *of) { return guard(of->self->other); }

/* the other lock's address is in its guard alone */
NOT_INLINE static void set_before_with_another(table *of) {
    guard first = read_other(of);
    finally release{[of] { of->self->lock.unlock_shared(); }};
    commit(of);
    of->self->lock.lock_shared();
}

NOT_INLINE static void set_before_in_a_loop(table *of) {
    for (int i = 0; i < 2; i++) {
        finally release{[of] { of->lock.unlock_shared(); }};
        if (i == 1)
            commit(of);
        of->lock.lock_shared();
        of->pages += i;
    }
}

NOT_INLINE static void deferred(table *of) {
    guard reading(of->lock, std::defer_lock);
    commit(of);
    reading.lock();
    of->pages++;
}

NOT_INLINE static void deferred_in_a_branch(table *of) {
    guard reading(of->lock, std::defer_lock);
    if (no)
        reading.lock();
    commit(of);
    of->pages++;
}

NOT_INLINE static guard not_yet(table *of) { return guard(of->lock, std::defer_lock); }
NOT_INLINE static void returned(table *of) {
    guard reading = not_yet(of);
    commit(of);
    reading.lock();
}

NOT_INLINE static void released_by_handler(table *of) {
    try {
        commit(of);
        of->lock.lock_shared();
    } catch (...) {
        of->lock.unlock_shared();
        throw;
    }
    of->pages++;
    of->lock.unlock_shared();
}

NOT_INLINE static void released_by_handler_after(table *of) {
    of->lock.lock_shared();
    of->lock.unlock_shared();
    try {
        commit(of);
    } catch (...) {
        of->lock.unlock_shared();
        throw;
    }
}

struct unlocker {
    guard &of;
    explicit unlocker(guard &of) : of(of) { of.unlock(); }
    ~unlocker() { of.lock(); }
};
NOT_INLINE static void reverse(table *of) {
    guard reading(of->lock);
    unlocker until_end(reading);
    commit(of);
}

struct raw_unlocker {
    table *of;
    NOT_INLINE explicit raw_unlocker(table *of) : of(of) { of->lock.unlock_shared(); }
    NOT_INLINE ~raw_unlocker() { of->lock.lock_shared(); }
};
NOT_INLINE static void reverse_by_hand(table *of) {
    guard reading(of->lock);
    {
        raw_unlocker until_end(of);
        commit(of);
    }
    of->pages++;
}

/* as a wait for a condition */
NOT_INLINE static void commit_without(table *of, guard &reading) {
    reading.unlock();
    commit(of);
    reading.lock();
}
NOT_INLINE static void released_inside(table *of) {
    guard reading(of->lock);
    commit_without(of, reading);
    of->pages++;
}
NOT_INLINE static void commit_without_lock(table *of) {
    of->lock.unlock_shared();
    commit(of);
    of->lock.lock_shared();
}
NOT_INLINE static void released_inside_by_hand(table *of) {
    guard reading(of->lock);
    commit_without_lock(of);
    of->pages++;
}

NOT_INLINE static void commit_moved(table *of, guard reading) {
    reading.unlock();
    commit(of);
}
NOT_INLINE static void moved(table *of) {
    guard reading(of->lock);
    commit_moved(of, std::move(reading));
    of->pages++;
}

NOT_INLINE static void handed_on(table *of) {
    guard reading(of->lock);
    guard to = std::move(reading);
    to.unlock();
    commit(of);
}

static void (*const functions[])(table *) = {
    unlocked, unlocked_by_hand, unlocked_in_a_branch, unlocked_in_a_loop, set_before, set_before_with_another,
    set_before_in_a_loop, deferred, deferred_in_a_branch, returned, released_by_handler, released_by_handler_after,
    reverse, reverse_by_hand, released_inside, released_inside_by_hand, moved, handed_on};
static const int COUNT = sizeof functions / sizeof *functions;
static table *tables = new table[COUNT];

static void until(std::atomic<int> &value, int wanted) {
    while (value < wanted && !ended)
        usleep(1000);
}

static void run(int number) {
    table *of = &tables[number];
    for (int round = 1; !ended; round++) {
        until(of->ready, round);
        if (ended)
            return;
        functions[number](of);
        of->done++;
    }
}

static void write_pages(int number) {
    table *of = &tables[number];
    for (int round = 1;; round++) {
        until(round_number, round);
        if (ended)
            return;
        pthread_mutex_lock(&of->commit);
        of->ready++;
        until(of->arrived, round);
        of->lock.lock();
        of->lock.unlock();
        pthread_mutex_unlock(&of->commit);
        of->done++;
    }
}

static void hold() {
    while (!scene::stopping) {
        for (int i = 0; i < COUNT; i++)
            tables[i].lock.lock_shared();
        int round = ++round_number;
        for (int i = 0; i < COUNT; i++)
            until(tables[i].arrived, round);
        usleep(30000);
        for (int i = 0; i < COUNT; i++)
            tables[i].lock.unlock_shared();
        for (int i = 0; i < COUNT; i++)
            until(tables[i].done, 2 * round);
    }
    ended = true;
}

int main() {
    scene::enrol("main");
    scene::listen();
    std::thread threads[2 * COUNT + 1];
    for (int i = 0; i < COUNT; i++) {
        threads[i] = scene::thread("twin " + std::to_string(i), [=] { run(i); });
        threads[COUNT + i] = scene::thread("writer " + std::to_string(i), [=] { write_pages(i); });
    }
    threads[2 * COUNT] = scene::thread("holder", hold);
    scene::ready();
    for (std::thread &thread : threads)
        thread.join();
}
