/* Locks whose recorded owner does not exist: left behind by fork, ended, in another process, or with a reused TID.
 *
 *     owners [namespace] here SCENE...
 *     owners [namespace] fork|orphaned SCENE...
 *     owners [namespace] run PROGRAM ARGUMENT...
 *
 * `here` plays scenes in a child process. `fork` plays others in a child of a process whose threads had locks when it
 * called fork; with `orphaned` that process has ended. `run` runs another program as a child. With `namespace` all that is
 * in a PID namespace of its own, which takes root. Prints one JSON line about the innermost process, see
 * tests/support/samples.py, and then hangs; ends as that process ends.
 */
#define _GNU_SOURCE
#include "scenes.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* -- processes -- */

static void die_with(pid_t parent) {
    insist(!prctl(PR_SET_PDEATHSIG, SIGKILL), "no signal when the parent dies");
    // the parent of the first process of a PID namespace has no number there
    if (getppid() != parent && getppid() != 0)
        _exit(3);
}

/* A child process that does not outlive this one; returns in both, like fork. */
static pid_t fork_child(void) {
    pid_t parent = getpid(), child = fork();
    insist(child >= 0, "no child process");
    if (!child)
        die_with(parent);
    return child;
}

/* End as a child did, but write no core: the child has written one. */
static void end_like(int status) {
    struct rlimit none = {0, 0};
    int number = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status) > 128 ? WEXITSTATUS(status) - 128 : 0;
    if (number) {
        setrlimit(RLIMIT_CORE, &none);
        raise(number);
        // such signals do not end the first process of a PID namespace
        _exit(128 + number);
    }
    _exit(WEXITSTATUS(status));
}

/* Children of children come here too, before and after. If the child itself ended well, the first of them that did not
   is the one that counts: those of a child that dies are killed, and may be gone before it is. */
static void end_like_child(pid_t child) {
    int status, own = 0, other = 0;
    for (pid_t ended; (ended = wait(&status)) > 0 || errno == EINTR;) {
        if (ended == child)
            own = status;
        else if (ended > 0 && !other)
            other = status;
    }
    end_like(own ? own : other);
}

/* The process that started this one may set the limit only after the fork. */
static void allow_core(void) {
    struct rlimit limit;
    getrlimit(RLIMIT_CORE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_CORE, &limit);
}

/* -- threads that want a lock -- */

static void *want_mutex(void *lock) {
    pthread_mutex_lock(lock);
    return NULL;
}

static void *want_write(void *lock) {
    pthread_rwlock_wrlock(lock);
    return NULL;
}

static void *want_read(void *lock) {
    pthread_rwlock_rdlock(lock);
    return NULL;
}

static void *want_file(void *file) {
    flockfile(file);
    return NULL;
}

static void start_waiter(void *(*want)(void *), void *lock, const void *address, size_t size) {
    settle_on(start("waiter", want, lock), address, size);
}

/* That a TID was one of a thread that has ended is written nowhere. */
static const char *evidence_of(const char *orphan) {
    return orphan && !strcmp(orphan, "thread exited") ? "inferred" : NULL;
}

static void tell_mutex(const pthread_mutex_t *mutex, const char *orphan) {
    LOCK(.name = "lock", .kind = "mutex", .address = mutex, .state = "locked", .waiters = "waiter", .orphan = orphan,
         .evidence = evidence_of(orphan));
    if (orphan)
        note_edge("waiter", "lock", NULL);
}

static void tell_rwlock(const pthread_rwlock_t *lock, const char *orphan, const char *shared) {
    LOCK(.name = "lock", .kind = "rwlock", .address = lock, .state = "write-locked", .waiters = "waiter",
         .shared = shared, .orphan = orphan, .evidence = evidence_of(orphan));
    if (orphan)
        note_edge("waiter", "lock", NULL);
}

/* -- locks of threads that fork does not take along -- */

static pthread_mutex_t left_mutex = PTHREAD_MUTEX_INITIALIZER, left_robust, forker_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t left_written = PTHREAD_RWLOCK_INITIALIZER, left_read = PTHREAD_RWLOCK_INITIALIZER;
static int all_held;

static void make_robust(pthread_mutex_t *mutex) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    insist(!pthread_mutex_init(mutex, &attributes), "no mutex");
}

static void *hold_all(void *argument) {
    (void)argument;
    pthread_mutex_lock(&left_mutex);
    pthread_mutex_lock(&left_robust);
    pthread_rwlock_wrlock(&left_written);
    pthread_rwlock_rdlock(&left_read);
    advance(&all_held);
    pause();
    return NULL;
}

static int scene_left_mutex(void) {
    start_waiter(want_mutex, &left_mutex, &left_mutex, sizeof left_mutex);
    tell_mutex(&left_mutex, "left behind by fork");
    return 1;
}

static int scene_left_robust(void) {
    start_waiter(want_mutex, &left_robust, &left_robust, sizeof left_robust);
    tell_mutex(&left_robust, "left behind by fork");
    return 1;
}

static int scene_left_written(void) {
    start_waiter(want_read, &left_written, &left_written, sizeof left_written);
    tell_rwlock(&left_written, "left behind by fork", "waiter");
    return 1;
}

/* One reader is counted, and so is another one that does not exist. */
static int scene_left_read(void) {
    start_waiter(want_write, &left_read, &left_read, sizeof left_read);
    LOCK(.name = "lock", .kind = "rwlock", .address = &left_read, .state = "read-locked", .mode = "shared",
         .waiters = "waiter");
    return 1;
}

/* The thread that called fork goes on in the child, and with it what it holds, but under another number. */
static int scene_forker(void) {
    start_waiter(want_mutex, &forker_mutex, &forker_mutex, sizeof forker_mutex);
    LOCK(.name = "lock", .kind = "mutex", .address = &forker_mutex, .state = "locked", .waiters = "waiter");
    return 1;
}

/* -- locks of threads that have ended -- */

struct leaver {
    void (*take)(void *);
    void *lock;
    int took;
    int told_to_leave;
};

static void *take_and_leave(void *argument) {
    struct leaver *leaver = argument;
    leaver->take(leaver->lock);
    advance(&leaver->took);
    await(&leaver->told_to_leave, 1);
    return NULL;
}

static void lock_mutex(void *mutex) { pthread_mutex_lock(mutex); }
static void lock_to_write(void *lock) { pthread_rwlock_wrlock(lock); }
static void lock_file(void *file) { flockfile(file); }

static pthread_t start_leaver(struct leaver *leaver) {
    pthread_t thread;
    insist(!pthread_create(&thread, NULL, take_and_leave, leaver), "no thread");
    await(&leaver->took, 1);
    return thread;
}

/* The number is free when the kernel lists the thread no more, which is after pthread_join has returned. */
static void await_end(long tid) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%ld", tid);
    while (!access(path, F_OK))
        sched_yield();
}

static int scene_exited_mutex(void) {
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static struct leaver leaver = {lock_mutex, &mutex, 0, 1};
    pthread_join(start_leaver(&leaver), NULL);
    start_waiter(want_mutex, &mutex, &mutex, sizeof mutex);
    tell_mutex(&mutex, "thread exited");
    return 1;
}

/* Its descriptor stays until somebody joins it, and nobody does. */
static int scene_exited_unjoined(void) {
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static struct leaver leaver = {lock_mutex, &mutex, 0, 1};
    start_leaver(&leaver);
    await_end(mutex.__data.__owner);
    start_waiter(want_mutex, &mutex, &mutex, sizeof mutex);
    tell_mutex(&mutex, "thread exited");
    return 1;
}

static int scene_exited_writer(void) {
    static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
    static struct leaver leaver = {lock_to_write, &lock, 0, 1};
    pthread_join(start_leaver(&leaver), NULL);
    start_waiter(want_write, &lock, &lock, sizeof lock);
    tell_rwlock(&lock, "thread exited", NULL);
    return 1;
}

/* The owner is a descriptor and not a number here, which the next thread may get: it waits before the owner ends. */
static int scene_exited_stdio(void) {
    static struct leaver leaver = {lock_file, NULL, 0, 0};
    FILE *file = fopen("/dev/null", "w");
    insist(file != NULL, "no /dev/null");
    leaver.lock = file;
    pthread_t owner = start_leaver(&leaver);
    start_waiter(want_file, file, file->_lock, 4);
    advance(&leaver.told_to_leave);
    pthread_join(owner, NULL);
    LOCK(.name = "lock", .kind = "stdio", .address = file->_lock, .state = "locked", .waiters = "waiter",
         .orphan = "thread exited");
    note_edge("waiter", "lock", NULL);
    return 1;
}

/* -- robust mutexes, whose end the kernel notes -- */

static int scene_robust_died(void) {
    static pthread_mutex_t mutex;
    static struct leaver leaver = {lock_mutex, &mutex, 0, 1};
    make_robust(&mutex);
    pthread_join(start_leaver(&leaver), NULL);
    // nobody has noticed so far
    LOCK(.name = "lock", .kind = "mutex", .address = &mutex, .state = "its owner died");
    return 1;
}

static pthread_mutex_t inherited;

static void *inherit(void *argument) {
    (void)argument;
    insist(pthread_mutex_lock(&inherited) == EOWNERDEAD, "the owner lives");
    rest();
    return NULL;
}

/* Who comes next has it, though it knows that something is wrong. */
static int scene_robust_inherited(void) {
    static struct leaver leaver = {lock_mutex, &inherited, 0, 1};
    make_robust(&inherited);
    pthread_join(start_leaver(&leaver), NULL);
    settle_at_rest(start("heir", inherit, NULL));
    start_waiter(want_mutex, &inherited, &inherited, sizeof inherited);
    LOCK(.name = "lock", .kind = "mutex", .address = &inherited, .state = "locked", .holders = "heir",
         .waiters = "waiter");
    return 1;
}

/* -- locks of another process -- */

static struct shared {
    pthread_mutex_t mutex, robust;
    pthread_rwlock_t rwlock;
    sig_atomic_t held;
} *shared;

static void share(void) {
    if (shared)
        return;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    insist(shared != MAP_FAILED, "no shared memory");
    pthread_mutexattr_t mutexes;
    pthread_mutexattr_init(&mutexes);
    pthread_mutexattr_setpshared(&mutexes, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&shared->mutex, &mutexes);
    pthread_mutexattr_setrobust(&mutexes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&shared->robust, &mutexes);
    pthread_rwlockattr_t rwlocks;
    pthread_rwlockattr_init(&rwlocks);
    pthread_rwlockattr_setpshared(&rwlocks, PTHREAD_PROCESS_SHARED);
    pthread_rwlock_init(&shared->rwlock, &rwlocks);
    if (!fork_child()) {
        pthread_mutex_lock(&shared->mutex);
        pthread_mutex_lock(&shared->robust);
        pthread_rwlock_wrlock(&shared->rwlock);
        __atomic_store_n(&shared->held, 1, __ATOMIC_RELEASE);
        for (;;)
            pause();
    }
    while (!__atomic_load_n(&shared->held, __ATOMIC_ACQUIRE))
        sched_yield();
}

static int scene_elsewhere_mutex(void) {
    share();
    start_waiter(want_mutex, &shared->mutex, &shared->mutex, sizeof shared->mutex);
    tell_mutex(&shared->mutex, NULL);
    return 1;
}

static int scene_elsewhere_robust(void) {
    share();
    start_waiter(want_mutex, &shared->robust, &shared->robust, sizeof shared->robust);
    tell_mutex(&shared->robust, NULL);
    return 1;
}

static int scene_elsewhere_written(void) {
    share();
    start_waiter(want_write, &shared->rwlock, &shared->rwlock, sizeof shared->rwlock);
    tell_rwlock(&shared->rwlock, NULL, NULL);
    return 1;
}

/* -- a new thread with the number of one that has ended -- */

static void *just_rest(void *argument) {
    (void)argument;
    rest();
    return NULL;
}

/* The lock records a number, and a debugger can only report that number. */
static int scene_recycled(void) {
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static struct leaver leaver = {lock_mutex, &mutex, 0, 1};
    pthread_join(start_leaver(&leaver), NULL);
    long number = mutex.__data.__owner;
    await_end(number);
    start_waiter(want_mutex, &mutex, &mutex, sizeof mutex);
    int file = open("/proc/sys/kernel/ns_last_pid", O_WRONLY);
    insist(file >= 0 && dprintf(file, "%ld", number - 1) > 0, "the next number cannot be chosen");
    close(file);
    struct actor *namesake = start("namesake", just_rest, NULL);
    insist(namesake->tid == number, "somebody else got the number");
    settle_at_rest(namesake);
    LOCK(.name = "lock", .kind = "mutex", .address = &mutex, .state = "locked", .holders = "namesake", .really = "",
         .waiters = "waiter");
    return 1;
}

static const struct scene scenes[] = {
    {"left-mutex", scene_left_mutex}, {"left-robust", scene_left_robust}, {"left-written", scene_left_written},
    {"left-read", scene_left_read}, {"forker", scene_forker}, {"exited-mutex", scene_exited_mutex},
    {"exited-unjoined", scene_exited_unjoined}, {"exited-writer", scene_exited_writer},
    {"exited-stdio", scene_exited_stdio}, {"robust-died", scene_robust_died},
    {"robust-inherited", scene_robust_inherited}, {"elsewhere-mutex", scene_elsewhere_mutex},
    {"elsewhere-robust", scene_elsewhere_robust}, {"elsewhere-written", scene_elsewhere_written},
    {"recycled", scene_recycled},
};

static int play_scenes(char **names) {
    return play("owners", scenes, sizeof scenes / sizeof *scenes, names);
}

/* Fork while threads hold locks. */
static int play_after_fork(int stay, char **names) {
    pthread_t holder;
    pid_t grandparent = getppid();
    make_robust(&left_robust);
    insist(!pthread_create(&holder, NULL, hold_all, NULL), "no thread");
    await(&all_held, 1);
    pthread_mutex_lock(&forker_mutex);
    pid_t child = stay ? fork_child() : fork();
    insist(child >= 0, "no child process");
    if (child && stay)
        end_like_child(child);
    if (child)
        _exit(0);
    if (!stay) {
        while (getppid() != grandparent)
            sched_yield();
        die_with(grandparent);
    }
    return play_scenes(names);
}

/* Go on as the first process of a PID namespace. */
static void enter_namespace(void) {
    insist(!unshare(CLONE_NEWPID | CLONE_NEWNS), "no namespace");
    pid_t first = fork_child();
    if (first)
        end_like_child(first);
    insist(!mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL), "no mounts of its own");
    insist(!mount("proc", "/proc", "proc", 0, NULL), "no /proc");
}

int main(int argc, char **argv) {
    insist(argc >= 3, "usage: owners [namespace] here|fork|orphaned|run ...");
    if (!strcmp(argv[1], "namespace")) {
        ++argv;
        enter_namespace();
    }
    // children of a child that has ended become this process's
    insist(!prctl(PR_SET_CHILD_SUBREAPER, 1), "no subreaper");
    pid_t child = fork_child();
    if (child)
        end_like_child(child);
    allow_core();
    if (!strcmp(argv[1], "run"))
        return execv(argv[2], argv + 2);
    if (!strcmp(argv[1], "here"))
        return play_scenes(argv + 2);
    return play_after_fork(!strcmp(argv[1], "fork"), argv + 2);
}
