/* Two threads take two locks in opposite order; no Python anywhere.
 *
 * abba mutex: pthread mutexes; abba rwlock: read-write locks, both taken for writing. The main thread waits in
 * pthread_join. Prints one JSON line about itself, see tests/support/samples.py, and then hangs.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))

/* Globals of external linkage, so that tests can name them: `rwlock-owner &table_lock`. */
pthread_mutex_t stock_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t order_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_rwlock_t table_lock = PTHREAD_RWLOCK_INITIALIZER;
pthread_rwlock_t index_lock = PTHREAD_RWLOCK_INITIALIZER;
unsigned char not_a_lock[64] = {[0 ... 63] = 0xa5};

/* The program itself never calls it. If it was called, a debugger ran code in a program that it should only read. */
int calls;
void *run_by_nobody(void) {
    ++calls;
    return &table_lock;
}

static pthread_barrier_t both_hold_one;
static pthread_barrier_t truth_is_told;
static int use_rwlock;

struct route {
    void *near;
    void *far;
    long tid;
};

static NOINLINE void take(void *lock) {
    if (use_rwlock)
        pthread_rwlock_wrlock(lock);
    else
        pthread_mutex_lock(lock);
}

static NOINLINE void give(void *lock) {
    if (use_rwlock)
        pthread_rwlock_unlock(lock);
    else
        pthread_mutex_unlock(lock);
}

static NOINLINE void move_goods(struct route *route) {
    take(route->near);
    pthread_barrier_wait(&both_hold_one);
    pthread_barrier_wait(&truth_is_told);
    take(route->far);
    give(route->far);
    give(route->near);
}

static void *serve(void *argument) {
    struct route *route = argument;
    route->tid = syscall(SYS_gettid);
    move_goods(route);
    return NULL;
}

static void tell_thread(const char *role, long tid) {
    printf("\"%s\": {\"tid\": %ld, \"python_name\": null, \"blocked\": true, \"syscall\": \"futex\", \"stack\": []}", role, tid);
}

static void tell_lock(const char *name, void *address, const char *holder, const char *waiter) {
    printf("\"%s\": {\"kind\": \"%s\", \"address\": \"%p\", \"state\": \"%s\", \"mode\": \"exclusive\","
           " \"holders\": [\"%s\"], \"really\": [\"%s\"], \"waiters\": [\"%s\"], \"candidates\": [], \"evidence\": \"recorded\"}",
           name, use_rwlock ? "rwlock" : "mutex", address, use_rwlock ? "write-locked" : "locked", holder, holder, waiter);
}

int main(int argc, char **argv) {
    int main_ends = argc == 3 && !strcmp(argv[2], "main-ends");
    if (argc != 2 + main_ends || (strcmp(argv[1], "mutex") && strcmp(argv[1], "rwlock"))) {
        fputs("usage: abba mutex|rwlock [main-ends]\n", stderr);
        return 2;
    }
    use_rwlock = !strcmp(argv[1], "rwlock");
    void *one = use_rwlock ? (void *)&table_lock : (void *)&stock_mutex;
    void *other = use_rwlock ? (void *)&index_lock : (void *)&order_mutex;
    struct route first = {one, other, 0}, second = {other, one, 0};
    pthread_t first_thread, second_thread;

    pthread_barrier_init(&both_hold_one, NULL, 3);
    pthread_barrier_init(&truth_is_told, NULL, 3);
    if (pthread_create(&first_thread, NULL, serve, &first) || pthread_create(&second_thread, NULL, serve, &second))
        return 1;
    pthread_barrier_wait(&both_hold_one);

    printf("{\"sample\": \"abba\", \"variant\": \"%s\", \"pid\": %d, \"threads\": {", argv[1], (int)getpid());
    if (!main_ends) {
        tell_thread("main", getpid());
        printf(", ");
    }
    tell_thread("first", first.tid);
    printf(", ");
    tell_thread("second", second.tid);
    printf("}, \"locks\": {");
    tell_lock("one", one, "first", "second");
    printf(", ");
    tell_lock("other", other, "second", "first");
    printf("}, \"deadlock\": [[\"first\", \"other\", \"second\"], [\"second\", \"one\", \"first\"]], \"stuck_behind\": [%s]}\n", main_ends ? "" : "\"main\"");
    fflush(stdout);

    pthread_barrier_wait(&truth_is_told);
    if (main_ends) // the process goes on with its other threads
        pthread_exit(NULL);
    pthread_join(first_thread, NULL);
    pthread_join(second_thread, NULL);
    return not_a_lock[0] == 0;
}
