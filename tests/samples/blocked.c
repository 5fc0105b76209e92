/* One thread in each system call that waits for something other than a lock; without Python.
 *
 * Prints two JSON lines about itself and then stays. tests/support/samples.py describes the first; the second has
 * for each role what its thread is in:
 *
 *     {"keeper": PID of the child, "connects_to": PATH,
 *      "roles": {ROLE: {"tid": 1, "syscall": "read", "number": 0, "state": "waiting to read",
 *      "fds": [[FD, WHAT IT IS], ...], "at": "0x.." or null, "ends": [[PID, FD], ...], "locked_by": PID or null,
 *      "request": "0x..", "words": "sleeps for 100 s" or null, "core": the same as a core shows it, "timed": false}}}
 *
 * `fds` are the descriptors it waits for, `at` is the array that contains them or a lock's range, if there is one, `ends` the owners of the other end of
 * the first, or of the roles "...-queued" the socket that listens for a connection that is not accepted. A child process, the keeper, has the other end of some descriptors and locks files; when its parent ends it
 * removes the queues and semaphores, and ends too. A byte on standard input makes the program print the roles whose call
 * has returned, {"returned": [ROLE, ...]}, and exit. Calls that a debugger's visit ends are repeated.
 */
#define _GNU_SOURCE
#include "sample.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

/* of headers newer than those that the sample may be compiled with */
#define NUMBER_FUTEX_WAITV 449
#define NUMBER_FUTEX_WAIT 455
#define NUMBER_IO_URING_SETUP 425
#define NUMBER_IO_URING_ENTER 426
#define NUMBER_PIDFD_OPEN 434
#define NUMBER_EPOLL_PWAIT2 441
#define FUTEX2_U32_PRIVATE (2 | 128)
#define WAITID_PIDFD 3

struct role {
    const char *name;
    const char *call;
    long number;
    const char *state;
    long (*block)(struct role *);
    /* the descriptors that it waits for */
    int fds[3];
    int count;
    const void *at;
    int timed;
    /* the owner of the other end of the first, or of the file lock */
    struct { int pid, fd; } ends[2];
    int end_count;
    int locked_by;
    unsigned int request;
    char words[120];
    char core[120];
    long tid;
    int returned;
};

#define MOST 64
static struct role roles[MOST];
static int role_count;
static int ready;
static pid_t keeper;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static int must(int result, const char *what) {
    if (result == -1)
        fail(what);
    return result;
}

#define MUST(call) must((call), #call)

static struct role *add(const char *name, const char *call, long number, const char *state, long (*block)(struct role *)) {
    if (role_count == MOST)
        exit(1);
    struct role *role = &roles[role_count++];
    *role = (struct role){.name = name, .call = call, .number = number, .state = state, .block = block};
    return role;
}

static struct role *on(struct role *role, int fd) {
    role->fds[role->count++] = fd;
    return role;
}

static struct role *end(struct role *role, int pid, int fd) {
    role->ends[role->end_count].pid = pid;
    role->ends[role->end_count++].fd = fd;
    return role;
}

static struct role *says(struct role *role, const char *words) {
    snprintf(role->words, sizeof role->words, "%s", words);
    snprintf(role->core, sizeof role->core, "%s", words);
    return role;
}

/* -- the calls; each has the descriptor of its role, and all may be repeated --------------------------------------- */

static char room[1 << 16];
static struct sockaddr_un full_address;
static int semaphores, full_queue, empty_queue;
static aio_context_t context;
static unsigned int words_waited_for[4];
static struct { uint64_t value, address; uint32_t flags, reserved; } vector[3];
static struct pollfd two_polled[2], one_polled[1];

/* eight bytes, since eventfd and timerfd give no less */
static long block_read(struct role *r) { return read(r->fds[0], room, 8); }
static long block_readv(struct role *r) { return readv(r->fds[0], &(struct iovec){room, 1}, 1); }
static long block_write(struct role *r) { return write(r->fds[0], room, sizeof room); }
static long block_recv(struct role *r) { return recv(r->fds[0], room, 1, 0); }
static long block_recvmsg(struct role *r) {
    struct iovec part = {room, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    return recvmsg(r->fds[0], &message, 0);
}
static long block_send(struct role *r) { return send(r->fds[0], room, sizeof room, 0); }
static long block_accept(struct role *r) { return accept(r->fds[0], NULL, NULL); }
static long block_accept4(struct role *r) { return accept4(r->fds[0], NULL, NULL, SOCK_CLOEXEC); }
static long block_connect(struct role *r) {
    return connect(r->fds[0], (struct sockaddr *)&full_address, sizeof full_address);
}
static long block_poll_one(struct role *r) {
    (void)r;
    return poll(one_polled, 1, -1);
}
static long block_poll_two(struct role *r) {
    (void)r;
    return poll(two_polled, 2, 1000000000);
}
static long block_ppoll(struct role *r) {
    struct pollfd polled = {r->fds[0], POLLIN, 0};
    return ppoll(&polled, 1, &(struct timespec){1000000, 0}, NULL);
}
static long block_poll_nothing(struct role *r) {
    (void)r;
    return poll(NULL, 0, 1000000500);
}
static fd_set two_selected;
static long block_select(struct role *r) {
    two_selected = (fd_set){0};
    FD_SET(r->fds[0], &two_selected);
    FD_SET(r->fds[1], &two_selected);
    return select((r->fds[0] > r->fds[1] ? r->fds[0] : r->fds[1]) + 1, &two_selected, NULL, NULL, NULL);
}
static long block_select_nothing(struct role *r) {
    (void)r;
    return select(0, NULL, NULL, NULL, &(struct timeval){999999, 500000});
}
static long block_epoll(struct role *r) {
    struct epoll_event event;
    return epoll_wait(r->fds[0], &event, 1, 1000000000);
}
static long block_epoll_pwait2(struct role *r) {
    struct epoll_event event;
    return syscall(NUMBER_EPOLL_PWAIT2, r->fds[0], &event, 1, NULL, NULL, 0);
}
static struct flock range_wanted = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 100, .l_len = 10};
static struct flock file_wanted = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
static long block_flock(struct role *r) { return flock(r->fds[0], LOCK_EX); }
static long block_lock(struct role *r) {
    return fcntl(r->fds[0], F_SETLKW, &range_wanted);
}
static long block_open_lock(struct role *r) {
    return fcntl(r->fds[0], F_OFD_SETLKW, &file_wanted);
}
static long block_wait4(struct role *r) {
    (void)r;
    return waitpid(keeper, NULL, 0);
}
static long block_wait_any(struct role *r) {
    (void)r;
    return wait(NULL);
}
static long block_waitid(struct role *r) {
    siginfo_t info;
    return waitid((idtype_t)WAITID_PIDFD, (id_t)r->fds[0], &info, WEXITED | WNOWAIT);
}
static long block_sleep(struct role *r) {
    (void)r;
    return clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){1000000, 500000000}, NULL) ? -1 : 0;
}
static long block_sleep_until(struct role *r) {
    (void)r;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    now.tv_sec += 999999;
    errno = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &now, NULL);
    return errno ? -1 : 0;
}
static long block_nanosleep(struct role *r) {
    (void)r;
    return syscall(SYS_nanosleep, &(struct timespec){2000000, 0}, NULL);
}
static long block_pause(struct role *r) {
    (void)r;
    return pause();
}
static long block_suspend(struct role *r) {
    (void)r;
    sigset_t none;
    sigemptyset(&none);
    return sigsuspend(&none);
}
static long block_sigwait(struct role *r) {
    (void)r;
    sigset_t some;
    siginfo_t info;
    sigemptyset(&some);
    sigaddset(&some, SIGUSR1);
    sigaddset(&some, SIGUSR2);
    return sigwaitinfo(&some, &info);
}
static long block_semop(struct role *r) {
    (void)r;
    return semop(semaphores, &(struct sembuf){0, -1, 0}, 1);
}
static long block_msgrcv(struct role *r) {
    (void)r;
    struct { long type; char text[1]; } message;
    return msgrcv(empty_queue, &message, 1, 0, 0);
}
static long block_msgsnd(struct role *r) {
    (void)r;
    struct { long type; char text[1024]; } message = {1, {0}};
    return msgsnd(full_queue, &message, sizeof message.text, 0);
}
static long block_open(struct role *r) {
    (void)r;
    return open("nobody-writes", O_RDONLY);
}
static long block_splice(struct role *r) { return splice(r->fds[0], NULL, r->fds[1], NULL, 1, 0); }
static long block_getevents(struct role *r) {
    (void)r;
    struct io_event event;
    return syscall(SYS_io_getevents, context, 1, 1, &event, NULL);
}
static long block_uring(struct role *r) {
    return syscall(NUMBER_IO_URING_ENTER, r->fds[0], 0, 1, 1 /* IORING_ENTER_GETEVENTS */, NULL, 0);
}
static long block_mq(struct role *r) { return syscall(SYS_mq_timedreceive, r->fds[0], room, 16, NULL, NULL); }
static long block_waitv(struct role *r) {
    (void)r;
    return syscall(NUMBER_FUTEX_WAITV, vector, 2, 0, NULL, 0);
}
static long block_waitv_one(struct role *r) {
    (void)r;
    return syscall(NUMBER_FUTEX_WAITV, vector + 2, 1, 0, NULL, 0);
}
static long block_futex_wait(struct role *r) {
    (void)r;
    return syscall(NUMBER_FUTEX_WAIT, &words_waited_for[3], 0UL, 0xffffffffUL, FUTEX2_U32_PRIVATE, NULL, 0);
}
#ifdef SECCOMP_IOCTL_NOTIF_RECV
static long block_ioctl(struct role *r) {
    struct seccomp_notif request = {0};
    return ioctl(r->fds[0], SECCOMP_IOCTL_NOTIF_RECV, &request);
}
#endif

/* -- what they wait for -------------------------------------------------------------------------------------------- */

static void fill(int fd) {
    int flags = MUST(fcntl(fd, F_GETFL));
    MUST(fcntl(fd, F_SETFL, flags | O_NONBLOCK));
    while (write(fd, room, sizeof room) > 0)
        ;
    while (write(fd, room, 1) > 0)
        ;
    MUST(fcntl(fd, F_SETFL, flags));
}

static struct sockaddr_in loopback(void) {
    return (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static int tcp_listener(struct sockaddr_in *address) {
    socklen_t size = sizeof *address;
    int fd = MUST(socket(AF_INET, SOCK_STREAM, 0));
    *address = loopback();
    MUST(bind(fd, (struct sockaddr *)address, size));
    MUST(listen(fd, 1));
    MUST(getsockname(fd, (struct sockaddr *)address, &size));
    return fd;
}

static int unix_listener(const char *path, int backlog, struct sockaddr_un *address) {
    int fd = MUST(socket(AF_UNIX, SOCK_STREAM, 0));
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    strcpy(address->sun_path, path);
    MUST(bind(fd, (struct sockaddr *)address, sizeof *address));
    MUST(listen(fd, backlog));
    return fd;
}

/* What the child does: keep what it was given until its parent is gone. */
static void end_keeping(int number) {
    (void)number;
    semctl(semaphores, 0, IPC_RMID);
    msgctl(full_queue, IPC_RMID, NULL);
    msgctl(empty_queue, IPC_RMID, NULL);
    _exit(0);
}

static void keep(pid_t parent, const int *not_mine, int count, const char *fifo, int told, int *fifo_fd) {
    signal(SIGTERM, end_keeping);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    prctl(PR_SET_NAME, "keeper");
    if (getppid() != parent)
        end_keeping(SIGTERM);
    for (int i = 0; i < count; i++)
        close(not_mine[i]);
    MUST(flock(MUST(open("flocked", O_RDWR)), LOCK_EX));
    MUST(fcntl(MUST(open("locked", O_RDWR)), F_SETLK,
               &(struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 105, .l_len = 1}));
    *fifo_fd = MUST(open(fifo, O_WRONLY));
    MUST(write(told, fifo_fd, sizeof *fifo_fd));
    for (;;)
        pause();
}

static void prepare(void) {
    int given[2], pair[2], full_pair[2], own[2], full[2], fifo_fd = -1, self = getpid();
    struct sockaddr_in address;
    struct sockaddr_un path;

    /* shared with the child */
    for (const char *const *file = (const char *const[]){"flocked", "locked", "open-locked", NULL}; *file; file++)
        close(MUST(open(*file, O_RDWR | O_CREAT, 0600)));
    MUST(mkfifo("fifo", 0600));
    MUST(mkfifo("nobody-writes", 0600));
    semaphores = MUST(semget(IPC_PRIVATE, 1, 0600));
    full_queue = MUST(msgget(IPC_PRIVATE, 0600));
    empty_queue = MUST(msgget(IPC_PRIVATE, 0600));
    MUST(pipe(given));
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    int fifo = MUST(open("fifo", O_RDONLY | O_NONBLOCK));
    MUST(fcntl(fifo, F_SETFL, 0));
    keeper = MUST(fork());
    if (!keeper)
        keep(self, (int[]){0, 1, given[0], pair[0], fifo}, 5, "fifo", given[1], &fifo_fd);
    close(given[1]);
    close(pair[1]);
    if (read(given[0], &fifo_fd, sizeof fifo_fd) != sizeof fifo_fd)
        fail("the keeper");

    end(on(add("pipe-child", "read", SYS_read, "waiting to read", block_read), given[0]), keeper, given[1]);
    end(on(add("pair-child", "recvfrom", SYS_recvfrom, "waiting to read", block_recv), pair[0]), keeper, pair[1]);
    end(on(add("fifo", "read", SYS_read, "waiting to read", block_read), fifo), keeper, fifo_fd);

    /* this process alone */
    MUST(pipe(own));
    end(on(add("pipe-self", "readv", SYS_readv, "waiting to read", block_readv), own[0]), self, own[1]);
    MUST(pipe(full));
    fill(full[1]);
    end(on(add("pipe-full", "write", SYS_write, "waiting to write", block_write), full[1]), self, full[0]);
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, full_pair));
    fill(full_pair[0]);
    end(on(add("pair-full", "sendto", SYS_sendto, "waiting to write", block_send), full_pair[0]), self, full_pair[1]);

    int listener = tcp_listener(&address);
    int client = MUST(socket(AF_INET, SOCK_STREAM, 0));
    MUST(connect(client, (struct sockaddr *)&address, sizeof address));
    int served = MUST(accept(listener, NULL, NULL));
    end(on(add("tcp", "recvmsg", SYS_recvmsg, "waiting to read", block_recvmsg), client), self, served);
    struct sockaddr_in queue_address;
    int queue = tcp_listener(&queue_address);
    int queued = MUST(socket(AF_INET, SOCK_STREAM, 0));
    MUST(connect(queued, (struct sockaddr *)&queue_address, sizeof queue_address));
    end(on(add("tcp-queued", "recvfrom", SYS_recvfrom, "waiting to read", block_recv), queued), self, queue);
    on(add("tcp-accept", "accept", SYS_accept, "waiting for a connection", block_accept), listener);
    int datagrams = MUST(socket(AF_INET, SOCK_DGRAM, 0));
    struct sockaddr_in any_port = loopback();
    MUST(bind(datagrams, (struct sockaddr *)&any_port, sizeof any_port));
    on(add("udp", "recvfrom", SYS_recvfrom, "waiting to read", block_recv), datagrams);
    on(add("unix-accept", "accept4", SYS_accept4, "waiting for a connection", block_accept4),
       unix_listener("unix-accept", 1, &path));

    char text[120];
    snprintf(text, sizeof text, "unix-queue-%d", self);
    queue = unix_listener(text, 1, &path);
    queued = MUST(socket(AF_UNIX, SOCK_STREAM, 0));
    MUST(connect(queued, (struct sockaddr *)&path, sizeof path));
    end(on(add("unix-queued", "recvfrom", SYS_recvfrom, "waiting to read", block_recv), queued), self, queue);
    snprintf(text, sizeof text, "unix-full-%d", self);
    int crowded = unix_listener(text, 0, &full_address);
    MUST(connect(MUST(socket(AF_UNIX, SOCK_STREAM, 0)), (struct sockaddr *)&full_address, sizeof full_address));
    end(on(add("unix-connect", "connect", SYS_connect, "connecting", block_connect),
           MUST(socket(AF_UNIX, SOCK_STREAM, 0))), self, crowded);

    one_polled[0] = (struct pollfd){own[0], POLLIN, 0};
    end(on(add("poll-one", "poll", SYS_poll, "waiting for events", block_poll_one), own[0]), self, own[1]);
    two_polled[0] = (struct pollfd){given[0], POLLIN, 0};
    two_polled[1] = (struct pollfd){client, POLLIN, 0};
    struct role *role = on(on(add("poll-two", "poll", SYS_poll, "waiting for events", block_poll_two), given[0]), client);
    end(role, keeper, given[1]);
    role->at = two_polled;
    role->timed = 1;
    role = end(on(add("ppoll", "ppoll", SYS_ppoll, "waiting for events", block_ppoll), client), self, served);
    role->timed = 1;
    int events = MUST(eventfd(0, 0)), timer = MUST(timerfd_create(CLOCK_MONOTONIC, 0));
    role = on(on(add("select", "pselect6", SYS_pselect6, "waiting for events", block_select), events), timer);
    role->at = &two_selected;
    int set = MUST(epoll_create1(0));
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, own[0], &(struct epoll_event){.events = EPOLLIN}));
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, client, &(struct epoll_event){.events = EPOLLIN}));
    role = on(add("epoll", "epoll_wait", SYS_epoll_wait, "waiting for events", block_epoll), set);
    role->timed = 1;
    on(add("eventfd", "read", SYS_read, "waiting to read", block_read), events);
    MUST(timerfd_settime(timer, 0, &(struct itimerspec){.it_value = {1000000, 0}}, NULL));
    on(add("timerfd", "read", SYS_read, "waiting to read", block_read), timer);

    role = on(add("flock", "flock", SYS_flock, "file-lock", block_flock), MUST(open("flocked", O_RDWR)));
    role->locked_by = keeper;
    role = on(add("lock", "fcntl", SYS_fcntl, "file-lock", block_lock), MUST(open("locked", O_RDWR)));
    role->locked_by = keeper;
    role->at = &range_wanted;
    int locking = MUST(open("open-locked", O_RDWR));
    MUST(fcntl(locking, F_OFD_SETLK, &(struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET}));
    role = on(add("open-lock", "fcntl", SYS_fcntl, "file-lock", block_open_lock),
           MUST(open("open-locked", O_RDWR)));
    role->at = &file_wanted;
    end(role, self, locking);

    int from[2], to[2];
    MUST(pipe(from));
    MUST(pipe(to));
    end(on(on(add("splice", "splice", SYS_splice, "waiting to copy", block_splice), from[0]), to[1]), self, from[1]);

    /* no descriptor */
    role = says(add("wait4", "wait4", SYS_wait4, NULL, block_wait4), "");
    snprintf(role->words, sizeof role->words, "waits for child process %d \\\"keeper\\\"", keeper);
    snprintf(role->core, sizeof role->core, "waits for child process %d", keeper);
    role = says(add("wait-any", "wait4", SYS_wait4, NULL, block_wait_any), "waits for any child process");
    snprintf(role->words, sizeof role->words, "waits for any child: process %d \\\"keeper\\\"", keeper);
    role = says(add("sleep", "clock_nanosleep", SYS_clock_nanosleep, NULL, block_sleep), "sleeps for 1000000.5 s");
    role->timed = 1;
    role = says(add("sleep-until", "clock_nanosleep", SYS_clock_nanosleep, NULL, block_sleep_until), "sleeps for 9999");
    snprintf(role->core, sizeof role->core, "sleeps until a set time");
    role->timed = 1;
    says(add("nanosleep", "nanosleep", SYS_nanosleep, NULL, block_nanosleep), "sleeps for 2000000 s")->timed = 1;
    says(add("poll-nothing", "poll", SYS_poll, NULL, block_poll_nothing), "sleeps for 1000000.5 s")->timed = 1;
    says(add("select-nothing", "pselect6", SYS_pselect6, NULL, block_select_nothing), "sleeps for 9999")->timed = 1;
    says(add("pause", "pause", SYS_pause, NULL, block_pause), "waits for a signal");
    says(add("sigsuspend", "rt_sigsuspend", SYS_rt_sigsuspend, NULL, block_suspend), "waits for a signal");
    says(add("sigwait", "rt_sigtimedwait", SYS_rt_sigtimedwait, NULL, block_sigwait), "waits for SIGUSR1 or SIGUSR2");
    snprintf(text, sizeof text, "waits for System V semaphore set %d", semaphores);
    says(add("semop", "semtimedop", SYS_semtimedop, NULL, block_semop), text);
    snprintf(text, sizeof text, "waits for a message in System V queue %d", empty_queue);
    says(add("msgrcv", "msgrcv", SYS_msgrcv, NULL, block_msgrcv), text);
    struct { long type; char text[1024]; } message = {1, {0}};
    while (!msgsnd(full_queue, &message, sizeof message.text, IPC_NOWAIT))
        ;
    snprintf(text, sizeof text, "waits for room in System V queue %d", full_queue);
    says(add("msgsnd", "msgsnd", SYS_msgsnd, NULL, block_msgsnd), text);
    says(add("open", "openat", SYS_openat, NULL, block_open), "opens nobody-writes to read");

    /* not every kernel, or not everybody, has these */
    int fd = syscall(NUMBER_PIDFD_OPEN, keeper, 0);
    if (fd != -1) {
        role = add("waitid", "waitid", SYS_waitid, NULL, block_waitid);
        role->fds[0] = fd;
        snprintf(role->words, sizeof role->words, "waits for child process %d \\\"keeper\\\"", keeper);
        snprintf(role->core, sizeof role->core, "waits for the child process of fd %d", fd);
    }
    if (!syscall(SYS_io_setup, 1, &context))
        says(add("getevents", "io_getevents", SYS_io_getevents, NULL, block_getevents), "waits for asynchronous I/O");
    static unsigned char parameters[120];
    fd = syscall(NUMBER_IO_URING_SETUP, 1, parameters);
    if (fd != -1)
        on(add("uring", "io_uring_enter", NUMBER_IO_URING_ENTER, "waiting for completions", block_uring), fd);
    struct { long flags, most, size, now, reserved[4]; } attributes = {.most = 1, .size = 16};
    snprintf(text, sizeof text, "gdbext-%d", self);
    fd = syscall(SYS_mq_open, text, O_RDWR | O_CREAT | O_EXCL, 0600, &attributes);
    if (fd != -1) {
        syscall(SYS_mq_unlink, text);
        on(add("mq", "mq_timedreceive", SYS_mq_timedreceive, "waiting to read", block_mq), fd);
    }
#ifdef SECCOMP_IOCTL_NOTIF_RECV
    struct sock_filter allow[] = {{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
    struct sock_fprog filter = {1, allow};
    if (!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) {
        fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &filter);
        if (fd != -1) {
            role = on(add("ioctl", "ioctl", SYS_ioctl, "waiting in ioctl", block_ioctl), fd);
            role->request = SECCOMP_IOCTL_NOTIF_RECV;
        }
    }
#endif
    fd = syscall(NUMBER_EPOLL_PWAIT2, set, one_polled, 0, NULL, NULL, 0);
    if (errno == EINVAL)
        on(add("epoll_pwait2", "epoll_pwait2", NUMBER_EPOLL_PWAIT2, "waiting for events", block_epoll_pwait2), set);
    for (int i = 0; i < 3; i++) {
        vector[i].address = (uintptr_t)&words_waited_for[i];
        vector[i].flags = FUTEX2_U32_PRIVATE;
    }
    if (syscall(NUMBER_FUTEX_WAITV, vector, 0, 0, NULL, 0) == -1 && errno == EINVAL) {
        snprintf(text, sizeof text, "waits for any of the futex words %p, %p", (void *)&words_waited_for[0],
                 (void *)&words_waited_for[1]);
        says(add("waitv", "futex_waitv", NUMBER_FUTEX_WAITV, NULL, block_waitv), text);
        add("waitv-one", "futex_waitv", NUMBER_FUTEX_WAITV, "waited for", block_waitv_one)->at = &words_waited_for[2];
    }
    if (syscall(NUMBER_FUTEX_WAIT, &words_waited_for[3], 1UL, 0xffffffffUL, FUTEX2_U32_PRIVATE, NULL, 0) == -1 && errno == EAGAIN)
        add("futex-wait", "futex_wait", NUMBER_FUTEX_WAIT, "waited for", block_futex_wait)->at = &words_waited_for[3];

    /* the main thread's own */
    on(add("main", "read", SYS_read, "waiting to read", NULL), 0);
}

static void *serve(void *argument) {
    struct role *role = argument;
    role->tid = thread_id();
    advance(&ready);
    while (role->block(role) == -1 && errno == EINTR)
        ;
    __atomic_store_n(&role->returned, 1, __ATOMIC_RELEASE);
    return NULL;
}

/* -- the truth ----------------------------------------------------------------------------------------------------- */

/* What a descriptor is, in words of the sample's own. */
static void tell_what(int fd) {
    char link[100], path[40];
    struct stat info;
    struct sockaddr_storage near = {0}, far = {0};
    socklen_t near_size = sizeof near, far_size = sizeof far;
    int type = 0, listens = 0;
    socklen_t size = sizeof type;

    if (!fstat(fd, &info) && S_ISSOCK(info.st_mode)) {
        getsockname(fd, (struct sockaddr *)&near, &near_size);
        int connected = !getpeername(fd, (struct sockaddr *)&far, &far_size);
        getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size);
        getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size);
        if (near.ss_family == AF_UNIX) {
            struct sockaddr_un *unix_name = (struct sockaddr_un *)&near;
            if (near_size > offsetof(struct sockaddr_un, sun_path))
                printf("socket %s (unix%s)", unix_name->sun_path, listens ? ", listening" : "");
            else
                printf("socket:[%lu] (unix)", (unsigned long)info.st_ino);
            return;
        }
        struct sockaddr_in *name = (struct sockaddr_in *)&near;
        printf("socket 127.0.0.1:%d", ntohs(name->sin_port));
        if (connected)
            printf(" -> 127.0.0.1:%d", ntohs(((struct sockaddr_in *)&far)->sin_port));
        printf(" (%s%s)", type == SOCK_STREAM ? "TCP" : "UDP", listens ? ", listening" : "");
        return;
    }
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(path, link, sizeof link - 1);
    link[length < 0 ? 0 : length] = 0;
    if (!strncmp(link, "anon_inode:[", 12))
        printf("%.*s", (int)strlen(link) - 13, link + 12);
    else if (!strncmp(link, "anon_inode:", 11))
        printf("%s", link + 11);
    else
        printf("%s", link);
}

static void tell_role(const char *separator, const struct role *role) {
    printf("%s\"%s\": {\"tid\": %ld, \"syscall\": \"%s\", \"number\": %ld, \"timed\": %s, \"state\": ", separator, role->name,
           role->tid, role->call, role->number, role->timed ? "true" : "false");
    printf(role->state ? "\"%s\"" : "null", role->state);
    printf(", \"fds\": [");
    for (int i = 0; i < role->count; i++) {
        printf("%s[%d, \"", i ? ", " : "", role->fds[i]);
        tell_what(role->fds[i]);
        printf("\"]");
    }
    printf("], \"ends\": [");
    for (int i = 0; i < role->end_count; i++)
        printf("%s[%d, %d]", i ? ", " : "", role->ends[i].pid, role->ends[i].fd);
    printf("], \"at\": ");
    printf(role->at ? "\"%p\"" : "null", role->at);
    printf(", \"locked_by\": ");
    printf(role->locked_by ? "%d" : "null", role->locked_by);
    printf(", \"request\": \"%#x\", \"words\": ", role->request);
    printf(*role->words ? "\"%s\"" : "null", role->words);
    printf(", \"core\": ");
    printf(*role->core ? "\"%s\"}" : "null}", role->core);
}

static void tell(void) {
    tell_start("blocked", "all");
    for (int i = 0; i < role_count; i++)
        tell_thread(i ? ", " : "", roles[i].name, roles[i].tid, NULL, 1, NULL, "[]");
    tell_locks();
    tell_end("[]");
    printf("{\"keeper\": %d, \"connects_to\": \"%s\", \"roles\": {", (int)keeper, full_address.sun_path);
    for (int i = 0; i < role_count; i++)
        tell_role(i ? ", " : "", &roles[i]);
    printf("}}\n");
    fflush(stdout);
}

int main(void) {
    /* no thread here must end by a signal that another thread waits for */
    sigset_t some;
    sigemptyset(&some);
    sigaddset(&some, SIGUSR1);
    sigaddset(&some, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &some, NULL);
    prepare();
    for (int i = 0; i < role_count - 1; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, serve, &roles[i]))
            return 1;
    }
    await(&ready, role_count - 1);
    roles[role_count - 1].tid = thread_id();
    tell();

    char byte;
    while (read(0, &byte, 1) == -1 && errno == EINTR)
        ;
    printf("{\"returned\": [");
    for (int i = 0, told = 0; i < role_count; i++)
        if (__atomic_load_n(&roles[i].returned, __ATOMIC_ACQUIRE))
            printf("%s\"%s\"", told++ ? ", " : "", roles[i].name);
    printf("]}\n");
    fflush(stdout);
    kill(keeper, SIGTERM);
    return 0;
}
