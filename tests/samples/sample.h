/* Shared by the samples that embed Python: the order in which threads arrive, and the printing of the truth.
 *
 * The truth is one JSON line, see tests/support/samples.py.
 */
#ifndef SAMPLE_H
#define SAMPLE_H

#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))

/* How far each thread has come. Every thread releases this mutex at once. */
static pthread_mutex_t progress_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t progress_changed = PTHREAD_COND_INITIALIZER;

static inline void advance(int *stage) {
    pthread_mutex_lock(&progress_mutex);
    ++*stage;
    pthread_cond_broadcast(&progress_changed);
    pthread_mutex_unlock(&progress_mutex);
}

static inline void await(int *stage, int count) {
    pthread_mutex_lock(&progress_mutex);
    while (*stage < count)
        pthread_cond_wait(&progress_changed, &progress_mutex);
    pthread_mutex_unlock(&progress_mutex);
}

static inline long thread_id(void) {
    return syscall(SYS_gettid);
}

static inline void tell_start(const char *sample, const char *variant) {
    printf("{\"sample\": \"%s\", \"variant\": \"%s\", \"pid\": %d, \"threads\": {", sample, variant, (int)getpid());
}

/* python_name and syscall may be NULL; stack is JSON */
static inline void tell_thread(const char *separator, const char *role, long tid, const char *python_name,
                               int blocked, const char *syscall_name, const char *stack) {
    printf("%s\"%s\": {\"tid\": %ld, \"python_name\": %s%s%s, \"blocked\": %s, \"syscall\": %s%s%s, \"stack\": %s}",
           separator, role, tid, python_name ? "\"" : "", python_name ? python_name : "null", python_name ? "\"" : "",
           blocked ? "true" : "false", syscall_name ? "\"" : "", syscall_name ? syscall_name : "null",
           syscall_name ? "\"" : "", stack);
}

static inline void tell_locks(void) {
    printf("}, \"locks\": {");
}

/* a mutex, or the GIL of an interpreter if address is NULL */
static inline void tell_lock(const char *separator, const char *name, void *address, int interpreter,
                             const char *holder, const char *waiter) {
    printf("%s\"%s\": {\"kind\": \"%s\", ", separator, name, address ? "mutex" : "gil");
    if (address)
        printf("\"address\": \"%p\", \"state\": \"locked\"", address);
    else
        printf("\"address\": null, \"interpreter\": %d, \"state\": \"held\"", interpreter);
    printf(", \"mode\": \"exclusive\", \"holders\": [\"%s\"], \"really\": [\"%s\"], \"waiters\": [\"%s\"], "
           "\"candidates\": [], \"evidence\": \"recorded\"}", holder, holder, waiter);
}

/* edges is JSON */
static inline void tell_end(const char *edges) {
    printf("}, \"deadlock\": %s, \"stuck_behind\": []}\n", edges);
    fflush(stdout);
}

/* Stay here until the other side closes standard input. */
static inline void linger_here(void) {
    char byte;
    while (read(0, &byte, 1) > 0)
        ;
}

#endif
