/* One thread in each system call that returns what it has done so far if a debugger interrupts it; without Python.
 *
 * Prints the roles of its threads with their ids, {"write": TID, ...}, and then stays. With the argument "busy" the
 * calls of its threads never block, but return less than was asked for.
 */
#define _GNU_SOURCE
#include "sample.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define MUCH (1 << 20)
/* of headers newer than those that the sample may be compiled with */
#define NUMBER_IO_URING_SETUP 425
#define NUMBER_IO_URING_ENTER 426

static char data[MUCH];
static int started;

struct role {
    const char *name;
    ssize_t (*call)(struct role *);
    int fd, other;
    long tid;
};

static ssize_t block_write(struct role *role) {
    return write(role->fd, data, MUCH);
}

static ssize_t block_sendfile(struct role *role) {
    off_t start = 0;
    return sendfile(role->fd, role->other, &start, MUCH);
}

static ssize_t block_splice(struct role *role) {
    return splice(role->fd, NULL, role->other, NULL, MUCH, 0);
}

static ssize_t block_recv(struct role *role) {
    return recv(role->fd, data, MUCH, MSG_WAITALL);
}

static ssize_t block_recvmsg(struct role *role) {
    struct iovec parts[2] = {{data, 10}, {data, 10}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    return recvmsg(role->fd, &message, MSG_WAITALL);
}

/* submits a request that does nothing, and waits for one completion more */
static ssize_t block_uring(struct role *role) {
    int submitted = role->other++;
    return syscall(NUMBER_IO_URING_ENTER, role->fd, !submitted, 2, 1, NULL, 0);
}

/* a file that ends before all is sent, to a device that never blocks */
static ssize_t send_short_file(struct role *role) {
    off_t start = MUCH - 10;
    return sendfile(role->fd, role->other, &start, MUCH);
}

static ssize_t write_a_part(struct role *role) {
    char some[1 << 16];
    ssize_t size = write(role->fd, data, MUCH);
    while (read(role->other, some, sizeof some) > 0)
        ;
    return size;
}

static void *work(void *role_) {
    struct role *role = role_;
    role->tid = thread_id();
    advance(&started);
    while (role->call(role) != -1)  /* a debugger's visit ends the call */
        ;
    pause();
    return NULL;
}

static struct role roles[8];
static int count;

static void add(const char *name, ssize_t (*call)(struct role *), int fd, int other) {
    roles[count++] = (struct role){name, call, fd, other, 0};
}

static void pair(int ends[2]) {
    int size = 4096;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) || setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof size))
        exit(1);
}

/* a ring with one request; -1 if the kernel does not permit it */
static int ring(void) {
    uint32_t parameters[30] = {0};
    int fd = syscall(NUMBER_IO_URING_SETUP, 4, parameters);
    if (fd == -1)
        return -1;
    /* struct io_sqring_offsets: head, tail, ring_mask, ring_entries, flags, dropped, array */
    const uint32_t *offsets = parameters + 10;
    char *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (shared == MAP_FAILED || mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0x10000000) == MAP_FAILED)
        return -1;
    *(uint32_t *)(shared + offsets[6]) = 0;
    __atomic_store_n((uint32_t *)(shared + offsets[1]), 1, __ATOMIC_RELEASE);
    return fd;
}

static void add_blocked(int file) {
    int ends[2], pipes[2];
    char name[64];
    if (pipe(ends))
        exit(1);
    add("write", block_write, ends[1], 0);
    snprintf(name, sizeof name, "fifo-%d", (int)getpid());
    if (mkfifo(name, 0600))
        exit(1);
    add("fifo", block_write, open(name, O_RDWR), 0);
    unlink(name);
    pair(ends);
    add("sendfile", block_sendfile, ends[0], file);
    pair(ends);
    if (pipe(pipes) || fcntl(pipes[1], F_SETPIPE_SZ, MUCH) < MUCH || write(pipes[1], data, MUCH) != MUCH)
        exit(1);
    add("splice", block_splice, pipes[0], ends[0]);
    pair(ends);
    if (send(ends[0], data, 7, 0) != 7)
        exit(1);
    add("recvfrom", block_recv, ends[1], 0);
    pair(ends);
    if (send(ends[0], data, 7, 0) != 7)
        exit(1);
    add("recvmsg", block_recvmsg, ends[1], 0);
    int fd = ring();
    if (fd != -1)
        add("io_uring_enter", block_uring, fd, 0);
}

static void add_busy(int file) {
    int ends[2];
    if (pipe2(ends, O_NONBLOCK))
        exit(1);
    add("write", write_a_part, ends[1], ends[0]);
    add("sendfile", send_short_file, open("/dev/null", O_WRONLY), file);
}

int main(int argc, char **argv) {
    int file = memfd_create("file", 0);
    if (file == -1 || ftruncate(file, MUCH))
        return 1;
    if (argc > 1 && !strcmp(argv[1], "busy"))
        add_busy(file);
    else
        add_blocked(file);
    for (int i = 0; i < count; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, work, &roles[i]))
            return 1;
    }
    await(&started, count);
    for (int i = 0; i < count; i++)
        printf("%s\"%s\": %ld", i ? ", " : "{", roles[i].name, roles[i].tid);
    printf("}\n");
    fflush(stdout);
    pause();
    return 0;
}
