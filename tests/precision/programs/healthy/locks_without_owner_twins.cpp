/* Functions that look as if they held a lock that records no owner, while they wait for the mutex of the waiting thread.

   Each stands for a way in which address or code mislead: the lock was only passed on, or left in a dead slot; it was
   released by a helper, by a jump to the releasing function, in one branch, by a landing pad, or by a function that takes
   it again later, as condition variables do; the try has failed, or its result is not known; it was another lock. The
   holder is another thread, which sleeps for a while: as in the reports of false positives of lockdep and TSan
   (google/sanitizers#814).

Truth: {"expect": "healthy", "flags": ["-Wl,--no-as-needed", "-lgomp"],
        "builds": ["-O1 -DSPIN -DTWO", "-O2 -fPIE -pie -s -DTWO", "-O3 -flto -s", "-O2 -DSPIN -DAPART -s",
                   "clang -O0", "clang -O2 -DSPIN -fPIE -pie -s -DTWO"],
        "long": ["-O0", "-O0 -DSPIN", "-O2 -DSPIN -fno-pie -no-pie -s",
                 "clang -O0 -DSPIN -DTWO", "clang -O1", "clang -O2 -DTWO", "-O2 -DAPART", "clang -O3 -DSPIN -fno-pie -no-pie",
                 "clang -Os -s"]} */
#include <omp.h>
#include <pthread.h>
#include "../scene.hpp"

#ifdef SPIN
typedef pthread_spinlock_t lock_type;
#define INIT(lock) pthread_spin_init(lock, PTHREAD_PROCESS_PRIVATE)
#define ACQUIRE(lock) pthread_spin_lock(lock)
#define TRY(lock) (pthread_spin_trylock(lock) == 0)
#define RELEASE(lock) pthread_spin_unlock(lock)
#else
typedef omp_lock_t lock_type;
#define INIT(lock) omp_init_lock(lock)
#define ACQUIRE(lock) omp_set_lock(lock)
#define TRY(lock) omp_test_lock(lock)
#define RELEASE(lock) omp_unset_lock(lock)
#endif
#define NOT_INLINE __attribute__((noinline))

struct table {
    long pages;
    lock_type locks[3];
    pthread_mutex_t commit = PTHREAD_MUTEX_INITIALIZER;
};
static table tables;
static table *volatile the_table = &tables;
/* 1: the writer has the mutex; 2: the holder has the lock; 3: the writer wants it */
static std::atomic<int> phase, arrived, left, round_number;
static std::atomic<bool> ended;

/* waits for the writer, as each of these functions does in the end */
NOT_INLINE static void commit(table *of) {
    arrived++;
    pthread_mutex_lock(&of->commit);
    pthread_mutex_unlock(&of->commit);
    left++;
}

static void until(int wanted) {
    while (phase < wanted)
        usleep(300);
}

NOT_INLINE static void release(lock_type *lock) { RELEASE(lock); }
NOT_INLINE static void acquire(lock_type *lock) { ACQUIRE(lock); }
NOT_INLINE static int attempt(lock_type *lock) { return TRY(lock); }

NOT_INLINE static void passed_on(table *of, lock_type *lock) {
    lock_type *volatile slot = lock;
    commit(of);
    of->pages += slot == lock;
}

NOT_INLINE static void by_jump(table *of) {
    ACQUIRE(&of->locks[0]);
    of->pages++;
    release(&of->locks[0]);
    commit(of);
}

NOT_INLINE static void by_helpers(table *of) {
    acquire(&of->locks[0]);
    release(&of->locks[0]);
    commit(of);
}

NOT_INLINE static void in_a_branch(table *of, int kind) {
    ACQUIRE(&of->locks[0]);
    switch (kind) {
    case 0: of->pages++; break;
    case 1: RELEASE(&of->locks[0]); commit(of); return;
    case 2: of->pages += 2; break;
    case 3: of->pages += 3; break;
    case 4: of->pages += 4; break;
    }
    RELEASE(&of->locks[0]);
}

NOT_INLINE static void only_if(table *of, bool locked) {
    if (locked)
        ACQUIRE(&of->locks[0]);
    commit(of);
    if (locked)
        RELEASE(&of->locks[0]);
}

NOT_INLINE static void try_failed(table *of) {
    until(2);
    if (!TRY(&of->locks[0])) {
        commit(of);
        return;
    }
    of->pages++;
    RELEASE(&of->locks[0]);
}

NOT_INLINE static void try_not_tested(table *of) {
    until(2);
    volatile bool got = TRY(&of->locks[0]);
    commit(of);
    if (got)
        RELEASE(&of->locks[0]);
}

NOT_INLINE static void try_of_helper_failed(table *of) {
    until(2);
    int got = attempt(&of->locks[0]);
    if (got)
        of->pages++;
    else
        commit(of);
    if (got)
        RELEASE(&of->locks[0]);
}

NOT_INLINE static void try_again(table *of) {
    until(2);
    int times = 0;
    while (!TRY(&of->locks[0])) {
        if (times++ == 0) {
            left--;  /* it is not done with the round before it has had the lock */
            commit(of);
        }
        usleep(300);
    }
    RELEASE(&of->locks[0]);
    left++;
}

/* as a condition variable: releases the lock, waits, and takes it again */
NOT_INLINE static void wait_without(table *of, lock_type *lock) {
    RELEASE(lock);
    commit(of);
    ACQUIRE(lock);
}
[[maybe_unused]] NOT_INLINE static void released_inside(table *of) {
    ACQUIRE(&of->locks[0]);
    of->pages++;
    wait_without(of, &of->locks[0]);
    RELEASE(&of->locks[0]);
}

NOT_INLINE static void wait_without_global(table *of) {
    release(&tables.locks[0]);
    commit(of);
    acquire(&tables.locks[0]);
}
NOT_INLINE static void released_far_inside(table *of) { wait_without_global(of); of->pages++; }
[[maybe_unused]] NOT_INLINE static void released_two_inside(table *of) {
    acquire(&of->locks[0]);
    released_far_inside(of);
    release(&of->locks[0]);
}

/* a compiler places the call apart, so that its frame is in code that does not release the lock */
NOT_INLINE __attribute__((cold)) static void commit_once(table *of) { commit(of); of->pages++; }
NOT_INLINE static void release_and_jump(table *of) {
    RELEASE(&of->locks[0]);
    if (of->pages > 0)
        commit_once(of);
    ACQUIRE(&of->locks[0]);
}
static void (*volatile any_function)(table *) = release_and_jump;
[[maybe_unused]] NOT_INLINE static void released_before_jump(table *of) {
    ACQUIRE(&of->locks[0]);
    of->pages++;
    any_function(of);
    RELEASE(&of->locks[0]);
}

/* one of them: if the code of two seemed to prove it, neither would count */
#ifdef APART
#define RELEASED_INSIDE released_before_jump
#elif defined(TWO)
#define RELEASED_INSIDE released_two_inside
#else
#define RELEASED_INSIDE released_inside
#endif

struct guard {
    lock_type *lock;
    explicit guard(lock_type *lock) : lock(lock) { ACQUIRE(lock); }
    ~guard() { RELEASE(lock); }
};
struct commits_at_end {
    table *of;
    ~commits_at_end() { commit(of); }
};
NOT_INLINE static void fail(table *of) {
    if (of->pages >= 0)
        throw 1;
}
NOT_INLINE static void in_landing_pad(table *of) {
    commits_at_end last{of};
    guard held(&of->locks[0]);
    fail(of);
    of->pages++;
}
NOT_INLINE static void caught(table *of) {
    try {
        in_landing_pad(of);
    } catch (int) {
        of->pages += 0;
    }
}

NOT_INLINE static void another_of_the_array(table *of, int index) {
    ACQUIRE(&of->locks[index]);
    commit(of);
    RELEASE(&of->locks[index]);
}

NOT_INLINE static void pointer_moved_on(table *of) {
    lock_type *volatile lock = &of->locks[2];
    ACQUIRE(lock);
    lock_type *taken = lock;
    lock = &of->locks[0];
    commit(of);
    RELEASE(taken);
}

/* what a callee changes through a pointer to the slot that keeps the address */
NOT_INLINE static void change_and_commit(table *of, lock_type **slot) {
    *slot = &of->locks[0];
    commit(of);
}
static lock_type extra;
NOT_INLINE static void slot_changed(table *of) {
    lock_type *lock = of->pages >= 0 ? &extra : &of->locks[1];
    ACQUIRE(lock);
    lock_type *slot = lock;
    change_and_commit(of, &slot);
    RELEASE(of->pages >= 0 ? &extra : &of->locks[1]);
}

NOT_INLINE static void each_time(table *of) {
    for (int i = 0; i < 3; i++) {
        ACQUIRE(&of->locks[0]);
        of->pages++;
        RELEASE(&of->locks[0]);
        if (i == 1)
            commit(of);
    }
}

static const int EARLY = 11, ALL = 15;

template <typename Function>
static void each_round(Function function) {
    for (int done = 0; !ended;) {
        if (round_number == done) {
            usleep(300);
            continue;
        }
        done = round_number;
        function();
    }
}

static void hold_for_a_while() {
    while (arrived < EARLY)
        usleep(300);
    acquire(&the_table->locks[0]);
    phase = 2;
    until(3);
    usleep(20000);
    release(&the_table->locks[0]);
    left++;
}

static void write_pages() {
    while (!scene::stopping) {
        pthread_mutex_lock(&the_table->commit);
        arrived = left = 0;
        phase = 1;
        round_number++;
        while (arrived < ALL)
            usleep(300);
        phase = 3;
        ACQUIRE(&the_table->locks[0]);
        RELEASE(&the_table->locks[0]);
        pthread_mutex_unlock(&the_table->commit);
        while (left < ALL + 1)
            usleep(300);
    }
    ended = true;
}

template <typename Function>
static std::thread start(const char *role, Function function) {
    return scene::thread(role, [function] { each_round(function); });
}

int main() {
    scene::enrol("main");
    scene::listen();
    for (lock_type &lock : tables.locks)
        INIT(&lock);
    INIT(&extra);
    std::thread threads[] = {
        start("passed on", [] { passed_on(the_table, &the_table->locks[0]); }),
        start("by jump", [] { by_jump(the_table); }),
        start("by helpers", [] { by_helpers(the_table); }),
        start("in a branch", [] { in_a_branch(the_table, 1); }),
        start("only if", [] { only_if(the_table, false); }),
        start("released inside", [] { RELEASED_INSIDE(the_table); }),
        start("landing pad", [] { caught(the_table); }),
        start("another", [] { another_of_the_array(the_table, 1); }),
        start("moved on", [] { pointer_moved_on(the_table); }),
        start("slot changed", [] { slot_changed(the_table); }),
        start("each time", [] { each_time(the_table); }),
        start("try failed", [] { try_failed(the_table); }),
        start("try not tested", [] { try_not_tested(the_table); }),
        start("try of helper failed", [] { try_of_helper_failed(the_table); }),
        start("try again", [] { try_again(the_table); }),
        start("holder", hold_for_a_while),
        scene::thread("writer", write_pages),
    };
    scene::ready();
    for (std::thread &thread : threads)
        thread.join();
}
