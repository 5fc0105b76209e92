/* A program full of locks and waiting in which nothing is deadlocked, so a debugger must not find a deadlock. No Python.
 *
 * Each load is a few threads that get on only with one another. It counts its rounds in the file `progress` in the
 * program's directory, one 64-bit number for each load, so that others can see that it runs. A byte on standard input
 * ends the loads; the program then prints a second JSON line and exits with status 0.
 */
#define _GNU_SOURCE
#include "sample.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

enum { MILLISECOND = 1000000, PAIRS = 4 };

static atomic_int ending;
static _Atomic uint64_t *progress;

static void nap(long nanoseconds) {
    struct timespec time = {0, nanoseconds};
    nanosleep(&time, NULL);
}

static struct timespec soon(void) {
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    time.tv_nsec += 3 * MILLISECOND;
    if (time.tv_nsec >= 1000 * MILLISECOND) {
        time.tv_nsec -= 1000 * MILLISECOND;
        ++time.tv_sec;
    }
    return time;
}

/* -- workers that wait for jobs -- */

static pthread_mutex_t jobs_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t jobs_changed = PTHREAD_COND_INITIALIZER;
static int jobs;

static void work(int load) {
    pthread_mutex_lock(&jobs_mutex);
    while (!jobs && !ending)
        pthread_cond_wait(&jobs_changed, &jobs_mutex);
    if (jobs) {
        --jobs;
        ++progress[load];
    }
    pthread_mutex_unlock(&jobs_mutex);
}

static void give_work(int load) {
    (void)load;
    pthread_mutex_lock(&jobs_mutex);
    jobs += 2;
    pthread_cond_broadcast(&jobs_changed);
    nap(MILLISECOND);
    pthread_mutex_unlock(&jobs_mutex);
    nap(3 * MILLISECOND);
}

/* -- many threads that all want the same two mutexes, in the same order -- */

static pthread_mutex_t stock_mutex = PTHREAD_MUTEX_INITIALIZER, order_mutex = PTHREAD_MUTEX_INITIALIZER;

static void queue_up(int load) {
    pthread_mutex_lock(&stock_mutex);
    pthread_mutex_lock(&order_mutex);
    nap(MILLISECOND);
    pthread_mutex_unlock(&stock_mutex);
    ++progress[load];
    nap(MILLISECOND);
    pthread_mutex_unlock(&order_mutex);
}

/* -- writers that wait for slow readers -- */

static pthread_rwlock_t table_lock = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;

static void read_table(int load) {
    (void)load;
    pthread_rwlock_rdlock(&table_lock);
    nap(5 * MILLISECOND);
    pthread_rwlock_unlock(&table_lock);
}

static void write_table(int load) {
    pthread_rwlock_wrlock(&table_lock);
    ++progress[load];
    nap(MILLISECOND);
    pthread_rwlock_unlock(&table_lock);
}

/* -- two that want what the other has, and give up in time -- */

static pthread_mutex_t left_mutex = PTHREAD_MUTEX_INITIALIZER, right_mutex = PTHREAD_MUTEX_INITIALIZER;

static void reach_across(int load, pthread_mutex_t *near, pthread_mutex_t *far) {
    struct timespec end = soon();
    pthread_mutex_lock(near);
    nap(MILLISECOND);
    if (!pthread_mutex_timedlock(far, &end))
        pthread_mutex_unlock(far);
    pthread_mutex_unlock(near);
    ++progress[load];
}

static void reach_right(int load) { reach_across(load, &left_mutex, &right_mutex); }
static void reach_left(int load) { reach_across(load, &right_mutex, &left_mutex); }

/* -- phases; what one has over the barrier, the others want after it -- */

static pthread_barrier_t phase_barrier;
static pthread_mutex_t phase_mutex = PTHREAD_MUTEX_INITIALIZER;

static int last_phase(void) {
    static atomic_int ends;
    // all must see the same answer in the same phase
    if (pthread_barrier_wait(&phase_barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
        ends = ending;
    pthread_barrier_wait(&phase_barrier);
    return ends;
}

static void lead_phases(int load) {
    do {
        pthread_mutex_lock(&phase_mutex);
        pthread_barrier_wait(&phase_barrier);
        nap(MILLISECOND);
        pthread_mutex_unlock(&phase_mutex);
        ++progress[load];
    } while (!last_phase());
}

static void follow_phases(int load) {
    (void)load;
    do {
        pthread_barrier_wait(&phase_barrier);
        pthread_mutex_lock(&phase_mutex);
        pthread_mutex_unlock(&phase_mutex);
    } while (!last_phase());
}

/* -- a buffer between two -- */

static sem_t full_slots, free_slots;

static void fill(int load) {
    (void)load;
    struct timespec end = soon();
    if (!sem_timedwait(&free_slots, &end)) {
        nap(MILLISECOND);
        sem_post(&full_slots);
    }
}

static void drain(int load) {
    struct timespec end = soon();
    if (!sem_timedwait(&full_slots, &end)) {
        ++progress[load];
        sem_post(&free_slots);
    }
}

/* -- spin locks -- */

static pthread_spinlock_t counter_lock;

static void spin(int load) {
    pthread_spin_lock(&counter_lock);
    ++progress[load];
    for (volatile int i = 0; i < 20000; ++i)
        ;
    pthread_spin_unlock(&counter_lock);
    nap(MILLISECOND);
}

/* -- mutexes of other types, taken again by those that may -- */

static pthread_mutex_t recursive_mutex, inheriting_mutex, robust_mutex;

static void nest(int load) {
    pthread_mutex_lock(&recursive_mutex);
    pthread_mutex_lock(&recursive_mutex);
    pthread_mutex_lock(&inheriting_mutex);
    pthread_mutex_lock(&robust_mutex);
    nap(MILLISECOND);
    pthread_mutex_unlock(&robust_mutex);
    pthread_mutex_unlock(&inheriting_mutex);
    pthread_mutex_unlock(&recursive_mutex);
    pthread_mutex_unlock(&recursive_mutex);
    ++progress[load];
}

/* -- threads that come and go, with locks -- */

static pthread_mutex_t visitors_mutex = PTHREAD_MUTEX_INITIALIZER;

static void *visit(void *argument) {
    (void)argument;
    pthread_mutex_lock(&visitors_mutex);
    nap(MILLISECOND);
    pthread_mutex_unlock(&visitors_mutex);
    return NULL;
}

static void receive_visitors(int load) {
    pthread_t visitors[3];
    int came = 0;
    while (came < 3 && !pthread_create(&visitors[came], NULL, visit, NULL))
        ++came;
    for (int i = 0; i < came; ++i)
        pthread_join(visitors[i], NULL);
    progress[load] += came == 3;
}

/* -- the C library's own locks -- */

static FILE *log_file;

static int count_object(struct dl_phdr_info *info, size_t size, void *data) {
    (void)info, (void)size;
    ++*(int *)data;
    nap(MILLISECOND / 2);
    return 0;
}

static void use_library(int load) {
    int objects = 0;
    void *volatile block = malloc(5000);
    flockfile(log_file);
    fputs("a line\n", log_file);
    nap(MILLISECOND / 2);
    funlockfile(log_file);
    dl_iterate_phdr(count_object, &objects);
    dlsym(RTLD_DEFAULT, "defined_nowhere");
    free(block);
    ++progress[load];
}

/* -- a thread that waits for a lock while it holds another; the earlier one releases everything -------- */

static struct pair {
    pthread_rwlock_t record;
    pthread_mutex_t index;
} pairs[PAIRS];

static void write_then_index(int load) {
    struct pair *pair = &pairs[progress[load] % PAIRS];
    pthread_rwlock_wrlock(&pair->record);
    nap(MILLISECOND / 2);
    pthread_rwlock_unlock(&pair->record);
    pthread_mutex_lock(&pair->index);
    pthread_mutex_unlock(&pair->index);
    ++progress[load];
}

static void index_then_read(int load) {
    struct pair *pair = &pairs[progress[load] % PAIRS];
    pthread_mutex_lock(&pair->index);
    pthread_rwlock_rdlock(&pair->record);
    nap(MILLISECOND / 2);
    pthread_rwlock_unlock(&pair->record);
    pthread_mutex_unlock(&pair->index);
    ++progress[load];
}

/* A load is one round after another; `whole` ones see for themselves when to end. */
struct load {
    const char *name;
    void (*round)(int load);
    int threads;
    int whole;
};

/* neighbours of the same name are one load */
static const struct load loads[] = {
    {"pool", work, 4, 0}, {"pool", give_work, 1, 0},
    {"convoy", queue_up, 10, 0},
    {"table", read_table, 3, 0}, {"table", write_table, 2, 0},
    {"timed", reach_right, 1, 0}, {"timed", reach_left, 1, 0},
    {"phases", lead_phases, 1, 1}, {"phases", follow_phases, 3, 1},
    {"buffer", fill, 2, 0}, {"buffer", drain, 2, 0},
    {"spin", spin, 2, 0},
    {"types", nest, 4, 0},
    {"visitors", receive_visitors, 2, 0},
    {"library", use_library, 4, 0},
    {"pairs", write_then_index, PAIRS, 0}, {"pairs", index_then_read, PAIRS, 0},
};
enum { KINDS = sizeof loads / sizeof *loads, MAX_THREADS = 64 };

static int load_number(int kind) {
    int number = 0;
    for (int i = 1; i <= kind; ++i)
        number += loads[i].name != loads[i - 1].name;
    return number;
}

static void *carry(void *argument) {
    int kind = (int)(intptr_t)argument, number = load_number(kind);
    do
        loads[kind].round(number);
    while (!ending && !loads[kind].whole);
    return NULL;
}

static void initialise(void) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&recursive_mutex, &attributes);
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
    pthread_mutex_init(&inheriting_mutex, &attributes);
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&robust_mutex, &attributes);
    pthread_barrier_init(&phase_barrier, NULL, 4);
    pthread_spin_init(&counter_lock, PTHREAD_PROCESS_PRIVATE);
    sem_init(&full_slots, 0, 0);
    sem_init(&free_slots, 0, 2);
    for (int i = 0; i < PAIRS; ++i) {
        pthread_rwlock_init(&pairs[i].record, NULL);
        pthread_mutex_init(&pairs[i].index, NULL);
    }
    log_file = fopen("/dev/null", "w");
}

int main(void) {
    pthread_t threads[MAX_THREADS];
    int count = 0, loads_count = load_number(KINDS - 1) + 1;
    size_t size = (size_t)loads_count * sizeof *progress;
    int file = open("progress", O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (file < 0 || ftruncate(file, (off_t)size))
        return 1;
    progress = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    initialise();
    if (progress == MAP_FAILED || !log_file)
        return 1;
    for (int kind = 0; kind < KINDS; ++kind)
        for (int i = 0; i < loads[kind].threads; ++i)
            if (pthread_create(&threads[count++], NULL, carry, (void *)(intptr_t)kind))
                return 1;

    tell_start("healthy", "native");
    tell_thread("", "main", thread_id(), NULL, 1, "read", "[]");
    tell_locks();
    tell_end("[]");

    char byte;
    while (read(0, &byte, 1) < 0 && errno == EINTR)
        ;
    ending = 1;
    pthread_mutex_lock(&jobs_mutex);
    pthread_cond_broadcast(&jobs_changed);
    pthread_mutex_unlock(&jobs_mutex);
    for (int i = 0; i < count; ++i)
        pthread_join(threads[i], NULL);
    printf("{\"sample\": \"healthy\", \"finished\": true}\n");
    return 0;
}
