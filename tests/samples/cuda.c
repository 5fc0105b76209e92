/* A stand-in for the CUDA driver: threads wait in it for a GPU that never answers, as they do in libcuda.so.1 of
 * release 580. It is stripped, and exports the driver's functions only.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stddef.h>

#define EXPORT __attribute__((visibility("default")))
#define NOINLINE __attribute__((noinline))

typedef void (*host_function)(void *data);
struct work {
    host_function function;
    void *data;
};

static volatile int answered;
static pthread_mutex_t progress = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static NOINLINE void wait_in_a_loop(void) {
    while (!answered)
        sched_yield();
}

static NOINLINE void wait_for_a_semaphore(void) {
    sem_t answer;
    sem_init(&answer, 0, 0);
    while (sem_wait(&answer) || !answered)
        ;
}

static NOINLINE void wait_for_a_signal(void) {
    pthread_mutex_lock(&progress);
    while (!answered)
        pthread_cond_wait(&changed, &progress);
    pthread_mutex_unlock(&progress);
}

EXPORT int cuCtxSynchronize(void) {
    wait_for_a_semaphore();
    return answered;
}

EXPORT int cuStreamSynchronize(void *stream) {
    if (stream)
        wait_in_a_loop();
    else
        wait_for_a_signal();
    return answered;
}

EXPORT int cuLaunchKernel(void) {
    wait_for_a_semaphore();
    return answered;
}

static NOINLINE void *run(void *data) {
    struct work *work = data;
    work->function(work->data);
    answered = 1;
    return NULL;
}

/* In a thread of the driver, as the real one does when the GPU has come to it. */
EXPORT int cuLaunchHostFunc(void *stream, host_function function, void *data) {
    static struct work work;
    pthread_t thread;
    (void)stream;
    work = (struct work){function, data};
    return pthread_create(&thread, NULL, run, &work);
}
