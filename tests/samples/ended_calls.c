/* Threads in system calls that a stop ends, which count how often that happens.
 *
 * ended_calls FILE MILLISECONDS BURNS
 *
 * Each thread repeats one call with that time-out, or writes to a pipe that is emptied a little after each such time.
 * If BURNS is 1, one more thread computes with a mutex that another thread waits for.
 *
 * FILE holds an array of struct row, one per thread, which the program maps.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct row {
    char name[16];
    uint64_t tid;
    uint64_t rounds; /* calls that ended as they should */
    uint64_t ended;  /* calls that ended with EINTR, or after a part */
};

static struct row *rows;
static long milliseconds;
static struct timespec timeout;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t holds_mutex;
static char block[1 << 18];

static int socket_of_pair(void) {
    int pair[2];
    struct timeval limit = {milliseconds / 1000, milliseconds % 1000 * 1000};
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) || setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit))
        abort();
    return pair[0];
}

static int listener(void) {
    struct timeval limit = {milliseconds / 1000, milliseconds % 1000 * 1000};
    int made = socket(AF_INET, SOCK_STREAM, 0);
    if (made < 0 || listen(made, 1) || setsockopt(made, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit))
        abort();
    return made;
}

static int do_epoll_wait(int file) {
    struct epoll_event event;
    return epoll_wait(file, &event, 1, milliseconds);
}

static int do_semtimedop(int semaphore) {
    struct sembuf down = {0, -1, 0};
    return semtimedop(semaphore, &down, 1, &timeout);
}

static int do_sigtimedwait(int unused) {
    sigset_t set;
    (void)unused;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    return sigtimedwait(&set, NULL, &timeout);
}

static int do_read(int file) {
    char byte;
    return read(file, &byte, 1);
}

static int do_readv(int file) {
    char byte;
    struct iovec part = {&byte, 1};
    return readv(file, &part, 1);
}

static int do_recv(int file) {
    char byte;
    return recv(file, &byte, 1, 0);
}

static int do_accept(int file) {
    return accept(file, NULL, NULL);
}

static int do_write(int file) {
    ssize_t written = write(file, block, sizeof block);
    if (written >= 0 && written < (ssize_t)sizeof block) {
        errno = EINTR; /* it ended after a part */
        return -1;
    }
    return written;
}

static const struct {
    const char *name;
    int (*call)(int);
} calls[] = {{"epoll_wait", do_epoll_wait}, {"semtimedop", do_semtimedop}, {"sigtimedwait", do_sigtimedwait},
             {"read", do_read}, {"readv", do_readv}, {"recv", do_recv}, {"accept", do_accept}, {"write", do_write}};
enum { CALLS = sizeof calls / sizeof *calls };

static void *drain(void *pipe) {
    static char bytes[1 << 12];
    for (;;) {
        nanosleep(&timeout, NULL);
        if (read(*(int *)pipe, bytes, sizeof bytes) <= 0)
            abort();
    }
}

static void start(void *(*function)(void *), void *argument) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, function, argument))
        abort();
}

static int file_of(const char *name) {
    static int pipes[2];
    if (!strcmp(name, "epoll_wait"))
        return epoll_create1(0);
    if (!strcmp(name, "semtimedop"))  {
        int made = semget(IPC_PRIVATE, 1, 0600);
        return made;
    }
    if (!strcmp(name, "accept"))
        return listener();
    if (strcmp(name, "write"))
        return socket_of_pair();
    if (pipe(pipes))
        abort();
    start(drain, &pipes[0]);
    return pipes[1];
}

static void *repeat(void *argument) {
    struct row *row = argument;
    int index = row - rows, file = file_of(calls[index].name);
    if (file < 0)
        abort();
    row->tid = gettid();
    for (;;) {
        if (calls[index].call(file) < 0 && errno == EINTR)
            row->ended++;
        else
            row->rounds++;
    }
}

static void *burn(void *unused) {
    pthread_mutex_lock(&mutex);
    pthread_barrier_wait(&holds_mutex);
    for (;;)
        __asm__ volatile("");
    return unused;
}

static void *want(void *unused) {
    pthread_mutex_lock(&mutex);
    return unused;
}

int main(int argc, char **argv) {
    sigset_t set;
    if (argc != 4)
        return 2;
    int file = open(argv[1], O_RDWR | O_CREAT, 0600);
    milliseconds = atol(argv[2]);
    timeout = (struct timespec){milliseconds / 1000, milliseconds % 1000 * 1000000};
    if (file < 0 || ftruncate(file, CALLS * sizeof *rows))
        return 2;
    rows = mmap(NULL, CALLS * sizeof *rows, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (rows == MAP_FAILED)
        return 2;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    if (atoi(argv[3])) {
        pthread_barrier_init(&holds_mutex, NULL, 2);
        start(burn, NULL);
        pthread_barrier_wait(&holds_mutex);
        start(want, NULL);
    }
    for (int i = 0; i < CALLS; i++) {
        strcpy(rows[i].name, calls[i].name);
        start(repeat, &rows[i]);
    }
    for (;;)
        pause();
}
