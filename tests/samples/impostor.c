/* A program without Python that exports a `_PyRuntime`, as a damaged or a future interpreter would have.
 *
 * impostor future   the debug offsets of a CPython 3.99
 * impostor random   bytes without sense behind a `Py_Version` of 3.12
 * impostor zero     a 3.12 that is not initialised
 * impostor loop     a 3.12 whose interpreters point to themselves
 *
 * Its main thread waits for the end of a second one, which waits for a mutex that the main thread holds.
 * Prints one JSON line about itself and hangs.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

__attribute__((visibility("default"))) uint64_t _PyRuntime[1 << 16];
__attribute__((visibility("default"))) const unsigned long Py_Version = 0x030c01f0;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pid_t waiter;
static pthread_barrier_t started;

static void *wait_for_mutex(void *unused)
{
    waiter = (pid_t)syscall(SYS_gettid);
    pthread_barrier_wait(&started);
    pthread_mutex_lock(&mutex);
    return unused;
}

int main(int argc, char **argv)
{
    const char *kind = argc > 1 ? argv[1] : "zero";
    if (strcmp(kind, "future") == 0) {
        memcpy(_PyRuntime, "xdebugpy", 8);
        _PyRuntime[1] = 0x036300f0;
    } else if (strcmp(kind, "random") == 0) {
        uint64_t state = 88172645463325252u;
        for (size_t i = 0; i < sizeof _PyRuntime / sizeof *_PyRuntime; i++) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            _PyRuntime[i] = state;
        }
    } else if (strcmp(kind, "loop") == 0) {
        for (size_t i = 0; i < sizeof _PyRuntime / sizeof *_PyRuntime; i++)
            _PyRuntime[i] = (uint64_t)(uintptr_t)_PyRuntime;
    }
    pthread_mutex_lock(&mutex);
    pthread_barrier_init(&started, NULL, 2);
    pthread_t thread;
    pthread_create(&thread, NULL, wait_for_mutex, NULL);
    pthread_barrier_wait(&started);
    printf("{\"sample\": \"impostor\", \"variant\": \"%s\", \"pid\": %d, \"threads\": {"
           "\"main\": {\"tid\": %d, \"python_name\": null, \"blocked\": true, \"syscall\": \"futex\", \"stack\": []}, "
           "\"second\": {\"tid\": %d, \"python_name\": null, \"blocked\": true, \"syscall\": \"futex\", \"stack\": []}}, "
           "\"locks\": {\"mutex\": {\"kind\": \"mutex\", \"address\": \"%p\", \"state\": \"locked\", "
           "\"mode\": \"exclusive\", \"holders\": [\"main\"], \"really\": [\"main\"], \"waiters\": [\"second\"], "
           "\"candidates\": [], \"evidence\": \"recorded\"}, "
           "\"end\": {\"kind\": \"thread-exit\", \"address\": \"%p\", \"state\": \"running\", "
           "\"mode\": \"exclusive\", \"holders\": [\"second\"], \"really\": [\"second\"], \"waiters\": [\"main\"], "
           "\"candidates\": [], \"evidence\": \"recorded\"}}, "
           "\"deadlock\": [[\"main\", \"end\", \"second\"], [\"second\", \"mutex\", \"main\"]], "
           "\"stuck_behind\": []}\n",
           kind, getpid(), getpid(), waiter, (void *)&mutex, (void *)thread);
    fflush(stdout);
    pthread_join(thread, NULL);
    return 0;
}
