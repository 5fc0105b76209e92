/* A barrier at which one thread waits while it holds a mutex, for which the other thread waits before the barrier.
 *
 * The main thread waits for the first thread to end. Prints one JSON line about itself, see tests/support/samples.py.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include "sample.h"

static pthread_mutex_t stock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t meeting;
static int taken, told;
static long tids[2];

static NOINLINE void *come_first(void *unused) {
    tids[0] = thread_id();
    pthread_mutex_lock(&stock);
    advance(&taken);
    await(&told, 1);
    pthread_barrier_wait(&meeting);
    pthread_mutex_unlock(&stock);
    return unused;
}

static NOINLINE void *come_late(void *unused) {
    tids[1] = thread_id();
    await(&taken, 1);
    advance(&taken);
    await(&told, 1);
    pthread_mutex_lock(&stock);
    pthread_mutex_unlock(&stock);
    pthread_barrier_wait(&meeting);
    return unused;
}

int main(void) {
    pthread_t first, late;
    pthread_barrier_init(&meeting, NULL, 2);
    if (pthread_create(&first, NULL, come_first, NULL) || pthread_create(&late, NULL, come_late, NULL))
        return 1;
    await(&taken, 2);

    tell_start("gather", "barrier");
    tell_thread("", "main", thread_id(), NULL, 1, "futex", "[]");
    tell_thread(", ", "first", tids[0], NULL, 1, "futex", "[]");
    tell_thread(", ", "late", tids[1], NULL, 1, "futex", "[]");
    tell_locks();
    tell_lock("", "mutex", &stock, 0, "first", "late");
    printf(", \"barrier\": {\"kind\": \"barrier\", \"address\": \"%p\", \"state\": \"1 of 2 arrived\", \"mode\": \"exclusive\", "
           "\"holders\": [\"late\"], \"really\": [\"late\"], \"waiters\": [\"first\"], \"candidates\": [], "
           "\"evidence\": \"inferred\"}", (void *)&meeting);
    tell_end("[[\"first\", \"barrier\", \"late\"], [\"late\", \"mutex\", \"first\"]]");
    advance(&told);
    pthread_join(first, NULL);
    return 0;
}
