/* Locks of a C library that keeps no unwind tables, in a process of three threads: musl_locks WAY [TYPE].
 *
 * WAY: abba, rwlock, condvar, semaphore, barrier, join, or the innocent twins busy and pool. TYPE of the mutexes:
 * recursive or errorcheck. Prints a line once all threads are there; then they hang, or work.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

pthread_mutex_t stock, orders;
pthread_rwlock_t table;
pthread_cond_t changed;
pthread_barrier_t both, everyone;
sem_t work;

static void *ship(void *unused) {
    pthread_mutex_lock(&stock);
    pthread_barrier_wait(&both);
    pthread_mutex_lock(&orders);
    return unused;
}

static void *refill(void *unused) {
    pthread_mutex_lock(&orders);
    pthread_barrier_wait(&both);
    pthread_mutex_lock(&stock);
    return unused;
}

static void *write_table(void *unused) {
    pthread_rwlock_wrlock(&table);
    pthread_barrier_wait(&both);
    pthread_mutex_lock(&stock);
    return unused;
}

static void *read_table(void *unused) {
    pthread_mutex_lock(&stock);
    pthread_barrier_wait(&both);
    pthread_rwlock_rdlock(&table);
    return unused;
}

static void *wait_for_change(void *unused) {
    pthread_mutex_lock(&stock);
    pthread_cond_wait(&changed, &stock);
    return unused;
}

static void *wait_for_work(void *unused) {
    sem_wait(&work);
    return unused;
}

static void *meet(void *unused) {
    pthread_barrier_wait(&everyone);
    return unused;
}

static void *work_with_stock(void *unused) {
    pthread_mutex_lock(&stock);
    pthread_barrier_wait(&both);
    sleep(1000);
    pthread_mutex_unlock(&stock);
    return unused;
}

static void *want_stock(void *unused) {
    pthread_barrier_wait(&both);
    pthread_mutex_lock(&stock);
    pthread_mutex_unlock(&stock);
    return unused;
}

static const struct {
    const char *name;
    void *(*first)(void *), *(*second)(void *);
} ways[] = {
    {"abba", ship, refill}, {"rwlock", write_table, read_table}, {"condvar", wait_for_change, wait_for_change},
    {"semaphore", wait_for_work, wait_for_work}, {"barrier", meet, meet}, {"busy", work_with_stock, want_stock},
    {"pool", wait_for_work, wait_for_work}, {"join", want_stock, NULL},
};

int main(int count, char **arguments) {
    const char *way = count > 1 ? arguments[1] : "", *type = count > 2 ? arguments[2] : "";
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    if (!strcmp(type, "recursive"))
        pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    if (!strcmp(type, "errorcheck"))
        pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(&stock, &attributes);
    pthread_mutex_init(&orders, &attributes);
    pthread_rwlock_init(&table, NULL);
    pthread_cond_init(&changed, NULL);
    pthread_barrier_init(&both, NULL, 2);
    pthread_barrier_init(&everyone, NULL, 4);
    sem_init(&work, 0, 0);
    pthread_t first = 0, second = 0;
    for (unsigned i = 0; i < sizeof ways / sizeof *ways; ++i) {
        if (strcmp(ways[i].name, way))
            continue;
        if (!ways[i].second)
            pthread_mutex_lock(&stock);
        pthread_create(&first, NULL, ways[i].first, NULL);
        if (ways[i].second)
            pthread_create(&second, NULL, ways[i].second, NULL);
    }
    if (!strcmp(way, "join"))
        pthread_barrier_wait(&both);
    printf("started %d\n", getpid());
    fflush(stdout);
    if (!strcmp(way, "pool"))
        getchar();
    if (!strcmp(way, "barrier"))
        pthread_barrier_wait(&everyone);
    pthread_join(first, NULL);
    if (second)
        pthread_join(second, NULL);
    return 0;
}
