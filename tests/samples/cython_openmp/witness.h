/* Knows who works on which matrix, sees to it that the main thread is at the barrier before any other wants the GIL,
 * and describes the hang. Nothing in here waits in a system call that could be taken for the hang itself.
 */
#ifndef WITNESS_H
#define WITNESS_H

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { TEAM = 4 };

/* Each thread of the team writes its own, thread 0 is the main thread. */
static long tids[TEAM];

/* The word that a thread sleeps on, by the kernel's account; 0 if it does not. */
static unsigned long futex_word(long tid) {
    char path[64];
    long number = -1;
    unsigned long word = 0;
    snprintf(path, sizeof path, "/proc/self/task/%ld/syscall", tid);
    FILE *file = fopen(path, "re");
    if (!file || fscanf(file, "%ld %lx", &number, &word) != 2 || number != SYS_futex)
        word = 0;
    if (file)
        fclose(file);
    return word;
}

static long tid_of(int member) {
    return __atomic_load_n(&tids[member], __ATOMIC_SEQ_CST);
}

/* Called before each matrix. All begin before any is done, and the main thread is done before any other. */
static void meet(int matrix) {
    __atomic_store_n(&tids[matrix % TEAM], syscall(SYS_gettid), __ATOMIC_SEQ_CST);
    if (matrix % TEAM) {
        while (!tid_of(0) || !futex_word(tid_of(0)))
            sched_yield();
        return;
    }
    for (int i = 1; i < TEAM; ++i)
        while (!tid_of(i))
            sched_yield();
}

static void tell_workers(const char *format) {
    for (int i = 1; i < TEAM; ++i)
        printf(format, i > 1 ? ", " : "", i, tid_of(i));
}

static void *witness(void *main_stack) {
    unsigned long word = 0;
    for (int i = 0; i < TEAM; ++i)
        while (!tid_of(i) || !(word = futex_word(tid_of(i))))
            sched_yield();
    word = futex_word(tid_of(0));
    printf("{\"sample\": \"cython_openmp\", \"variant\": \"prange\", \"pid\": %d, \"threads\": {", (int)getpid());
    printf("\"main\": {\"tid\": %ld, \"python_name\": \"MainThread\", \"blocked\": true, \"syscall\": \"futex\","
           " \"stack\": %s}, ", tid_of(0), (const char *)main_stack);
    printf("\"witness\": {\"tid\": %ld, \"python_name\": null, \"blocked\": true, \"syscall\": \"read\","
           " \"stack\": []}, ", syscall(SYS_gettid));
    tell_workers("%s\"worker%d\": {\"tid\": %ld, \"python_name\": null, \"blocked\": true, \"syscall\": \"futex\","
                 " \"stack\": []}");
    // the generation of a barrier, which its threads sleep on, is its second word
    printf("}, \"locks\": {\"barrier\": {\"kind\": \"openmp-barrier\", \"address\": \"%#lx\","
           " \"state\": \"1 of %d arrived\", \"mode\": \"exclusive\", \"holders\": [", word - 4, TEAM);
    tell_workers("%s\"worker%d\"");
    printf("], \"really\": [");
    tell_workers("%s\"worker%d\"");
    printf("], \"waiters\": [\"main\"], \"candidates\": [], \"evidence\": \"inferred\"}, \"gil\": {\"kind\": \"gil\","
           " \"address\": null, \"state\": \"held\", \"mode\": \"exclusive\", \"holders\": [\"main\"],"
           " \"really\": [\"main\"], \"waiters\": [");
    tell_workers("%s\"worker%d\"");
    printf("], \"candidates\": [], \"evidence\": \"recorded\"}}, \"deadlock\": [");
    tell_workers("%s[\"main\", \"barrier\", \"worker%d\"]");
    tell_workers(", [\"worker%2$d\", \"gil\", \"main\"]");
    printf("], \"stuck_behind\": []}\n");
    fflush(stdout);
    char byte;
    while (read(0, &byte, 1) > 0)
        ;
    return NULL;
}

static void start_witness(const char *main_stack) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, witness, (void *)main_stack))
        abort();
}

#endif
