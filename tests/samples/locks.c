/* Every kind of lock of the C library, in every state in which a thread can hang on it: one scene each.
 *
 *     locks [PLUGIN] SCENE...
 *
 * Scenes are played in one process, in this order. `dlopen` needs the plugin: this file compiled with -DPLUGIN.
 * Prints one JSON line about itself, see tests/support/samples.py, and then hangs.
 */
#define _GNU_SOURCE
#ifdef PLUGIN

void plugin_loads(void);

__attribute__((constructor)) static void load(void) {
    plugin_loads();
}

#else

#include "scenes.h"

#include <dlfcn.h>
#include <errno.h>
#include <gnu/libc-version.h>
#include <limits.h>
#include <link.h>
#include <linux/futex.h>
#include <malloc.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

#define HAVE_C11_THREADS __GLIBC_PREREQ(2, 28)
#if HAVE_C11_THREADS
#include <threads.h>
#endif

#if __GLIBC_PREREQ(2, 30)
#define CLOCK_OF_CHOICE CLOCK_MONOTONIC
#else
// these have no choice
#define CLOCK_OF_CHOICE CLOCK_REALTIME
#define pthread_mutex_clocklock(mutex, clock, end) pthread_mutex_timedlock(mutex, end)
#define pthread_rwlock_clockrdlock(lock, clock, end) pthread_rwlock_timedrdlock(lock, end)
#define pthread_cond_clockwait(cond, mutex, clock, end) pthread_cond_timedwait(cond, mutex, end)
#define sem_clockwait(semaphore, clock, end) sem_timedwait(semaphore, end)
#endif

static const char *plugin;

typedef int (*operation)(void *);

/* How a thread arrives at a lock; `has` says that the thread now holds it. */
struct side {
    operation take;
    void *lock;
    int has;
};

static void *hold(void *argument) {
    struct side *side = argument;
    side->take(side->lock);
    advance(&side->has);
    rest();
    return NULL;
}

/* Nothing records this holder, and a call through a pointer proves nothing: it only has the address at hand. */
static void *hold_at_hand(void *argument) {
    struct side *side = argument;
    side->take(side->lock);
    advance(&side->has);
    rest_with(side->lock);
    return NULL;
}

/* Nothing records this reader: its code proves that it holds the lock. */
static void *hold_to_read(void *argument) {
    struct side *side = argument;
    pthread_rwlock_t *lock = side->lock;
    pthread_rwlock_rdlock(lock);
    advance(&side->has);
    rest();
    pthread_rwlock_unlock(lock);
    return NULL;
}

static void *want(void *argument) {
    struct side *side = argument;
    side->take(side->lock);
    return NULL;
}

static void *have_at_hand(void *lock) {
    rest_with(lock);
    return NULL;
}

static struct actor *start_holder(const char *role, void *(*run)(void *), struct side *side) {
    struct actor *actor = start(role, run, side);
    await(&side->has, 1);
    settle_at_rest(actor);
    return actor;
}

static void start_waiter(const char *role, struct side *side, size_t size) {
    settle_on(start(role, want, side), side->lock, size);
}

static struct timespec some_day(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    now.tv_sec += 1000000;
    return now;
}

/* -- pthread_mutex_t -- */

static int take_mutex(void *lock) { return pthread_mutex_lock(lock); }

static int take_mutex_timed(void *lock) {
    struct timespec end = some_day(CLOCK_REALTIME);
    return pthread_mutex_timedlock(lock, &end);
}

static int take_mutex_clocked(void *lock) {
    struct timespec end = some_day(CLOCK_OF_CHOICE);
    return pthread_mutex_clocklock(lock, CLOCK_OF_CHOICE, &end);
}

static void show_mutex(void *mutex, operation take, operation wait) {
    struct side *holder = calloc(1, sizeof *holder), *waiter = calloc(1, sizeof *waiter);
    *holder = (struct side){take, mutex, 0};
    *waiter = (struct side){wait, mutex, 0};
    start_holder("holder", hold, holder);
    start_waiter("first", waiter, sizeof(pthread_mutex_t));
    start_waiter("second", waiter, sizeof(pthread_mutex_t));
    LOCK(.name = "lock", .kind = "mutex", .address = mutex, .state = "locked", .holders = "holder",
         .waiters = "first second", .timed = wait == take ? "" : "first second");
}

#define SCENE_OF_MUTEX(NAME, TYPE, ROBUST, PROTOCOL, SHARED)                                                     \
    static int scene_##NAME(void) {                                                                              \
        static pthread_mutex_t mutex;                                                                            \
        pthread_mutexattr_t attributes;                                                                          \
        pthread_mutexattr_init(&attributes);                                                                     \
        pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_##TYPE);                                            \
        pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_##ROBUST);                                        \
        pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_##PROTOCOL);                                     \
        pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_##SHARED);                                     \
        insist(!pthread_mutex_init(&mutex, &attributes), "no mutex");                                            \
        show_mutex(&mutex, take_mutex, take_mutex);                                                              \
        return 1;                                                                                                \
    }

SCENE_OF_MUTEX(normal, NORMAL, STALLED, NONE, PRIVATE)
SCENE_OF_MUTEX(recursive, RECURSIVE, STALLED, NONE, PRIVATE)
SCENE_OF_MUTEX(errorcheck, ERRORCHECK, STALLED, NONE, PRIVATE)
SCENE_OF_MUTEX(adaptive, ADAPTIVE_NP, STALLED, NONE, PRIVATE)
SCENE_OF_MUTEX(robust, NORMAL, ROBUST, NONE, PRIVATE)
SCENE_OF_MUTEX(robust_recursive, RECURSIVE, ROBUST, NONE, PRIVATE)
SCENE_OF_MUTEX(pi, NORMAL, STALLED, INHERIT, PRIVATE)
SCENE_OF_MUTEX(pi_robust, NORMAL, ROBUST, INHERIT, PRIVATE)
SCENE_OF_MUTEX(pshared, NORMAL, STALLED, NONE, SHARED)

static int take_ceiling_mutex(void *lock) {
    // the C library raises the priority of a thread that takes it, within its policy
    struct sched_param parameters = {.sched_priority = 1};
    insist(!pthread_setschedparam(pthread_self(), SCHED_RR, &parameters), "no real-time policy");
    return pthread_mutex_lock(lock);
}

static int scene_pp(void) {
    static pthread_mutex_t mutex;
    struct sched_param parameters = {.sched_priority = 1}, before = {.sched_priority = 0};
    if (pthread_setschedparam(pthread_self(), SCHED_RR, &parameters))
        return 0;
    pthread_setschedparam(pthread_self(), SCHED_OTHER, &before);
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_PROTECT);
    pthread_mutexattr_setprioceiling(&attributes, 1);
    insist(!pthread_mutex_init(&mutex, &attributes), "no mutex");
    show_mutex(&mutex, take_ceiling_mutex, take_ceiling_mutex);
    return 1;
}

static int scene_timed(void) {
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    show_mutex(&mutex, take_mutex, take_mutex_timed);
    return 1;
}

static int scene_clocked(void) {
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    show_mutex(&mutex, take_mutex, take_mutex_clocked);
    return 1;
}

/* Takes one lock, and the other when both sides have one. */
struct route {
    operation take_near, take_far;
    void *near, *far;
    int *holding;
};

static void *take_both(void *argument) {
    struct route *route = argument;
    route->take_near(route->near);
    advance(route->holding);
    await(route->holding, 2);
    route->take_far(route->far);
    return NULL;
}

/* One of two that hang on one another will give up. */
static int scene_abba_timed(void) {
    static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER, other = PTHREAD_MUTEX_INITIALIZER;
    static int holding;
    static struct route routes[] = {{take_mutex, take_mutex, &one, &other, &holding},
                                    {take_mutex, take_mutex_timed, &other, &one, &holding}};
    struct actor *first = start("first", take_both, &routes[0]), *second = start("second", take_both, &routes[1]);
    settle_on(first, &other, sizeof other);
    settle_on(second, &one, sizeof one);
    LOCK(.name = "one", .kind = "mutex", .address = &one, .state = "locked", .holders = "first",
         .waiters = "second", .timed = "second");
    LOCK(.name = "other", .kind = "mutex", .address = &other, .state = "locked", .holders = "second",
         .waiters = "first");
    return 1;
}

static void *take_twice(void *lock) {
    take_mutex(lock);
    take_mutex(lock);
    return NULL;
}

static int scene_self(void) {
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    settle_on(start("only", take_twice, &mutex), &mutex, sizeof mutex);
    LOCK(.name = "lock", .kind = "mutex", .address = &mutex, .state = "locked", .holders = "only", .waiters = "only");
    note_edge("only", "lock", "only");
    return 1;
}

/* A thread that has got its signal and wants the mutex back, in the very function that waits for signals. */
static pthread_cond_t relock_signal = PTHREAD_COND_INITIALIZER;
static pthread_mutex_t relock_mutex = PTHREAD_MUTEX_INITIALIZER;

static void *wait_for_relock_signal(void *argument) {
    (void)argument;
    pthread_mutex_lock(&relock_mutex);
    pthread_cond_wait(&relock_signal, &relock_mutex);
    return NULL;
}

static void *signal_and_keep(void *argument) {
    (void)argument;
    pthread_mutex_lock(&relock_mutex);
    pthread_cond_signal(&relock_signal);
    rest();
    return NULL;
}

static int scene_relock(void) {
    struct actor *waiter = start("waiter", wait_for_relock_signal, NULL);
    settle_on(waiter, &relock_signal, sizeof relock_signal);
    settle_at_rest(start("holder", signal_and_keep, NULL));
    settle_on(waiter, &relock_mutex, sizeof relock_mutex);
    LOCK(.name = "lock", .kind = "mutex", .address = &relock_mutex, .state = "locked", .holders = "holder",
         .waiters = "waiter");
    return 1;
}

/* -- pthread_rwlock_t -- */

static int take_write(void *lock) { return pthread_rwlock_wrlock(lock); }
static int take_read(void *lock) { return pthread_rwlock_rdlock(lock); }

static int take_write_timed(void *lock) {
    struct timespec end = some_day(CLOCK_REALTIME);
    return pthread_rwlock_timedwrlock(lock, &end);
}

static int take_read_clocked(void *lock) {
    struct timespec end = some_day(CLOCK_OF_CHOICE);
    return pthread_rwlock_clockrdlock(lock, CLOCK_OF_CHOICE, &end);
}

static void show_written(pthread_rwlock_t *lock, operation first, operation second) {
    struct side *sides = calloc(3, sizeof *sides);
    const struct {
        operation take;
        int shared, timed;
    } kinds[] = {{take_read, 1, 0}, {take_read_clocked, 1, 1}, {take_write, 0, 0}, {take_write_timed, 0, 1}};
    char waiters[32] = "", shared[32] = "", timed[32] = "";
    sides[0] = (struct side){take_write, lock, 0};
    start_holder("writer", hold, &sides[0]);
    for (int i = 0; i < 2; ++i) {
        operation take = i ? second : first;
        const char *role = i ? "second" : "first";
        if (!take)
            continue;
        sides[i + 1] = (struct side){take, lock, 0};
        start_waiter(role, &sides[i + 1], sizeof *lock);
        strcat(strcat(waiters, *waiters ? " " : ""), role);
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; ++k) {
            if (kinds[k].take == take && kinds[k].shared)
                strcat(strcat(shared, *shared ? " " : ""), role);
            if (kinds[k].take == take && kinds[k].timed)
                strcat(strcat(timed, *timed ? " " : ""), role);
        }
    }
    LOCK(.name = "lock", .kind = "rwlock", .address = lock, .state = "write-locked", .holders = "writer",
         .waiters = strdup(waiters), .shared = strdup(shared), .timed = strdup(timed));
}

#define SCENE_OF_WRITTEN(NAME, FIRST, SECOND)                                                                    \
    static int scene_##NAME(void) {                                                                              \
        static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;                                               \
        show_written(&lock, FIRST, SECOND);                                                                      \
        return 1;                                                                                                \
    }

SCENE_OF_WRITTEN(written_writer, take_write, NULL)
SCENE_OF_WRITTEN(written_reader, take_read, NULL)
SCENE_OF_WRITTEN(written_both, take_read, take_write)
SCENE_OF_WRITTEN(written_writers, take_write, take_write)
SCENE_OF_WRITTEN(written_timed, take_read_clocked, take_write_timed)

static int scene_written_pshared(void) {
    static pthread_rwlock_t lock;
    pthread_rwlockattr_t attributes;
    pthread_rwlockattr_init(&attributes);
    pthread_rwlockattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    insist(!pthread_rwlock_init(&lock, &attributes), "no rwlock");
    show_written(&lock, take_read, take_write);
    return 1;
}

static int scene_read_one(void) {
    static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
    static struct side reader = {take_read, &lock, 0}, writer = {take_write, &lock, 0};
    start_holder("reader", hold_to_read, &reader);
    start_waiter("writer", &writer, sizeof lock);
    LOCK(.name = "lock", .kind = "rwlock", .address = &lock, .state = "read-locked", .mode = "shared",
         .evidence = "derived", .holders = "reader", .waiters = "writer");
    return 1;
}

static int scene_read_two(void) {
    static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
    static struct side sides[] = {{take_read, &lock, 0}, {take_read, &lock, 0}, {take_write_timed, &lock, 0}};
    start_holder("first", hold_to_read, &sides[0]);
    start_holder("second", hold_to_read, &sides[1]);
    start_waiter("writer", &sides[2], sizeof lock);
    LOCK(.name = "lock", .kind = "rwlock", .address = &lock, .state = "read-locked", .mode = "shared",
         .evidence = "derived", .holders = "first second", .waiters = "writer", .timed = "writer");
    return 1;
}

/* The second writer waits for the first, which holds nothing yet: for the reader that both wait for. */
static int scene_read_two_writers(void) {
    static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
    static struct side reader = {take_read, &lock, 0}, writer = {take_write, &lock, 0};
    start_holder("reader", hold_to_read, &reader);
    start_waiter("first", &writer, sizeof lock);
    start_waiter("second", &writer, sizeof lock);
    LOCK(.name = "lock", .kind = "rwlock", .address = &lock, .state = "read-locked", .mode = "shared",
         .evidence = "derived", .holders = "reader", .waiters = "first second");
    return 1;
}

/* A reader must not overtake a writer that waits. From 2.25 on, before 2.30, it may spin where it should sleep. */
static int scene_read_nonrecursive(void) {
    if (!__GLIBC_PREREQ(2, 30))
        return 0;
    static pthread_rwlock_t lock = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
    static struct side reader = {take_read, &lock, 0}, writer = {take_write, &lock, 0}, late = {take_read, &lock, 0};
    start_holder("reader", hold_to_read, &reader);
    start_waiter("writer", &writer, sizeof lock);
    start_waiter("late", &late, sizeof lock);
    LOCK(.name = "lock", .kind = "rwlock", .address = &lock, .state = "read-locked", .mode = "shared",
         .evidence = "derived", .holders = "reader", .waiters = "writer late", .shared = "late");
    return 1;
}

/* One reader, and one more thread that looks like it. */
static int scene_read_ambiguous(void) {
    static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
    static struct side reader = {take_read, &lock, 0}, writer = {take_write, &lock, 0};
    start_holder("reader", hold_at_hand, &reader);
    settle_at_rest(start("innocent", have_at_hand, &lock));
    start_waiter("writer", &writer, sizeof lock);
    LOCK(.name = "lock", .kind = "rwlock", .address = &lock, .state = "read-locked", .mode = "shared",
         .really = "reader", .candidates = "reader innocent", .waiters = "writer");
    return 1;
}

static void *read_then_mutex(void *argument) {
    struct route *route = argument;
    pthread_rwlock_t *lock = route->near;
    pthread_rwlock_rdlock(lock);
    advance(route->holding);
    await(route->holding, 2);
    route->take_far(route->far);
    pthread_rwlock_unlock(lock);
    return NULL;
}

static int scene_read_abba(void) {
    static pthread_rwlock_t table = PTHREAD_RWLOCK_INITIALIZER;
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static int holding;
    static struct route routes[] = {{take_read, take_mutex, &table, &mutex, &holding},
                                    {take_mutex, take_write, &mutex, &table, &holding}};
    struct actor *reader = start("reader", read_then_mutex, &routes[0]);
    struct actor *writer = start("writer", take_both, &routes[1]);
    settle_on(reader, &mutex, sizeof mutex);
    settle_on(writer, &table, sizeof table);
    LOCK(.name = "table", .kind = "rwlock", .address = &table, .state = "read-locked", .mode = "shared",
         .evidence = "derived", .holders = "reader", .waiters = "writer");
    LOCK(.name = "mutex", .kind = "mutex", .address = &mutex, .state = "locked", .holders = "writer",
         .waiters = "reader");
    note_edge("reader", "mutex", "writer");
    note_edge("writer", "table", "reader");
    return 1;
}

static void *read_then_write(void *lock) {
    pthread_rwlock_rdlock(lock);
    pthread_rwlock_wrlock(lock);
    pthread_rwlock_unlock(lock);
    return NULL;
}

/* A reader that wants to write waits for itself. */
static int scene_upgrade(void) {
    static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
    settle_on(start("only", read_then_write, &lock), &lock, sizeof lock);
    LOCK(.name = "lock", .kind = "rwlock", .address = &lock, .state = "read-locked", .mode = "shared",
         .evidence = "derived", .holders = "only", .waiters = "only");
    note_edge("only", "lock", "only");
    return 1;
}

/* -- pthread_cond_t -- */

struct meeting {
    pthread_mutex_t mutex;
    pthread_cond_t signal;
};

static void *wait_for_signal(void *argument) {
    struct meeting *meeting = argument;
    pthread_mutex_lock(&meeting->mutex);
    for (;;)
        pthread_cond_wait(&meeting->signal, &meeting->mutex);
    return NULL;
}

static void *wait_for_signal_timed(void *argument) {
    struct meeting *meeting = argument;
    struct timespec end = some_day(CLOCK_REALTIME);
    pthread_mutex_lock(&meeting->mutex);
    pthread_cond_timedwait(&meeting->signal, &meeting->mutex, &end);
    return NULL;
}

static void *wait_for_signal_clocked(void *argument) {
    struct meeting *meeting = argument;
    struct timespec end = some_day(CLOCK_OF_CHOICE);
    pthread_mutex_lock(&meeting->mutex);
    pthread_cond_clockwait(&meeting->signal, &meeting->mutex, CLOCK_OF_CHOICE, &end);
    return NULL;
}

static struct actor *start_waiting(const char *role, void *(*run)(void *), struct meeting *meeting) {
    struct actor *actor = start(role, run, meeting);
    settle_on(actor, &meeting->signal, sizeof meeting->signal);
    return actor;
}

static int scene_cond(void) {
    static struct meeting meeting = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER};
    start_waiting("first", wait_for_signal, &meeting);
    start_waiting("second", wait_for_signal, &meeting);
    start_waiting("third", wait_for_signal, &meeting);
    LOCK(.name = "lock", .kind = "condvar", .address = &meeting.signal, .state = "waiting for a signal",
         .waiters = "first second third");
    return 1;
}

static int scene_cond_timed(void) {
    static struct meeting meeting = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER};
    start_waiting("realtime", wait_for_signal_timed, &meeting);
    start_waiting("monotonic", wait_for_signal_clocked, &meeting);
    start_waiting("endless", wait_for_signal, &meeting);
    LOCK(.name = "lock", .kind = "condvar", .address = &meeting.signal, .state = "waiting for a signal",
         .waiters = "realtime monotonic endless", .timed = "realtime monotonic");
    return 1;
}

/* Those that were there before a signal and those that came after it sleep on two words of one condition variable. */
static int scene_cond_groups(void) {
    if (!__GLIBC_PREREQ(2, 25))
        return 0;
    static struct meeting meeting = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER};
    struct actor *first = start_waiting("first", wait_for_signal, &meeting);
    struct actor *second = start_waiting("second", wait_for_signal, &meeting);
    pthread_mutex_lock(&meeting.mutex);
    pthread_cond_signal(&meeting.signal);
    pthread_mutex_unlock(&meeting.mutex);
    unsigned long one, other;
    do {
        sched_yield();
        one = word_of(first);
        other = word_of(second);
    } while (one == other || !lies_in(one, &meeting.signal, sizeof meeting.signal) ||
             !lies_in(other, &meeting.signal, sizeof meeting.signal));
    LOCK(.name = "lock", .kind = "condvar", .address = &meeting.signal, .state = "waiting for a signal",
         .waiters = "first second");
    return 1;
}

static void *just_rest(void *argument) {
    (void)argument;
    rest();
    return NULL;
}

/* -- C11 -- */

#if HAVE_C11_THREADS

static int take_mtx(void *lock) { return mtx_lock(lock); }

static int take_mtx_timed(void *lock) {
    struct timespec end = some_day(CLOCK_REALTIME);
    return mtx_timedlock(lock, &end);
}

static int scene_c11_mutex(void) {
    static mtx_t mutex;
    mtx_init(&mutex, mtx_plain);
    show_mutex(&mutex, take_mtx, take_mtx);
    return 1;
}

static int scene_c11_timed(void) {
    static mtx_t mutex;
    mtx_init(&mutex, mtx_timed | mtx_recursive);
    show_mutex(&mutex, take_mtx, take_mtx_timed);
    return 1;
}

static mtx_t c11_mutex;
static cnd_t c11_signal;

static void *wait_for_c11_signal(void *argument) {
    (void)argument;
    mtx_lock(&c11_mutex);
    for (;;)
        cnd_wait(&c11_signal, &c11_mutex);
    return NULL;
}

static int scene_c11_cond(void) {
    mtx_init(&c11_mutex, mtx_plain);
    cnd_init(&c11_signal);
    settle_on(start("first", wait_for_c11_signal, NULL), &c11_signal, sizeof c11_signal);
    settle_on(start("second", wait_for_c11_signal, NULL), &c11_signal, sizeof c11_signal);
    LOCK(.name = "lock", .kind = "condvar", .address = &c11_signal, .state = "waiting for a signal",
         .waiters = "first second");
    return 1;
}

static void *join_c11(void *argument) {
    struct actor *other = argument;
    thrd_join(other->thread, NULL);
    return NULL;
}

static int scene_c11_join(void) {
    struct actor *runner = start("runner", just_rest, NULL);
    settle_at_rest(runner);
    settle(start("joiner", join_c11, runner));
    LOCK(.name = "lock", .kind = "thread-exit", .address = (void *)runner->thread, .state = "running",
         .holders = "runner", .waiters = "joiner");
    return 1;
}
#else
static int scene_c11_mutex(void) { return 0; }
static int scene_c11_timed(void) { return 0; }
static int scene_c11_cond(void) { return 0; }
static int scene_c11_join(void) { return 0; }
#endif

/* -- sem_t -- */

static int take_semaphore(void *lock) { return sem_wait(lock); }

static int take_semaphore_timed(void *lock) {
    struct timespec end = some_day(CLOCK_REALTIME);
    return sem_timedwait(lock, &end);
}

static int take_semaphore_clocked(void *lock) {
    struct timespec end = some_day(CLOCK_OF_CHOICE);
    return sem_clockwait(lock, CLOCK_OF_CHOICE, &end);
}

/* It uses the semaphore as a lock, but another thread may release it. */
static void *hold_semaphore(void *argument) {
    struct side *side = argument;
    sem_t *lock = side->lock;
    sem_wait(lock);
    advance(&side->has);
    rest();
    sem_post(lock);
    return NULL;
}

/* It waits for an event, so it holds nothing. */
static void *receive_event(void *argument) {
    struct side *side = argument;
    sem_wait(side->lock);
    advance(&side->has);
    rest();
    return NULL;
}

static void show_semaphore(sem_t *lock, int shared, operation first, operation second, const char *timed) {
    struct side *sides = calloc(2, sizeof *sides);
    insist(!sem_init(lock, shared, 1), "no semaphore");
    sem_wait(lock);
    sides[0] = (struct side){first, lock, 0};
    sides[1] = (struct side){second, lock, 0};
    // its address on a stack means nothing: any thread may post
    settle_at_rest(start("innocent", have_at_hand, lock));
    start_waiter("first", &sides[0], sizeof *lock);
    start_waiter("second", &sides[1], sizeof *lock);
    LOCK(.name = "lock", .kind = "semaphore", .address = lock, .state = "zero", .waiters = "first second",
         .timed = timed);
}

static int scene_sem(void) {
    static sem_t lock;
    show_semaphore(&lock, 0, take_semaphore, take_semaphore, NULL);
    return 1;
}

static int scene_sem_lock(void) {
    static sem_t lock;
    static struct side sides[4];
    insist(!sem_init(&lock, 0, 2), "no semaphore");
    // the function is bound at its first call, and before that machine code does not show which one it is
    sem_post(&lock);
    for (int i = 0; i < 4; ++i)
        sides[i] = (struct side){take_semaphore, &lock, 0};
    start_holder("holder", hold_semaphore, &sides[0]);
    start_holder("another", hold_semaphore, &sides[1]);
    start_holder("receiver", receive_event, &sides[2]);
    settle_at_rest(start("innocent", have_at_hand, &lock));
    start_waiter("first", &sides[3], sizeof lock);
    LOCK(.name = "lock", .kind = "semaphore", .address = &lock, .state = "zero", .really = "holder another",
         .candidates = "holder another", .waiters = "first");
    return 1;
}

static int scene_sem_timed(void) {
    static sem_t lock;
    show_semaphore(&lock, 0, take_semaphore_timed, take_semaphore_clocked, "first second");
    return 1;
}

static int scene_sem_pshared(void) {
    static sem_t lock;
    show_semaphore(&lock, 1, take_semaphore, take_semaphore_timed, "second");
    return 1;
}

/* -- pthread_barrier_t -- */

static void *arrive(void *barrier) {
    pthread_barrier_wait(barrier);
    return NULL;
}

static void *arrive_twice(void *barrier) {
    pthread_barrier_wait(barrier);
    pthread_barrier_wait(barrier);
    return NULL;
}

static void *arrive_once_and_rest(void *barrier) {
    pthread_barrier_wait(barrier);
    rest_with(barrier);
    return NULL;
}

/* It is the second round, so that no count in the barrier is the number of those that wait. */
static int scene_barrier_one(void) {
    static pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, 3);
    struct actor *first = start("first", arrive_twice, &barrier), *second = start("second", arrive_twice, &barrier);
    settle_at_rest(start("missing", arrive_once_and_rest, &barrier));
    settle_on(first, &barrier, sizeof barrier);
    settle_on(second, &barrier, sizeof barrier);
    LOCK(.name = "lock", .kind = "barrier", .address = &barrier, .state = "2 of 3 arrived", .really = "missing",
         .candidates = "missing", .waiters = "first second");
    return 1;
}

static int scene_barrier_two(void) {
    static pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, 3);
    settle_on(start("first", arrive, &barrier), &barrier, sizeof barrier);
    settle_at_rest(start("missing", have_at_hand, &barrier));
    settle_at_rest(start("late", have_at_hand, &barrier));
    LOCK(.name = "lock", .kind = "barrier", .address = &barrier, .state = "1 of 3 arrived",
         .really = "missing late", .candidates = "missing late", .waiters = "first");
    return 1;
}

/* One is missing, and there are two that it could be. */
static int scene_barrier_ambiguous(void) {
    static pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, 2);
    settle_on(start("first", arrive, &barrier), &barrier, sizeof barrier);
    settle_at_rest(start("missing", have_at_hand, &barrier));
    settle_at_rest(start("innocent", have_at_hand, &barrier));
    LOCK(.name = "lock", .kind = "barrier", .address = &barrier, .state = "1 of 2 arrived", .really = "missing",
         .candidates = "missing innocent", .waiters = "first");
    return 1;
}

struct phase {
    pthread_barrier_t barrier;
    pthread_mutex_t mutex;
    int held;
};

static void *arrive_with_mutex(void *argument) {
    struct phase *phase = argument;
    pthread_mutex_lock(&phase->mutex);
    advance(&phase->held);
    pthread_barrier_wait(&phase->barrier);
    pthread_mutex_unlock(&phase->mutex);
    return NULL;
}

static NOINLINE void work_and_arrive(pthread_mutex_t *mutex, pthread_barrier_t *barrier) {
    pthread_barrier_t *volatile kept = barrier;
    pthread_mutex_lock(mutex);
    pthread_mutex_unlock(mutex);
    pthread_barrier_wait(kept);
}

static void *arrive_after_work(void *argument) {
    struct phase *phase = argument;
    work_and_arrive(&phase->mutex, &phase->barrier);
    return NULL;
}

/* One waits at the barrier with a mutex that the others want before they come. */
/* The missing thread has the address on its stack; but among all threads of the other scenes it may be another one. */
static int scene_barrier_deadlock(void) {
    static struct phase phase = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    pthread_barrier_init(&phase.barrier, NULL, 3);
    settle_on(start("early", arrive_with_mutex, &phase), &phase.barrier, sizeof phase.barrier);
    settle_on(start("first", arrive_after_work, &phase), &phase.mutex, sizeof phase.mutex);
    settle_on(start("second", arrive_after_work, &phase), &phase.mutex, sizeof phase.mutex);
    LOCK(.name = "barrier", .kind = "barrier", .address = &phase.barrier, .state = "1 of 3 arrived",
         .really = "first second", .candidates = "first second", .waiters = "early");
    LOCK(.name = "mutex", .kind = "mutex", .address = &phase.mutex, .state = "locked", .holders = "early",
         .waiters = "first second");
    return 1;
}

/* -- pthread_once_t -- */

static pthread_once_t slow_once = PTHREAD_ONCE_INIT, guarded_once = PTHREAD_ONCE_INIT, own_once = PTHREAD_ONCE_INIT;
static pthread_mutex_t once_mutex = PTHREAD_MUTEX_INITIALIZER;
static int once_initialising, once_mutex_held;

static void *run_slow_once(void *argument) {
    (void)argument;
    pthread_once(&slow_once, rest);
    return NULL;
}

static int scene_once(void) {
    settle_at_rest(start("initialiser", run_slow_once, NULL));
    settle_on(start("first", run_slow_once, NULL), &slow_once, sizeof slow_once);
    settle_on(start("second", run_slow_once, NULL), &slow_once, sizeof slow_once);
    LOCK(.name = "lock", .kind = "once", .address = &slow_once, .state = "in progress", .evidence = "derived",
         .holders = "initialiser", .waiters = "first second");
    return 1;
}

static void initialise_with_mutex(void) {
    advance(&once_initialising);
    pthread_mutex_lock(&once_mutex);
    pthread_mutex_unlock(&once_mutex);
}

static void *run_guarded_once(void *argument) {
    (void)argument;
    await(&once_mutex_held, 1);
    pthread_once(&guarded_once, initialise_with_mutex);
    return NULL;
}

static void *need_once_with_mutex(void *argument) {
    (void)argument;
    pthread_mutex_lock(&once_mutex);
    advance(&once_mutex_held);
    await(&once_initialising, 1);
    pthread_once(&guarded_once, initialise_with_mutex);
    return NULL;
}

static int scene_once_deadlock(void) {
    struct actor *initialiser = start("initialiser", run_guarded_once, NULL);
    settle_on(start("user", need_once_with_mutex, NULL), &guarded_once, sizeof guarded_once);
    settle_on(initialiser, &once_mutex, sizeof once_mutex);
    LOCK(.name = "once", .kind = "once", .address = &guarded_once, .state = "in progress", .evidence = "derived",
         .holders = "initialiser", .waiters = "user");
    LOCK(.name = "mutex", .kind = "mutex", .address = &once_mutex, .state = "locked", .holders = "user",
         .waiters = "initialiser");
    note_edge("initialiser", "mutex", "user");
    note_edge("user", "once", "initialiser");
    return 1;
}

static void initialise_itself(void) {
    pthread_once(&own_once, initialise_itself);
}

static void *run_own_once(void *argument) {
    (void)argument;
    pthread_once(&own_once, initialise_itself);
    return NULL;
}

static int scene_once_self(void) {
    settle_on(start("only", run_own_once, NULL), &own_once, sizeof own_once);
    LOCK(.name = "lock", .kind = "once", .address = &own_once, .state = "in progress", .evidence = "inferred",
         .holders = "only", .waiters = "only");
    note_edge("only", "lock", "only");
    return 1;
}

/* -- pthread_join -- */

static void *join(void *argument) {
    struct actor *other = argument;
    pthread_join(other->thread, NULL);
    return NULL;
}

static void *join_timed(void *argument) {
    struct actor *other = argument;
    struct timespec end = some_day(CLOCK_REALTIME);
    pthread_timedjoin_np(other->thread, NULL, &end);
    return NULL;
}

static int scene_join_chain(void) {
    struct actor *last = start("last", just_rest, NULL);
    settle_at_rest(last);
    struct actor *middle = start("middle", join, last);
    settle(middle);
    settle(start("first", join, middle));
    LOCK(.name = "last", .kind = "thread-exit", .address = (void *)last->thread, .state = "running",
         .holders = "last", .waiters = "middle");
    LOCK(.name = "middle", .kind = "thread-exit", .address = (void *)middle->thread, .state = "running",
         .holders = "middle", .waiters = "first");
    return 1;
}

static int scene_join_timed(void) {
    struct actor *runner = start("runner", just_rest, NULL);
    settle_at_rest(runner);
    settle(start("joiner", join_timed, runner));
    LOCK(.name = "lock", .kind = "thread-exit", .address = (void *)runner->thread, .state = "running",
         .holders = "runner", .waiters = "joiner", .timed = "joiner");
    return 1;
}

static struct actor *ring[3];
static int ring_closed;

static void *join_next(void *argument) {
    await(&ring_closed, 1);
    pthread_join((*(struct actor **)argument)->thread, NULL);
    return NULL;
}

/* pthread_join refuses a cycle of two joins, but not one of three. */
static int scene_join_cycle(void) {
    const char *const roles[] = {"first", "second", "third"};
    for (int i = 0; i < 3; ++i)
        ring[i] = start(roles[i], join_next, &ring[(i + 1) % 3]);
    advance(&ring_closed);
    for (int i = 0; i < 3; ++i) {
        settle(ring[i]);
        LOCK(.name = roles[i], .kind = "thread-exit", .address = (void *)ring[i]->thread, .state = "running",
             .holders = roles[i], .waiters = roles[(i + 2) % 3]);
        note_edge(roles[i], roles[(i + 1) % 3], roles[(i + 1) % 3]);
    }
    return 1;
}

static pthread_mutex_t join_mutex = PTHREAD_MUTEX_INITIALIZER;
static int join_mutex_held;

static void *need_join_mutex(void *argument) {
    (void)argument;
    await(&join_mutex_held, 1);
    pthread_mutex_lock(&join_mutex);
    return NULL;
}

static void *join_with_mutex(void *argument) {
    struct actor *other = argument;
    pthread_mutex_lock(&join_mutex);
    advance(&join_mutex_held);
    pthread_join(other->thread, NULL);
    return NULL;
}

static int scene_join_mutex(void) {
    struct actor *worker = start("worker", need_join_mutex, NULL);
    settle(start("owner", join_with_mutex, worker));
    settle_on(worker, &join_mutex, sizeof join_mutex);
    LOCK(.name = "worker", .kind = "thread-exit", .address = (void *)worker->thread, .state = "running",
         .holders = "worker", .waiters = "owner");
    LOCK(.name = "mutex", .kind = "mutex", .address = &join_mutex, .state = "locked", .holders = "owner",
         .waiters = "worker");
    note_edge("owner", "worker", "worker");
    note_edge("worker", "mutex", "owner");
    return 1;
}

/* -- FILE -- */

static int take_file(void *file) {
    flockfile(file);
    return 0;
}

static int put_line(void *file) { return fputs("line\n", file); }
static int get_character(void *file) { return fgetc(file); }

static FILE *open_nothing(void) {
    FILE *file = fopen("/dev/null", "w");
    insist(file != NULL, "no /dev/null");
    return file;
}

static int scene_stdio(void) {
    static struct side holder = {take_file, NULL, 0}, waiter = {put_line, NULL, 0};
    FILE *file = open_nothing();
    holder.lock = waiter.lock = file;
    start_holder("holder", hold, &holder);
    settle_on(start("first", want, &waiter), file->_lock, 4);
    settle_on(start("second", want, &waiter), file->_lock, 4);
    LOCK(.name = "lock", .kind = "stdio", .address = file->_lock, .state = "locked", .holders = "holder",
         .waiters = "first second");
    return 1;
}

/* Who reads from a FILE keeps it locked until there is something to read. */
static int scene_stdio_read(void) {
    static struct side reader = {get_character, NULL, 0};
    FILE *file = fdopen(never_written[0], "r");
    reader.lock = file;
    settle_at_rest(start("reader", want, &reader));
    settle_on(start("waiter", want, &reader), file->_lock, 4);
    LOCK(.name = "lock", .kind = "stdio", .address = file->_lock, .state = "locked", .holders = "reader",
         .waiters = "waiter");
    return 1;
}

static int scene_stdio_abba(void) {
    static int holding;
    static struct route routes[2];
    FILE *one = open_nothing(), *other = open_nothing();
    routes[0] = (struct route){take_file, put_line, one, other, &holding};
    routes[1] = (struct route){take_file, put_line, other, one, &holding};
    struct actor *first = start("first", take_both, &routes[0]), *second = start("second", take_both, &routes[1]);
    settle_on(first, other->_lock, 4);
    settle_on(second, one->_lock, 4);
    LOCK(.name = "one", .kind = "stdio", .address = one->_lock, .state = "locked", .holders = "first",
         .waiters = "second");
    LOCK(.name = "other", .kind = "stdio", .address = other->_lock, .state = "locked", .holders = "second",
         .waiters = "first");
    note_edge("first", "other", "second");
    note_edge("second", "one", "first");
    return 1;
}

/* -- a lock of the program's own, of a futex word -- */

static int take_word(void *argument) {
    atomic_int *word = argument;
    int was = 0;
    if (atomic_compare_exchange_strong(word, &was, 1))
        return 0;
    while (atomic_exchange(word, 2))
        syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
    return 0;
}

static void show_word(atomic_int *word) {
    struct side *holder = calloc(1, sizeof *holder), *waiter = calloc(1, sizeof *waiter);
    *holder = (struct side){take_word, word, 0};
    *waiter = (struct side){take_word, word, 0};
    start_holder("holder", hold_at_hand, holder);
    start_waiter("first", waiter, sizeof *word);
    start_waiter("second", waiter, sizeof *word);
    LOCK(.name = "lock", .kind = "futex", .address = word, .state = "waited for", .really = "holder",
         .candidates = "holder", .waiters = "first second");
}

static int scene_futex(void) {
    static atomic_int word;
    show_word(&word);
    return 1;
}

/* The words after it are what they would be in a mutex that somebody else owns. */
static int scene_futex_disguised(void) {
    static struct {
        atomic_int word;
        int count, owner, users, kind, rest[5];
    } disguise;
    struct actor *innocent = start("innocent", just_rest, NULL);
    settle_at_rest(innocent);
    disguise.owner = (int)innocent->tid;
    disguise.users = 1;
    show_word(&disguise.word);
    return 1;
}

static void *take_both_words(void *argument) {
    struct route *route = argument;
    void *volatile kept = route->near;
    take_both(route);
    (void)kept;
    return NULL;
}

/* A real deadlock, but nothing shows that these words are locks, and which threads hold them. */
static int scene_futex_abba(void) {
    static atomic_int one, other;
    static int holding;
    static struct route routes[] = {{take_word, take_word, &one, &other, &holding},
                                    {take_word, take_word, &other, &one, &holding}};
    struct actor *first = start("first", take_both_words, &routes[0]);
    struct actor *second = start("second", take_both_words, &routes[1]);
    settle_on(first, &other, sizeof other);
    settle_on(second, &one, sizeof one);
    LOCK(.name = "one", .kind = "futex", .address = &one, .state = "waited for", .really = "first",
         .candidates = "first", .waiters = "second");
    LOCK(.name = "other", .kind = "futex", .address = &other, .state = "waited for", .really = "second",
         .candidates = "second", .waiters = "first");
    return 1;
}

/* -- pthread_spinlock_t -- */

static int take_spin_lock(void *lock) { return pthread_spin_lock(lock); }

static void *want_loudly(void *argument) {
    struct side *side = argument;
    advance(&side->has);
    side->take(side->lock);
    return NULL;
}

/* Nothing records this holder: its code proves that it has the lock. */
static void *hold_to_spin(void *argument) {
    struct side *side = argument;
    pthread_spinlock_t *lock = side->lock;
    if (pthread_spin_trylock(lock))
        return NULL;
    advance(&side->has);
    rest();
    pthread_spin_unlock(lock);
    return NULL;
}

static int scene_spin(void) {
    static pthread_spinlock_t lock;
    static struct side holder = {take_spin_lock, (void *)&lock, 0}, spinner = {take_spin_lock, (void *)&lock, 0};
    pthread_spin_init(&lock, PTHREAD_PROCESS_PRIVATE);
    start_holder("holder", hold_to_spin, &holder);
    start("spinner", want_loudly, &spinner);
    await(&spinner.has, 1);
    LOCK(.name = "lock", .kind = "spin-lock", .address = (void *)&lock, .state = "locked", .evidence = "derived",
         .holders = "holder", .waiters = "spinner");
    return 1;
}

/* -- the dynamic linker -- */

static pthread_mutex_t loading_mutex = PTHREAD_MUTEX_INITIALIZER, walking_mutex = PTHREAD_MUTEX_INITIALIZER;
static int loading_mutex_held, loading, walking_mutex_held, walking;

/* Called by the plugin's constructor. */
__attribute__((visibility("default"))) void plugin_loads(void) {
    advance(&loading);
    pthread_mutex_lock(&loading_mutex);
    pthread_mutex_unlock(&loading_mutex);
}

static void *load_plugin(void *argument) {
    (void)argument;
    await(&loading_mutex_held, 1);
    insist(dlopen(plugin, RTLD_NOW) != NULL, "the plugin cannot be loaded");
    return NULL;
}

static void *look_up_with_mutex(void *argument) {
    (void)argument;
    pthread_mutex_lock(&loading_mutex);
    advance(&loading_mutex_held);
    await(&loading, 1);
    dlsym(RTLD_DEFAULT, "defined_nowhere");
    return NULL;
}

static void *load_something(void *argument) {
    (void)argument;
    dlopen("libm.so.6", RTLD_NOW);
    return NULL;
}

static int scene_dlopen(void) {
    insist(plugin != NULL, "needs the plugin");
    struct actor *loader = start("loader", load_plugin, NULL);
    struct actor *user = start("user", look_up_with_mutex, NULL);
    settle_on(loader, &loading_mutex, sizeof loading_mutex);
    const void *word = settle(user);
    settle_on(start("bystander", load_something, NULL), word, 4);
    LOCK(.name = "loads", .kind = "dynamic-linker", .address = word, .state = "locked", .holders = "loader",
         .waiters = "user bystander");
    LOCK(.name = "mutex", .kind = "mutex", .address = &loading_mutex, .state = "locked", .holders = "user",
         .waiters = "loader");
    note_edge("loader", "mutex", "user");
    note_edge("user", "loads", "loader");
    note_behind("bystander");
    return 1;
}

static int look_at_object(struct dl_phdr_info *info, size_t size, void *data) {
    (void)info, (void)size, (void)data;
    advance(&walking);
    pthread_mutex_lock(&walking_mutex);
    pthread_mutex_unlock(&walking_mutex);
    return 1;
}

static void *walk(void *argument) {
    (void)argument;
    await(&walking_mutex_held, 1);
    dl_iterate_phdr(look_at_object, NULL);
    return NULL;
}

static void *walk_with_mutex(void *argument) {
    (void)argument;
    pthread_mutex_lock(&walking_mutex);
    advance(&walking_mutex_held);
    await(&walking, 1);
    dl_iterate_phdr(look_at_object, NULL);
    return NULL;
}

static int scene_phdr(void) {
    struct actor *walker = start("walker", walk, NULL);
    const void *word = settle(start("user", walk_with_mutex, NULL));
    settle_on(walker, &walking_mutex, sizeof walking_mutex);
    LOCK(.name = "objects", .kind = "dynamic-linker", .address = word, .state = "locked", .holders = "walker",
         .waiters = "user");
    LOCK(.name = "mutex", .kind = "mutex", .address = &walking_mutex, .state = "locked", .holders = "user",
         .waiters = "walker");
    note_edge("walker", "mutex", "user");
    note_edge("user", "objects", "walker");
    return 1;
}

/* -- malloc -- */

/* too large for the thread cache, small enough for an arena */
enum { ALLOCATION = 5000 };
static volatile sig_atomic_t signals_handled;

static void allocate_and_free(void) {
    void *volatile block = malloc(ALLOCATION);
    free(block);
}

static void allocate_in_handler(int number) {
    (void)number;
    allocate_and_free();
    ++signals_handled;
}

static void *allocate_for_ever(void *argument) {
    (void)argument;
    for (;;)
        allocate_and_free();
    return NULL;
}

/* Signals a thread that allocates until one comes while it has the arena locked. */
static const void *lock_arena(struct actor *allocator) {
    struct sigaction action = {.sa_handler = allocate_in_handler};
    int handled = -1;
    sigaction(SIGUSR1, &action, NULL);
    while (!word_of(allocator)) {
        if (signals_handled != handled) {
            handled = signals_handled;
            pthread_kill(allocator->thread, SIGUSR1);
        }
        sched_yield();
    }
    return settle(allocator);
}

static int arena_chosen, arena_locked;

static void *allocate_late(void *argument) {
    (void)argument;
    // a thread's first allocation looks for an arena that is not locked
    allocate_and_free();
    advance(&arena_chosen);
    await(&arena_locked, 1);
    return malloc(ALLOCATION);
}

/* After this nobody can allocate any more, so that no scene can come after it. */
static int scene_arena(void) {
    struct actor *late = start("late", allocate_late, NULL);
    await(&arena_chosen, 1);
    const void *word = lock_arena(start("allocator", allocate_for_ever, NULL));
    advance(&arena_locked);
    settle_on(late, word, 4);
    LOCK(.name = "lock", .kind = "malloc-arena", .address = word, .state = "locked", .evidence = "inferred",
         .holders = "allocator", .waiters = "allocator late");
    note_edge("allocator", "lock", "allocator");
    note_behind("late");
    return 1;
}

/* The same in an arena of the thread's own; no other thread may have allocated before. */
static int scene_arena_heap(void) {
    mallopt(M_ARENA_MAX, 2);
    const void *word = lock_arena(start("allocator", allocate_for_ever, NULL));
    LOCK(.name = "lock", .kind = "malloc-arena", .address = word, .state = "locked", .evidence = "inferred",
         .holders = "allocator", .waiters = "allocator");
    note_edge("allocator", "lock", "allocator");
    return 1;
}

/* -- exit -- */

static pthread_mutex_t exit_mutex = PTHREAD_MUTEX_INITIALIZER;
static int exit_mutex_held, exiting;

static void need_exit_mutex(void) {
    advance(&exiting);
    pthread_mutex_lock(&exit_mutex);
    pthread_mutex_unlock(&exit_mutex);
}

static void *end_program(void *argument) {
    (void)argument;
    await(&exit_mutex_held, 1);
    exit(0);
}

static void *end_program_with_mutex(void *argument) {
    (void)argument;
    pthread_mutex_lock(&exit_mutex);
    advance(&exit_mutex_held);
    await(&exiting, 1);
    exit(0);
}

/* Before glibc 2.41 the second call of exit ends the program. */
static int scene_exit(void) {
    char *minor;
    long major = strtol(gnu_get_libc_version(), &minor, 10);
    if (major == 2 && strtol(minor + 1, NULL, 10) < 41)
        return 0;
    atexit(need_exit_mutex);
    struct actor *first = start("first", end_program, NULL);
    const void *word = settle(start("second", end_program_with_mutex, NULL));
    settle_on(first, &exit_mutex, sizeof exit_mutex);
    LOCK(.name = "exit", .kind = "mutex", .address = word, .state = "locked", .holders = "first",
         .waiters = "second");
    LOCK(.name = "mutex", .kind = "mutex", .address = &exit_mutex, .state = "locked", .holders = "second",
         .waiters = "first");
    note_edge("first", "mutex", "second");
    note_edge("second", "exit", "first");
    return 1;
}

#define SCENE(NAME, FUNCTION) {NAME, scene_##FUNCTION}

static const struct scene scenes[] = {
    SCENE("normal", normal), SCENE("recursive", recursive), SCENE("errorcheck", errorcheck),
    SCENE("adaptive", adaptive), SCENE("robust", robust), SCENE("robust-recursive", robust_recursive),
    SCENE("pi", pi), SCENE("pi-robust", pi_robust), SCENE("pp", pp), SCENE("pshared", pshared),
    SCENE("timed", timed), SCENE("clocked", clocked), SCENE("abba-timed", abba_timed), SCENE("self", self),
    SCENE("relock", relock), SCENE("c11-mutex", c11_mutex), SCENE("c11-timed", c11_timed),
    SCENE("written-writer", written_writer), SCENE("written-reader", written_reader),
    SCENE("written-both", written_both), SCENE("written-writers", written_writers),
    SCENE("written-timed", written_timed), SCENE("written-pshared", written_pshared), SCENE("read-one", read_one),
    SCENE("read-two", read_two), SCENE("read-two-writers", read_two_writers),
    SCENE("read-nonrecursive", read_nonrecursive), SCENE("read-ambiguous", read_ambiguous),
    SCENE("read-abba", read_abba), SCENE("upgrade", upgrade), SCENE("cond", cond), SCENE("cond-timed", cond_timed),
    SCENE("cond-groups", cond_groups), SCENE("c11-cond", c11_cond), SCENE("c11-join", c11_join), SCENE("sem", sem),
    SCENE("sem-lock", sem_lock), SCENE("sem-timed", sem_timed), SCENE("sem-pshared", sem_pshared), SCENE("barrier-one", barrier_one),
    SCENE("barrier-two", barrier_two), SCENE("barrier-ambiguous", barrier_ambiguous),
    SCENE("barrier-deadlock", barrier_deadlock), SCENE("once", once), SCENE("once-deadlock", once_deadlock),
    SCENE("once-self", once_self), SCENE("join-chain", join_chain), SCENE("join-timed", join_timed),
    SCENE("join-cycle", join_cycle), SCENE("join-mutex", join_mutex), SCENE("stdio", stdio),
    SCENE("stdio-read", stdio_read), SCENE("stdio-abba", stdio_abba), SCENE("futex", futex),
    SCENE("futex-disguised", futex_disguised), SCENE("futex-abba", futex_abba), SCENE("spin", spin),
    SCENE("dlopen", dlopen), SCENE("phdr", phdr), SCENE("arena", arena), SCENE("arena-heap", arena_heap),
    SCENE("exit", exit),
};

int main(int argc, char **argv) {
    int first = 1;
    // all threads share one arena, unless a scene says otherwise before the first of them allocates
    mallopt(M_ARENA_MAX, 1);
    if (argc > 1 && strchr(argv[1], '/'))
        plugin = argv[first++];
    return play("locks", scenes, sizeof scenes / sizeof *scenes, argv + first);
}
#endif
