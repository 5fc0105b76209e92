/* Healthy programs that are busy, for tests that nothing disturbs them.
 *
 * busy heartbeat FILE  a thread beats every millisecond
 * busy epoll FILE      a server waits with epoll_wait for bytes that another thread sends
 * busy pipe FILE       a thread writes large blocks to a pipe that is nearly always full
 * busy storm FILE      threads begin and end all the time
 * busy vfork FILE      a thread makes children by vfork all the time
 * busy large FILE      2 GiB are mapped and 64 MiB of them are used
 * busy exec FILE       the program executes itself again and again
 * busy uring FILE      a kernel worker of io_uring fills memory all the time; exit status 77 if io_uring is not permitted
 *
 * FILE holds struct counters, which the program maps: nobody has to stop it to see how it does.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct counters {
    uint64_t steps;       /* what the program has done so far */
    uint64_t interrupted; /* calls that ended with EINTR */
    uint64_t partial;     /* writes that ended early */
    uint64_t wrong;       /* anything else that must not happen */
    uint64_t longest_ns;  /* the longest time between two beats; the reader may set it to 0 */
};

static struct counters *counters;
enum { BLOCK = 1 << 18, EXEC_EVERY_US = 30000 };

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000ull + time.tv_nsec;
}

static void check(ssize_t result, ssize_t wanted) {
    if (result == wanted)
        return;
    if (result < 0 && errno == EINTR)
        counters->interrupted++;
    else if (result >= 0)
        counters->partial++;
    else
        counters->wrong++;
}

static void create(pthread_t *thread, void *(*function)(void *), void *argument) {
    /* it fails in a process that executes another program at this moment */
    while (pthread_create(thread, NULL, function, argument) != 0)
        usleep(100);
}

static void start(void *(*function)(void *), void *argument) {
    pthread_t thread;
    create(&thread, function, argument);
}

static void *beat(void *unused) {
    uint64_t last = now();
    for (;;) {
        struct timespec pause = {0, 1000000};
        check(nanosleep(&pause, NULL), 0);
        uint64_t at = now();
        if (at - last > counters->longest_ns)
            counters->longest_ns = at - last;
        last = at;
        counters->steps++;
    }
    return unused;
}

static void *send_bytes(void *pipe) {
    for (;;) {
        usleep(2000);
        if (write(((int *)pipe)[1], "x", 1) != 1)
            counters->wrong++;
    }
    return NULL;
}

static void serve(void) {
    int pipes[2], epoll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    char byte;
    if (epoll < 0 || pipe(pipes) != 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, pipes[0], &event) != 0)
        abort();
    start(send_bytes, pipes);
    for (;;) {
        int ready = epoll_wait(epoll, &event, 1, -1);
        check(ready, 1);
        if (ready == 1)
            check(read(pipes[0], &byte, 1), 1);
        counters->steps++;
    }
}

static void *drain(void *pipe) {
    static char bytes[1 << 12];
    for (;;) {
        usleep(500);
        if (read(((int *)pipe)[0], bytes, sizeof bytes) <= 0)
            counters->wrong++;
    }
    return NULL;
}

static void fill_pipe(void) {
    static char block[BLOCK];
    int pipes[2];
    if (pipe(pipes) != 0)
        abort();
    start(drain, pipes);
    for (;;) {
        check(write(pipes[1], block, sizeof block), sizeof block);
        counters->steps++;
    }
}

static void *end_soon(void *unused) {
    usleep(100);
    __atomic_add_fetch(&counters->steps, 1, __ATOMIC_RELAXED);
    return unused;
}

static void *make_threads(void *unused) {
    for (;;) {
        pthread_t threads[8];
        for (int i = 0; i < 8; i++)
            create(&threads[i], end_soon, NULL);
        for (int i = 0; i < 8; i++)
            pthread_join(threads[i], NULL);
    }
    return unused;
}

static void make_children(void) {
    for (;;) {
        int status;
        pid_t child = vfork();
        if (child == 0)
            _exit(7);
        if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 7)
            counters->wrong++;
        counters->steps++;
        usleep(200);
    }
}

static void have_kernel_work(void) {
    enum { ENTRIES = 4096, SIZE = 64 << 20 };
    struct io_uring_params made = {0};
    int ring = syscall(SYS_io_uring_setup, ENTRIES, &made), zeros = open("/dev/zero", O_RDONLY);
    if (ring < 0)
        exit(77);
    char *queue = mmap(NULL, made.sq_off.array + ENTRIES * sizeof(unsigned), PROT_READ | PROT_WRITE, MAP_SHARED, ring,
                       IORING_OFF_SQ_RING);
    struct io_uring_sqe *entries = mmap(NULL, ENTRIES * sizeof *entries, PROT_READ | PROT_WRITE, MAP_SHARED, ring,
                                        IORING_OFF_SQES);
    char *memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (zeros < 0 || queue == MAP_FAILED || entries == MAP_FAILED || memory == MAP_FAILED)
        abort();
    /* one worker does all, as each entry waits for the one before: about a minute of work */
    for (unsigned i = 0; i < ENTRIES; i++) {
        entries[i] = (struct io_uring_sqe){.opcode = IORING_OP_READ, .flags = IOSQE_ASYNC | IOSQE_IO_LINK, .fd = zeros,
                                           .addr = (uintptr_t)memory, .len = SIZE};
        ((unsigned *)(queue + made.sq_off.array))[i] = i;
    }
    __atomic_fetch_add((unsigned *)(queue + made.sq_off.tail), ENTRIES, __ATOMIC_RELEASE);
    if (syscall(SYS_io_uring_enter, ring, ENTRIES, 0, 0, NULL, 0) != ENTRIES)
        abort();
    counters->steps += 3;
    for (;;)
        pause();
}

int main(int argc, char **argv) {
    if (argc != 3)
        return 2;
    int file = open(argv[2], O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, sizeof *counters) != 0)
        return 2;
    counters = mmap(NULL, sizeof *counters, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (counters == MAP_FAILED)
        return 2;
    close(file);
    const char *mode = argv[1];
    if (!strcmp(mode, "heartbeat")) {
        beat(NULL);
    } else if (!strcmp(mode, "epoll")) {
        serve();
    } else if (!strcmp(mode, "pipe")) {
        fill_pipe();
    } else if (!strcmp(mode, "storm")) {
        start(make_threads, NULL);
        make_threads(NULL);
    } else if (!strcmp(mode, "vfork")) {
        make_children();
    } else if (!strcmp(mode, "large")) {
        char *memory = mmap(NULL, 2ul << 30, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED)
            return 2;
        memset(memory, 1, 64 << 20);
        start(make_threads, NULL);
        beat(NULL);
    } else if (!strcmp(mode, "uring")) {
        have_kernel_work();
    } else if (!strcmp(mode, "exec")) {
        counters->steps++;
        start(make_threads, NULL);
        usleep(EXEC_EVERY_US);
        execv("/proc/self/exe", argv);
        counters->wrong++;
    }
    return 2;
}
