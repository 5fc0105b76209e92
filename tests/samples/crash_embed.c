/* A program that embeds Python. One of its threads makes a list after Python was finalised.
 *
 * crash_embed HOME; HOME is where Python's library is. Prints one JSON line about itself, see tests/support/crashes.py,
 * and then dies.
 */
#define _GNU_SOURCE
#include <Python.h>
#include <stdlib.h>
#include <string.h>

#include "sample.h"

static long native_tid;
static int started, finalised, calls, ends[2];

static void tell(void) {
    printf("{\"sample\": \"crash\", \"story\": \"finalised\", \"pid\": %d, \"dies\": \"native\", "
           "\"rule\": \"Python's API is called after Py_Finalize()\", \"signals\": [\"SIGSEGV\"], "
           "\"code\": \"SEGV_MAPERR\", \"access\": \"read\", \"threads\": {", (int)getpid());
    printf("\"main\": {\"tid\": %d, \"python_name\": null, \"python_state\": null, \"functions\": [\"app_rest\"], "
           "\"doing\": \"waits in read()\", \"stack\": []}, ", (int)getpid());
    printf("\"native\": {\"tid\": %ld, \"python_name\": null, \"python_state\": null, "
           "\"functions\": [\"crash_collect_late\"], \"doing\": \"makes a list\", \"stack\": []}}}\n", native_tid);
    fflush(stdout);
}

NOINLINE void crash_collect_late(void) {
    PyObject *lines = PyList_New(0);
    PyList_Append(lines, lines);
    ++calls;
}

/* Whether the main thread sleeps in app_rest(). */
static int main_rests(void) {
    char path[64], expected[64], line[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/syscall", (int)getpid());
    snprintf(expected, sizeof expected, "%d %#x ", SYS_read, ends[0]);
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    int rests = fgets(line, sizeof line, file) && !strncmp(line, expected, strlen(expected));
    fclose(file);
    return rests;
}

static void *collect(void *argument) {
    native_tid = thread_id();
    advance(&started);
    await(&finalised, 1);
    while (!main_rests())
        usleep(500);
    crash_collect_late();
    return argument;
}

/* Wait for what never comes. */
NOINLINE long app_rest(int descriptor) {
    char byte;
    long count = read(descriptor, &byte, 1);
    ++calls;
    return count;
}

int main(int argc, char **argv) {
    pthread_t thread;
    if (argc != 2 || pipe(ends)) {
        fputs("usage: crash_embed HOME\n", stderr);
        return 2;
    }
    setenv("PYTHONHOME", argv[1], 1);
    Py_InitializeEx(0);
    PyRun_SimpleString("import json; json.dumps({1: 2})");
    if (pthread_create(&thread, NULL, collect, NULL))
        return 1;
    await(&started, 1);
    Py_FinalizeEx();
    tell();
    advance(&finalised);
    return (int)app_rest(ends[0]);
}
