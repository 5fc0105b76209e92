/* A device driver library that deadlocks with Python, after the published RAPIDS and CUDA case.
 *
 * One lock on the heap guards the driver's table of allocations. A dispatching thread calls back into the program while
 * it holds that lock; the program's allocating thread wants the same lock while it holds the GIL.
 *
 * The order in which threads get there is settled with a condition variable, so a program reaches its hang every time.
 * Only drv_* is exported and the library is stripped: the debugger sees no more of it than of a vendor's driver.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define NOINLINE __attribute__((noinline))

enum lock_kind { LOCK_RWLOCK, LOCK_MUTEX };

/* What C++ calls a scoped lock: it is on the stack as long as the lock is held and contains the lock's address. */
struct guard {
    void *volatile lock;
};

typedef int (*drv_callback)(int event);

static enum lock_kind kind;
static void *table_lock;
static size_t table_bytes;

/* How far each thread has come. Every thread releases this mutex at once. */
static pthread_mutex_t progress_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t progress_changed = PTHREAD_COND_INITIALIZER;
static int holders, wanting, watching;

static void advance(int *stage) {
    pthread_mutex_lock(&progress_mutex);
    ++*stage;
    pthread_cond_broadcast(&progress_changed);
    pthread_mutex_unlock(&progress_mutex);
}

static void await(int *stage, int count) {
    pthread_mutex_lock(&progress_mutex);
    while (*stage < count)
        pthread_cond_wait(&progress_changed, &progress_mutex);
    pthread_mutex_unlock(&progress_mutex);
}

static NOINLINE void guard_take(struct guard *guard, int shared) {
    guard->lock = table_lock;
    if (kind == LOCK_MUTEX)
        pthread_mutex_lock(guard->lock);
    else if (shared)
        pthread_rwlock_rdlock(guard->lock);
    else
        pthread_rwlock_wrlock(guard->lock);
}

static NOINLINE void guard_release(struct guard *guard) {
    if (kind == LOCK_MUTEX)
        pthread_mutex_unlock(guard->lock);
    else
        pthread_rwlock_unlock(guard->lock);
    guard->lock = NULL;
}

/* 0: a read-write lock, 1: a mutex. Call it once, before any other function. */
EXPORT int drv_open(int lock) {
    kind = lock ? LOCK_MUTEX : LOCK_RWLOCK;
    if (kind == LOCK_MUTEX) {
        table_lock = malloc(sizeof(pthread_mutex_t));
        return table_lock ? pthread_mutex_init(table_lock, NULL) : -1;
    }
    table_lock = malloc(sizeof(pthread_rwlock_t));
    return table_lock ? pthread_rwlock_init(table_lock, NULL) : -1;
}

EXPORT void *drv_lock_address(void) {
    return table_lock;
}

EXPORT long drv_thread_id(void) {
    return syscall(SYS_gettid);
}

static NOINLINE int run_callbacks(drv_callback callback) {
    int handled = 0;
    for (int event = 0; event < 3; ++event)
        handled += callback(event);
    return handled;
}

/* Take the lock, wait until somebody wants to allocate, then call back with the lock held. */
EXPORT int drv_dispatch(drv_callback callback, int shared) {
    struct guard guard;
    guard_take(&guard, shared);
    advance(&holders);
    await(&wanting, 1);
    int handled = run_callbacks(callback);
    guard_release(&guard);
    return handled;
}

/* Write to the table: needs the lock for itself alone. */
EXPORT long drv_alloc(long bytes) {
    struct guard guard;
    advance(&wanting);
    guard_take(&guard, 0);
    table_bytes += (size_t)bytes;
    long total = (long)table_bytes;
    guard_release(&guard);
    return total;
}

/* Hold the lock for reading until a byte arrives on the descriptor. */
EXPORT int drv_stream(int fd) {
    struct guard guard;
    char byte;
    guard_take(&guard, 1);
    advance(&holders);
    ssize_t got = read(fd, &byte, 1);
    guard_release(&guard);
    return (int)got;
}

/* Know the lock's address for as long as no byte arrives, and never take the lock. */
EXPORT int drv_watch(int fd) {
    struct guard seen = {table_lock};
    char byte;
    advance(&watching);
    ssize_t got = read(fd, &byte, 1);
    return seen.lock == table_lock ? (int)got : -1;
}

EXPORT void drv_await_holders(int count) {
    await(&holders, count);
}

EXPORT void drv_await_wanting(int count) {
    await(&wanting, count);
}

EXPORT void drv_await_watching(int count) {
    await(&watching, count);
}
